package bindsource

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/policy"
)

// TestRoots is the table of what belongs to the host's root: what may be mounted
// writable, under each value of binds.root.
func TestRoots(t *testing.T) {
	const pod = "/var/lib/kubelet/pods/" + podUID
	for _, c := range []struct {
		name string
		f    Fact
		may  string // r and w as in TestRefusal; R and W with binds.root = "nobody"
	}{
		{"/opt/cni/bin", Fact{Path: "/opt/cni/bin"}, "rRW"},
		{"/srv", Fact{Path: "/srv"}, "rRW"},
		{"/mnt/disk", Fact{Path: "/mnt/disk"}, "rRW"},
		{"/media/x", Fact{Path: "/media/x"}, "rRW"},
		{"/var/cache/x", Fact{Path: "/var/cache/x"}, "rRW"},
		{"/var/lib/myapp", Fact{Path: "/var/lib/myapp"}, "rRW"},
		{"/home/dev/project by sudo", Fact{Path: "/home/dev/project"}, "rRW"},
		{"a file", Fact{Path: "/srv/x", Kind: File}, "rRW"},
		{"a user's", Fact{Path: "/srv", UID: 1000}, "rwRW"},
		{"its group is root's", Fact{Path: "/srv", UID: 1000, GID: 0}, "rwRW"},
		{"a rootless user's own", Fact{Path: "/data/p", Rootless: true}, "rwRW"},
		{"/root", Fact{Path: "/root"}, ""},
		{"/root/project", Fact{Path: "/root/project"}, "RW"},
		{"/root/.ssh", Fact{Path: "/root/.ssh"}, ""},
		{"/root/.cache", Fact{Path: "/root/.cache"}, ""},
		{"/etc", Fact{Path: "/etc/x"}, ""},
		{"an engine's volume", Fact{Path: "/var/lib/docker/volumes/v/_data", Role: Volume}, "rwRW"},
		{"a volume of a storage that shows twice", Fact{Path: "/var/lib/docker/volumes/v/_data", Role: Volume, Also: "/data/docker/volumes/v/_data"}, "rwRW"},
		{"a volume that is root's directory", Fact{Path: "/var/lib/docker/volumes/v/_data", Role: Volume, Also: "/opt/cni/bin"}, "rRW"},
		{"an engine's own file", Fact{Path: "/x/hosts", Kind: File, Role: Injected}, "rwRW"},
		{"an emptyDir", Fact{Path: pod + "/volumes/kubernetes.io~empty-dir/x", Role: Pod, Pod: podUID, Plugin: "kubernetes.io~empty-dir"}, "rwRW"},
		{"a local volume", Fact{Path: pod + "/volumes/kubernetes.io~local-volume/x", Role: Pod, Pod: podUID, Plugin: "kubernetes.io~local-volume", Also: "/mnt/disk"}, "rwRW"},
		{"a subPath of a hostPath", Fact{Path: pod + "/volume-subpaths/host/main/0", Role: Pod, Pod: podUID, Also: "/opt/cni/bin"}, "rR"},
		{"a subPath of a user's hostPath", Fact{Path: pod + "/volume-subpaths/host/main/0", Role: Pod, Pod: podUID, Also: "/home/dev/project", UID: 1000}, "rR"},
		{"a hostPath", Fact{Path: "/opt/cni/bin", HostPath: true}, "rR"},
		{"a hostPath of a user's", Fact{Path: "/home/dev/project", HostPath: true, UID: 1000}, "rR"},
		{"a hostPath with keys", Fact{Path: "/home/dev/.ssh", HostPath: true, UID: 1000}, ""},
	} {
		if c.f.Kind == "" {
			c.f.Kind = Dir
		}
		for mode, letters := range map[string]string{policy.RootRefuse: "rw", policy.RootNobody: "RW", policy.RootAllow: "RW"} {
			for i, readOnly := range []bool{true, false} {
				why := text(Refusal(c.f, readOnly, policy.Binds{Root: mode}))
				if want := strings.Contains(c.may, letters[i:i+1]); (why == "") != want {
					t.Errorf("%s, read-only %v, binds.root = %s: %q", c.name, readOnly, mode, why)
				}
				if why != "" && !strings.Contains(why, "refused: ") || strings.Contains(why, "\n") {
					t.Errorf("%s: %q", c.name, why)
				}
				if strings.Contains(why, "host's root,") && (!strings.Contains(why, "remedy: chown") || !strings.Contains(why, "binds.allow") || !strings.Contains(why, "binds.root")) {
					t.Errorf("%s: no remedy in %q", c.name, why)
				}
			}
		}
		if why := text(Refusal(c.f, false, policy.Binds{Allow: []string{c.f.Path}})); why != "" {
			t.Errorf("%s, named by policy: %s", c.name, why)
		}
	}
}

// TestUserPlaces: each place of the table is refused below each kind of home, by
// what holds it, and wherever it is where its name states enough.
func TestUserPlaces(t *testing.T) {
	refuses := func(path string, readOnly bool) bool {
		return text(Refusal(Fact{Path: path, Kind: Dir, UID: 1000}, readOnly, policy.Binds{})) != ""
	}
	for _, p := range userPlaces {
		if p.kind == nil || p.by == "" || strings.HasPrefix(p.path, "/") {
			t.Errorf("%+v", p)
		}
		for _, home := range []string{"/home/dev", "/var/home/dev", "/Users/dev", "/export/home/dev"} {
			at := home + "/" + p.path
			for _, path := range []string{at, at + "/below", at[:strings.LastIndex(at, "/")]} {
				if !refuses(path, false) || p.kind.reads && !refuses(path, true) {
					t.Errorf("%s may be mounted", path)
				}
			}
			holdsKey := slices.ContainsFunc(userPlaces, func(o userPlace) bool { return o.kind.reads && pathname.Within(o.path, p.path) })
			if !p.kind.reads && !holdsKey && refuses(at, true) {
				t.Errorf("%s may not be read", at)
			}
			inAnother := slices.ContainsFunc(userPlaces, func(o userPlace) bool { return o.path != p.path && pathname.Within(p.path, o.path) })
			if !inAnother && refuses(at+"x", false) {
				t.Errorf("%sx is refused", at)
			}
		}
		for _, c := range p.caches {
			at := "/home/dev/" + p.path
			cache := filepath.Join(at, c)
			for _, path := range []string{cache, cache + "/x"} {
				if refuses(path, false) || refuses(path, true) {
					t.Errorf("the cache %s is refused", path)
				}
			}
			if pathname.Within(cache, at) && !refuses(cache+"x", false) {
				t.Errorf("%sx may be mounted", cache)
			}
			if why := text(Refusal(Fact{Path: at, Kind: Dir, UID: 1000}, false, policy.Binds{})); !strings.Contains(why, "mount a cache in it instead") || !strings.Contains(why, cache) {
				t.Errorf("the refusal of %s does not name %s: %s", at, c, why)
			}
		}
		if at := "/data/people/dev/" + p.path; refuses(at, false) != p.anywhere {
			t.Errorf("%s: refused %v", at, !p.anywhere)
		}
	}
	for _, path := range []string{
		"/home/dev/project", "/home/dev/project/.docker", "/home/dev/project/.config", "/home/dev/.cache", "/home/dev/.m2", "/home/dev/.npm", "/home/dev/.claude",
		"/home/dev/.cargo/registry", "/home/dev/go/pkg", "/home/dev/go/pkg/mod", "/home/dev/.gradle/caches", "/home/dev/.m2/repository", "/home/dev/project/.vscode", "/home/dev/project/.cargo",
		"/home/dev/.gitconfig", "/home/runner/work/repo/repo", "/home/dev/src/.github", "/data/people/dev",
	} {
		for _, readOnly := range []bool{true, false} {
			if refuses(path, readOnly) {
				t.Errorf("%s, read-only %v, is refused", path, readOnly)
			}
		}
	}
}

// TestLayerStorage: an engine's storage is found by its layers, wherever it is.
func TestLayerStorage(t *testing.T) {
	for _, c := range []struct{ layers, want string }{
		{"/data/d/overlay2/abc/diff /data/d/overlay2/l/XYZ", "/data/d"},
		{"/data/c/storage/overlay/abc/diff /data/c/storage/overlay/l/XYZ /ro/store/overlay/l/Q", "/data/c/storage /ro/store"},
		{"/srv/cd/io.containerd.snapshotter.v1.overlayfs/snapshots/12/fs", "/srv/cd"},
		{"/srv/cd/io.containerd.snapshotter.v1.stargz/snapshotter/snapshots/12/fs", "/srv/cd"},
		{"/srv/docker/containerd/daemon/io.containerd.snapshotter.v1.overlayfs/snapshots/12/fs", "/srv/docker/containerd/daemon"},
		{"/b/runc-overlayfs/snapshots/snapshots/7/fs", "/b/runc-overlayfs"},
		{"/home/dev/overlay/p/overlay2/x/diff", "/home/dev/overlay/p"},
		{"/somewhere/lower /somewhere/upper", ""},
		{"/overlay2/x/diff", ""}, // in the root itself: that would be everything
		{"l/XYZ overlay2/x/diff", ""},
		{"", ""},
	} {
		if got := strings.Join(LayerStorage(strings.Fields(c.layers)), " "); got != c.want {
			t.Errorf("%s: %q, not %q", c.layers, got, c.want)
		}
	}
}

// TestStaged: volumes that the kubelet mounts from where they are staged, or
// that other pods have as well, are the pod's own; what only looks so is not.
func TestStaged(t *testing.T) {
	const (
		kubelet = "/var/lib/kubelet"
		own     = kubelet + "/pods/" + podUID
		other   = kubelet + "/pods/9a1b2c3d-1111-2222-3333-0a1b2c3d4e5f"
	)
	all := &Mounts{fd: -1, list: parsed(t, `20 1 8:1 / / rw - ext4 /dev/sda1 rw
30 20 8:32 / `+kubelet+`/plugins/kubernetes.io/csi/ebs.csi.aws.com/0a1b/globalmount rw - ext4 /dev/sdc rw
31 20 8:32 / `+own+`/volumes/kubernetes.io~csi/pvc-1/mount rw - ext4 /dev/sdc rw
32 20 8:32 /sub `+own+`/volume-subpaths/pvc-1/main/0 rw - ext4 /dev/sdc rw
33 20 8:48 / `+kubelet+`/plugins/kubernetes.io/csi/pv/pvc-2/globalmount rw - ext4 /dev/sdd rw
34 20 8:48 / `+own+`/volumes/kubernetes.io~csi/pvc-2/mount rw - ext4 /dev/sdd rw
35 20 8:64 / `+kubelet+`/plugins/kubernetes.io/csi/ebs.csi.aws.com/9f9f/globalmount rw - ext4 /dev/sde rw
36 20 8:64 /sub `+own+`/volume-subpaths/host/main/1 rw - ext4 /dev/sde rw
40 20 0:60 / `+other+`/volumes/kubernetes.io~nfs/share rw - nfs4 s:/x rw
41 20 0:60 / `+own+`/volumes/kubernetes.io~nfs/share rw - nfs4 s:/x rw
42 20 0:60 /a `+own+`/volume-subpaths/share/main/0 rw - nfs4 s:/x rw
43 20 0:61 / `+other+`/volumes/kubernetes.io~csi/nfs-pv/mount rw - nfs4 s:/y rw
44 20 0:61 / `+own+`/volumes/kubernetes.io~csi/nfs-pv/mount rw - nfs4 s:/y rw
45 20 0:62 / `+other+`/volumes/kubernetes.io~secret/s rw - tmpfs tmpfs rw
46 20 0:62 / `+own+`/volumes/kubernetes.io~secret/s rw - tmpfs tmpfs rw
47 20 0:62 / `+own+`/volume-subpaths/host/main/2 rw - tmpfs tmpfs rw
50 20 8:80 / `+kubelet+`/plugins/kubernetes.io/local-volume/mounts/local-pv rw - ext4 /dev/sdf rw
51 20 8:80 / `+own+`/volumes/kubernetes.io~local-volume/local-pv rw - ext4 /dev/sdf rw
52 20 8:1 /mnt/disk `+own+`/volumes/kubernetes.io~local-volume/dir-pv rw - ext4 /dev/sda1 rw
53 20 8:1 /mnt/disk/sub `+own+`/volume-subpaths/dir-pv/main/0 rw - ext4 /dev/sda1 rw
54 20 8:1 /opt/cni/bin `+own+`/volume-subpaths/host/main/3 rw - ext4 /dev/sda1 rw
55 20 8:96 / `+kubelet+`/plugins/kubernetes.io/iscsi/iface-default/x-lun-0 rw - ext4 /dev/sdg rw
56 20 8:96 / `+own+`/volumes/kubernetes.io~iscsi/disk rw - ext4 /dev/sdg rw
57 20 8:1 /var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/0a1b/vol_data.json `+own+`/volumes/kubernetes.io~csi/odd/mount rw - ext4 /dev/sda1 rw
`)}
	for _, c := range []struct {
		id, path, plugin string
		own, may         bool // the pod's own; and may be written
	}{
		{"31", "/volumes/kubernetes.io~csi/pvc-1/mount", "kubernetes.io~csi", true, true},
		{"32", "/volume-subpaths/pvc-1/main/0", "kubernetes.io~csi", true, true},
		{"34", "/volumes/kubernetes.io~csi/pvc-2/mount", "kubernetes.io~csi", true, true},
		{"36", "/volume-subpaths/host/main/1", "", false, false}, // a hostPath of another pod's stage
		{"41", "/volumes/kubernetes.io~nfs/share", "kubernetes.io~nfs", true, true},
		{"42", "/volume-subpaths/share/main/0", "kubernetes.io~nfs", true, true},
		{"44", "/volumes/kubernetes.io~csi/nfs-pv/mount", "kubernetes.io~csi", true, true},
		{"46", "/volumes/kubernetes.io~secret/s", "kubernetes.io~secret", false, false}, // no share
		{"47", "/volume-subpaths/host/main/2", "", false, false},
		{"51", "/volumes/kubernetes.io~local-volume/local-pv", "kubernetes.io~local-volume", true, true},
		{"52", "/volumes/kubernetes.io~local-volume/dir-pv", "kubernetes.io~local-volume", false, true},
		{"53", "/volume-subpaths/dir-pv/main/0", "kubernetes.io~local-volume", false, true},
		{"54", "/volume-subpaths/host/main/3", "", false, false},
		{"56", "/volumes/kubernetes.io~iscsi/disk", "kubernetes.io~iscsi", true, true},
		{"57", "/volumes/kubernetes.io~csi/odd/mount", "kubernetes.io~csi", false, false},
	} {
		f := Fact{Path: own + c.path, Kind: Dir, Role: Pod, Pod: podUID}
		var err1, err2 error
		f.Also, f.Shown, err1 = all.elsewhere(c.id, f.Path, true)
		f.Plugin, err2 = all.plugin(c.id, f.Path, podUID)
		if err1 != nil || err2 != nil || f.Plugin != c.plugin {
			t.Errorf("%s is %q, %v, %v", c.path, f.Plugin, err1, err2)
		}
		why := text(Refusal(f, false, policy.Binds{Root: policy.RootRefuse}))
		if f.OwnOfPod() != c.own || (why == "") != c.may {
			t.Errorf("%s (%s): own %v, %q", c.path, f.Also, f.OwnOfPod(), why)
		}
		// Another kubelet's root is as good.
		elsewhere := func(p string) string { return strings.Replace(p, kubelet, "/data/kubelet", 1) }
		f.Path, f.Also = elsewhere(f.Path), elsewhere(f.Also)
		for _, readOnly := range []bool{true, false} {
			if why := text(Refusal(f, readOnly, policy.Binds{})); (why == "") != (c.may || readOnly && f.Also == "/opt/cni/bin") {
				t.Errorf("%s (%s): read-only %v, %q", f.Path, f.Also, readOnly, why)
			}
		}
	}
}
