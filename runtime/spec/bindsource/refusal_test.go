package bindsource

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/users"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// TestRefusal is the table of what may be mounted: r to read, w to write, or
// nothing.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		path string
		may  string
		says string
	}{
		{"/", "", "whole file tree"},
		{"/etc", "", "configuration"},
		{"/etc/passwd", "", "configuration"},
		{"/etc/ssl/certs", "", "configuration"},
		{"/proc", "", "kernel"},
		{"/proc/1/root", "", "kernel"},
		{"/sys", "", "kernel"},
		{"/sys/fs/cgroup/x", "", "kernel"},
		{"/dev", "", "devices"},
		{"/dev/shm/x", "", "devices"},
		{"/dev/sda", "", "devices"},
		{"/boot", "", "kernel"},
		{"/boot/grub/grub.cfg", "", "kernel"},
		{"/efi", "", "boot loader"},
		{"/root", "", "home"},
		{"/root/.ssh/id_rsa", "", "home"},
		{"/run", "", "sockets"},
		{"/run/docker.sock", "", "sockets"},
		{"/run/user/1000/bus", "", "sockets"},
		{"/var/run", "", "sockets"},
		{"/var/run/x", "", "sockets"},
		{"/tmp/.X11-unix", "", "screens"},
		{"/tmp/.X11-unix/X0", "", "screens"},
		{"/var", "", "state"},
		{"/var/lib", "", "state"},
		{"/var/log", "", "logs"},
		{"/var/log/auth.log", "", "logs"},
		{"/var/backups", "", "secrets"},
		{"/var/spool/cron", "", "jobs"},
		{"/var/mail/x", "", "mail"},
		{"/var/lib/systemd/x", "", "state"},
		{"/var/lib/dbus/machine-id", "", "the machine's id"},
		{"/var/lib/private", "", "state"},
		{"/var/crash/x", "", "memory images"},
		{"/var/lib/myapp", "rw", ""},
		{"/var/www/html", "rw", ""},
		{"/var/cache/x", "rw", ""},
		{"/usr", "r", "runs programs"},
		{"/usr/local/bin", "r", "runs programs"},
		{"/usr/share/x", "r", "runs programs"},
		{"/bin", "r", "runs programs"},
		{"/lib64/ld.so", "r", "runs programs"},
		{"/nix/store/x", "r", "runs programs"},
		{"/snap/x", "r", "runs programs"},
		{"/var/lib/dpkg/status", "r", "package manager"},
		{"/home", "", "every user's home"},
		{"/home/dev", "", "holds /home/dev/.ssh"},
		{"/home/dev/project", "rw", ""},
		{"/tmp", "", "shares it"},
		{"/tmp/x", "rw", ""},
		{"/var/tmp", "", "shares it"},
		{"/var/tmp/x", "rw", ""},
		{"/srv", "rw", ""},
		{"/opt/app", "rw", ""},
		{"/mnt/disk", "rw", ""},
		{"/data", "rw", ""},
		// Names that only look like others.
		{"/etcetera", "rw", ""},
		{"/usrlocal", "rw", ""},
		{"/runner/work", "rw", ""},
		{"/rootfs", "rw", ""},
		{"/devel", "rw", ""},
		{"/procs", "rw", ""},
		{"/home2", "rw", ""},
	} {
		for _, ro := range []bool{true, false} {
			f := Fact{Path: c.path, Kind: Dir, UID: 1000}
			got := text(Refusal(f, ro, policy.Binds{}))
			want := strings.Contains(c.may, map[bool]string{true: "r", false: "w"}[ro])
			if (got == "") != want {
				t.Errorf("%s, read-only %v: %q", c.path, ro, got)
			}
			if got != "" && (!strings.Contains(got, c.says) || !strings.Contains(got, "refused: ") || !strings.Contains(got, "binds.allow")) {
				t.Errorf("%s: states %q, not %q with the remedy", c.path, got, c.says)
			}
			// The host's owner can allow it, alone or with what it is in.
			for _, allow := range []string{c.path, strings.TrimSuffix(c.path[:strings.LastIndex(c.path, "/")+1], "/")} {
				if allow == "" {
					continue
				}
				if got := text(Refusal(f, ro, policy.Binds{Allow: []string{"/other", allow}})); got != "" {
					t.Errorf("%s with %s allowed: %s", c.path, allow, got)
				}
			}
			// And not with a longer or a similar name.
			if got := text(Refusal(f, ro, policy.Binds{Allow: []string{c.path + "/x", c.path + "x", "/nonexistent"}})); (got == "") != want {
				t.Errorf("%s with others allowed: %q", c.path, got)
			}
		}
	}
}

func TestRefusalOfKinds(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Fact
		says string // "" where it may be mounted
	}{
		{"directory", Fact{Path: "/srv/x", Kind: Dir}, ""},
		{"file", Fact{Path: "/srv/x", Kind: File}, ""},
		{"socket", Fact{Path: "/srv/x", Kind: Socket}, "a Unix socket lets the container act through a host program"},
		{"a device of every jail", Fact{Path: "/dev/null", Kind: Device, Node: "/dev/null"}, ""},
		{"device", Fact{Path: "/srv/x", Kind: Device}, "a device is not a file or directory"},
		{"pipe", Fact{Path: "/srv/x", Kind: Pipe}, "a pipe is not a file or directory"},
		{"nothing known", Fact{Path: "/srv/x"}, "is not a file or directory"},
		{"behind a link", Fact{Path: "/srv/x", Kind: Dir, Link: "/srv/link"}, "the symbolic link /srv/link leads out of its directory, to /srv/x"},
		{"an engine's storage", Fact{Path: "/data/docker/x", Kind: Dir, Storage: "/data/docker"}, "an engine keeps its containers in /data/docker"},
		{"what holds an engine's storage", Fact{Path: "/data", Kind: Dir, Storage: "/data/docker"}, "an engine keeps its containers"},
		{"an injected file", Fact{Path: "/var/lib/docker/containers/x/hosts", Kind: File, Role: Injected}, ""},
		{"an injected socket", Fact{Path: "/var/lib/docker/containers/x/hosts", Kind: Socket, Role: Injected}, "a Unix socket lets"},
		{"a volume", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume}, ""},
		{"a volume behind a link", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume, Link: "/x"}, "leads out of its directory"},
		{"a volume that is a directory of the host", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume, Also: "/srv/x"}, ""},
		{"a volume that is /etc", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume, Also: "/etc"}, "it is /etc, mounted there"},
		{"a volume that is the root", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume, Also: "/"}, "it is /, mounted there, and it is the host's whole file tree"},
		{"a volume that is the engine's storage", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume, Storage: "/var/lib/docker", Also: "/var/lib/docker/overlay2"}, "keeps its containers"},
		{"a directory that is /root, mounted there", Fact{Path: "/srv/x", Kind: Dir, Also: "/root"}, "it is /root, mounted there"},
		{"a home of an image-based system", Fact{Path: "/var/home/x/p", Kind: Dir, Also: "/sysroot/ostree/deploy/default/var/home/x/p"}, ""},
		{"a directory that a volume's directory is mounted on", Fact{Path: "/srv/x", Kind: Dir, Also: "/var/lib/docker/volumes/v/_data"}, ""},
		{"a volume that holds the engine's storage", Fact{Path: "/var/lib/docker/volumes/v/_data", Kind: Dir, Role: Volume, Storage: "/var/lib/docker", Also: "/var/lib/docker"}, "keeps its containers"},
	} {
		if c.f.Role == Plain || c.f.Also != "" {
			c.f.UID = 1000 // what is root's is another matter (TestRoots)
		}
		got := text(Refusal(c.f, false, policy.Binds{}))
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, not %q", c.name, got, c.says)
		}
	}
	// An allowed path reached through a link that anybody made is not what the
	// host's owner allowed.
	if got := text(Refusal(Fact{Path: "/etc/ssl", Kind: Dir, Link: "/home/x/ssl"}, true, policy.Binds{Allow: []string{"/etc/ssl"}})); got == "" {
		t.Error("a link to an allowed directory")
	}
	if got := text(Refusal(Fact{Path: "/run/docker.sock", Kind: Socket}, false, policy.Binds{Allow: []string{"/run/docker.sock"}})); got != "" {
		t.Errorf("an allowed socket: %s", got)
	}
}

func TestRole(t *testing.T) {
	const id, other = "a1a1a1a1a1a1a1a1", "b2b2b2b2b2b2b2b2"
	e := Engine{IDs: []string{id, "short"}, Storage: []string{"/data/engine"}}
	for path, want := range map[string]Role{
		"/var/lib/docker/containers/" + id + "/hosts":                                  Injected,
		"/var/lib/docker/containers/" + id + "/hostname":                               Injected,
		"/var/lib/docker/containers/" + id + "/resolv.conf":                            Injected,
		"/var/lib/docker/containers/" + id + "/mounts/shm":                             Injected,
		"/var/lib/docker/containers/" + id + "/mounts/secrets/x":                       Injected,
		"/data/engine/containers/" + id + "/hosts":                                     Injected,
		"/var/lib/containers/storage/overlay-containers/" + id + "/userdata/shm":       Injected,
		"/run/containers/storage/overlay-containers/" + id + "/userdata/.containerenv": Injected,
		"/run/containers/storage/overlay-containers/" + id + "/userdata/run/secrets":   Injected,
		"/run/containers/storage/overlay-containers/" + id + "/userdata/secrets/s":     Injected,
		"/var/lib/containers/storage/overlay-containers/" + id + "/userdata/secrets/s": Injected,
		"/run/containers/storage/overlay-containers/" + id + "/userdata/localtime":     Injected,
		"/run/containers/storage/overlay-containers/" + other + "/userdata/secrets/s":  Plain,
		"/run/containers/storage/overlay-containers/" + id + "/userdata/secrets":       Plain,
		"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/" + id + "/shm":           Injected,
		"/var/lib/nerdctl/1935db59/containers/default/" + id + "/resolv.conf":          Injected,
		"/var/lib/nerdctl/1935db59/etchosts/default/" + id + "/hosts":                  Injected,
		"/var/lib/nerdctl/1935db59/volumes/default/v/_data":                            Volume,
		"/var/lib/nerdctl/1935db59/volumes/default/v/_data/below":                      Volume,
		"/var/lib/nerdctl/1935db59/volumes/default/v":                                  Plain,
		"/var/lib/nerdctl/1935db59/etchosts/default/" + other + "/hosts":               Plain,
		"/var/lib/nerdctl/1935db59/names/default/v/_data":                              Plain,
		"/var/lib/docker/1935db59/volumes/default/v/_data":                             Plain,
		"/var/lib/docker/containers/" + other + "/hosts":                               Plain,
		"/var/lib/docker/containers/" + id:                                             Plain,
		"/var/lib/docker/containers/" + id + "/config.v2.json":                         Plain,
		"/var/lib/docker/containers/" + id + "/x/hosts":                                Plain,
		"/var/lib/docker/containers/" + id + "/mounts/secrets":                         Plain,
		"/var/lib/docker/containers/x" + id + "/hosts":                                 Plain,
		"/var/lib/docker/short/hosts":                                                  Plain,
		"/home/dev/" + id + "/hosts":                                                   Plain,
		"/var/lib/docker/volumes/v/_data":                                              Volume,
		"/var/lib/docker/volumes/v/_data/below":                                        Volume,
		"/data/engine/volumes/v/_data":                                                 Volume,
		"/var/lib/containers/storage/volumes/v/_data":                                  Volume,
		"/var/lib/docker/volumes":                                                      Plain,
		"/var/lib/docker/volumes/v":                                                    Plain,
		"/var/lib/docker/volumes/v/opts.json":                                          Plain,
		"/var/lib/docker/overlay2/volumes/x/_data":                                     Plain,
		"/var/lib/docker/containers/volumes/x/_data":                                   Plain,
		"/home/dev/volumes/v/_data":                                                    Plain,
		"/var/lib/dockerx/volumes/v/_data":                                             Plain,
		"/var/lib/docker/overlay2/" + id + "/merged/etc/hosts":                         Plain,
		"/var/lib/docker/volumes/v/_data/containers/" + id + "/hosts":                  Volume,
		"/var/lib/docker/image/" + id + "/mounts/secrets/../../../x":                   Injected, // real paths have no dots
	} {
		if got := role(path, e); got != want {
			t.Errorf("%s is %q, not %q", path, got, want)
		}
	}
	if got := role("/var/lib/docker/containers/"+id+"/hosts", Engine{}); got != Plain {
		t.Errorf("without the container's id: %q", got)
	}
}

func TestElsewhere(t *testing.T) {
	all := &Mounts{fd: -1, list: parsed(t, `20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 8:2 / /home rw - ext4 /dev/sda2 rw
22 20 0:6 / /dev rw - devtmpfs udev rw
30 20 8:1 /etc /var/lib/docker/volumes/etc/_data rw - ext4 /dev/sda1 rw
31 20 8:1 / /var/lib/docker/volumes/root/_data rw - ext4 /dev/sda1 rw
32 20 8:2 /dev/with\040space /var/lib/docker/volumes/space/_data rw - ext4 /dev/sda2 rw
33 20 0:50 / /var/lib/docker/volumes/tmp/_data rw - tmpfs tmpfs rw
34 20 0:60 /export /var/lib/docker/volumes/nfs/_data rw - nfs4 server:/export rw
35 20 8:2 / /var/lib/docker/volumes/home/_data rw - ext4 /dev/sda2 rw
40 20 8:1 / /run/host rw - ext4 /dev/sda1 rw
41 20 0:6 / /srv/chroot/dev rw - devtmpfs udev rw
42 20 8:3 / /srv/disk rw - ext4 /dev/sda3 rw
43 20 8:1 /srv/a /srv/chroot/a rw - ext4 /dev/sda1 rw
44 42 8:1 /root/.ssh /srv/disk/keys rw - ext4 /dev/sda1 rw
50 20 0:70 /@home /home2 rw - btrfs /dev/sdb rw
51 20 0:70 /@home/dev/x /srv/sub rw - btrfs /dev/sdb rw
`)}
	for _, c := range []struct {
		id, path string
		want     string
	}{
		{"30", "/var/lib/docker/volumes/etc/_data", "/etc"},
		{"30", "/var/lib/docker/volumes/etc/_data/ssh", "/etc/ssh"},
		{"31", "/var/lib/docker/volumes/root/_data", "/"},
		{"31", "/var/lib/docker/volumes/root/_data/root", "/root"},
		{"32", "/var/lib/docker/volumes/space/_data", "/home/dev/with space"},
		{"33", "/var/lib/docker/volumes/tmp/_data", ""},
		{"34", "/var/lib/docker/volumes/nfs/_data", ""},
		{"35", "/var/lib/docker/volumes/home/_data", "/home"},
		{"20", "/var/lib/docker/volumes/plain/_data", ""}, // a directory of the storage itself
		{"20", "/srv/x", ""}, // although it shows below /run/host, too
		{"21", "/home/dev/project", ""},
		{"42", "/srv/disk/x", ""},
		{"43", "/srv/chroot/a", "/srv/a"},
		{"51", "/srv/sub/y", "/home2/dev/x/y"},
		{"99", "/var/lib/docker/volumes/etc/_data", ""},
		{"30", "/elsewhere", ""}, // the mount is gone from there
	} {
		if got, _, err := all.elsewhere(c.id, c.path, false); err != nil || got != c.want {
			t.Errorf("%s is really %q, not %q", c.path, got, c.want)
		}
	}
	for path, want := range map[string]string{
		"/srv": "/dev /root/.ssh", "/srv/chroot": "/dev", "/srv/chroot/dev": "", "/srv/chroot/a": "", "/srv/disk": "/root/.ssh", "/srv/dis": "", "/home": "", "/home/dev": "", "/data": "",
	} {
		_, below, _, err := all.below(path, users.New())
		if got := strings.Join(below, " "); err != nil || got != want {
			t.Errorf("below %s: %q, not %q", path, got, want)
		}
	}
}

// parsed reads a table of mounts.
func parsed(t *testing.T, text string) []mountinfo.Mount {
	t.Helper()
	ms, err := mountinfo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// text is a refusal's text, "" of none.
func text(e *refusal.Error) string {
	if e == nil {
		return ""
	}
	return e.Error()
}

// TestEnginesSocket: who is advised to allow an engine's socket reads that it is the host.
func TestEnginesSocket(t *testing.T) {
	for path, want := range map[string]string{"/run/docker.sock": ofEngine, "/var/run/docker.sock": ofEngine, "/home/dev/podman/podman.sock": ofEngine, "/srv/x/agent.1": ofListener} {
		if r := Refusal(Fact{Path: path, Kind: Socket}, false, policy.Binds{}); r == nil || !strings.Contains(r.Remedy, want) {
			t.Errorf("%s: %v", path, r)
		}
	}
}
