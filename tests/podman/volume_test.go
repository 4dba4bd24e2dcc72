package podman

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// newVolume makes a volume and returns its directory as this process sees it.
func newVolume(p *engine.PodmanT, name string) string {
	p.Helper()
	p.Must("volume", "create", name)
	p.Cleanup(func() { p.Must("volume", "rm", "-f", name) })
	return filepath.Join(p.Root(), p.Must("volume", "inspect", "-f", "{{.Mountpoint}}", name))
}

// TestVolumeIDs: in a volume of Podman's each id is itself, whatever the owner of its top, and
// where Podman maps the container's ids, too: a jail's user sees, reads and writes what it does
// under runc without capabilities, and the disk is the same afterwards.
func TestVolumeIDs(t *testing.T) {
	p := root(t)
	for name, u := range engine.VolumeUsers {
		for _, base := range []int{0, 300000} {
			if base > 0 && u.Control == nil && !strings.Contains(name, "with group") {
				continue // the users differ in what the kernel does with their ids, not in how they are mapped
			}
			in := func(runtime string, more ...string) string {
				args := append([]string{"--runtime", runtime, "run", "--rm", "--network=none"}, append(u.Options, more...)...)
				if base > 0 {
					args = append(args, fmt.Sprintf("--uidmap=0:%d:65536", base), fmt.Sprintf("--gidmap=0:%d:65536", base))
				}
				var volumes []string
				for i := range engine.VolumeTops {
					volumes = append(volumes, fmt.Sprintf("ids-%d-%d-%s-%s", base, i, strings.ReplaceAll(name, " ", "-"), filepath.Base(runtime)))
					args = append(args, "-v", fmt.Sprintf("%s:/v/%d%s", volumes[i], i, u.Suffix))
				}
				args = append(args, engine.Busybox, "sh", "-c")
				// Podman makes a volume for the first container that has it, and gives it to that.
				p.Must(append(args, "true")...)
				p.Cleanup(func() { p.Must(append([]string{"volume", "rm", "-f"}, volumes...)...) })
				dirs := strings.Fields(p.Must(append([]string{"volume", "inspect", "-f", "{{.Mountpoint}}"}, volumes...)...))
				for i, top := range engine.VolumeTops {
					dirs[i] = filepath.Join(p.Root(), dirs[i])
					entries := engine.VolumeEntries(top.UID, top.GID, top.Mode)
					for j := range entries {
						entries[j].UID, entries[j].GID = entries[j].UID+base, entries[j].GID+base
					}
					engine.FillVolume(t, dirs[i], entries)
				}
				r := p.Podman(append(args, engine.VolumeProbe)...)
				for _, dir := range dirs {
					r.Stdout += "on the disk:\n" + engine.ListVolume(t, dir)
				}
				return r.Stdout + r.Stderr
			}
			env.Equal(t, fmt.Sprintf("what %s sees and leaves, with ids from %d", name, base), in(engine.Name), in("runc", u.Control...))
		}
	}
}

// TestNewVolume: a new volume is the first process's user's, with every mapping, and another
// user's files in it stay that user's.
func TestNewVolume(t *testing.T) {
	p := root(t)
	for _, base := range []int{0, 300000} {
		vol := fmt.Sprint("new-", base)
		dir := newVolume(p, vol)
		in := func(user, script string) string {
			args := []string{"-u", user, "-v", vol + ":/v", "-w", "/v"}
			if base > 0 {
				args = append(args, fmt.Sprintf("--uidmap=0:%d:65536", base), fmt.Sprintf("--gidmap=0:%d:65536", base))
			}
			return mustRunJail(p, append(args, engine.Busybox, "sh", "-c", script)...)
		}
		env.Equal(t, "owner", in("999:998", "echo one >f; chmod 600 f; stat -c '%u:%g' . f"), "999:998\n999:998")
		env.Equal(t, "owner on the disk", env.Owner(t, filepath.Join(dir, "f")), fmt.Sprintf("%d:%d", base+999, base+998))
		env.Equal(t, "a later jail", in("999:998", "cat f"), "one")
		env.Equal(t, "another user", in("1000:1000", "cat f 2>/dev/null || echo denied"), "denied")
	}
}

// TestPodmansInit: podman's own init, whose path is a link of Debian's, is a jail's first process, and a
// volume is the user's beside it.
func TestPodmansInit(t *testing.T) {
	if _, err := exec.LookPath("catatonit"); err != nil {
		t.Skip("hack/deps.sh installs it:", err)
	}
	for name, p := range map[string]*engine.PodmanT{"root": root(t), "user": user(t)} {
		for _, who := range []string{"0:0", "999:998"} {
			vol := "init-" + name + "-" + strings.ReplaceAll(who, ":", "-")
			p.Must("volume", "create", vol)
			t.Cleanup(func() { p.Must("volume", "rm", "-f", vol) })
			env.Equal(t, "for "+name+", as "+who, mustRunJail(p, "--init", "-u", who, "-v", vol+":/v", engine.Busybox, "sh", "-c", "cat /proc/1/comm; touch /v/f && stat -c '%u:%g' /v/f"), "podman-init\n"+who)
		}
	}
}

// TestSecrets: a secret can be read by the user that Podman's option names, and by no other;
// and the time zone that Podman puts in is there.
func TestSecrets(t *testing.T) {
	p := root(t)
	if r := p.Run(strings.NewReader("hunter2"), "podman", "secret", "create", "s", "-"); r.Code != 0 {
		t.Fatal(r)
	}
	t.Cleanup(func() { p.Podman("secret", "rm", "s") })
	const show = "stat -c '%u:%g %a' /run/secrets/s; cat /run/secrets/s 2>/dev/null || echo denied; (echo x >/run/secrets/s) 2>/dev/null; true"
	for user, want := range map[string]string{"1000:1000": "1000:1000 400\nhunter2", "999:999": "1000:1000 400\ndenied", "0": "1000:1000 400\ndenied"} {
		env.Equal(t, "secret of 1000, for "+user, mustRunJail(p, "-u", user, "--secret", "s,uid=1000,gid=1000,mode=0400", engine.Busybox, "sh", "-c", show), want)
	}
	env.Equal(t, "secret", mustRunJail(p, "-u", "1000:1000", "--secret", "s", engine.Busybox, "sh", "-c", show), "0:0 444\nhunter2")
	mustRunJail(p, "--tz=local", engine.Busybox, "true")
}

// TestSubpath: a part of a volume is the volume's (Podman 5.4 and later), a file too, and one of a directory of the host's is that directory's.
func TestSubpath(t *testing.T) {
	p := root(t)
	if r := p.Podman("create", "--mount=type=volume,src=none,dst=/s,subpath=s", engine.Busybox); r.Code != 0 {
		t.Skip("this Podman mounts no part of a volume:", r.Stderr)
	} else {
		t.Cleanup(func() { p.Must("rm", "-v", engine.LastLine(r.Stdout)); p.Must("volume", "rm", "-f", "none") })
	}
	dir := newVolume(p, "parts")
	env.Check(t, os.MkdirAll(filepath.Join(dir, "s/deep"), 0o755))
	env.Put(t, filepath.Join(dir, "s/deep/f"), "text\n", 0o644, 1000)
	env.Check(t, os.Chown(filepath.Join(dir, "s"), 1000, 1000))
	env.Check(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	env.Check(t, os.Symlink("s", filepath.Join(dir, "in")))
	mount := func(volume, sub string) string { return "--mount=type=volume,src=" + volume + ",dst=/s,subpath=" + sub }
	env.Equal(t, "a directory", mustRunJail(p, "-u", "1000", mount("parts", "s"), engine.Busybox, "sh", "-c", "touch /s/new && ls /s && stat -c %u /s/new"), "deep\nnew\n1000")
	env.Equal(t, "its directory, by a link", mustRunJail(p, mount("parts", "in/deep"), engine.Busybox, "ls", "/s"), "f")
	env.Equal(t, "a file", mustRunJail(p, mount("parts", "s/deep/f"), engine.Busybox, "cat", "/s"), "text")
	p.Must("volume", "create", "--opt=type=none", "--opt=o=bind", "--opt=device=/etc", "hosts-etc")
	t.Cleanup(func() { p.Must("volume", "rm", "-f", "hosts-etc") })
	for what, m := range map[string]string{"a link out": mount("parts", "out"), "a part of /etc": mount("hosts-etc", "ssl")} {
		if r := p.Podman("run", "--rm", "--network=none", m, engine.Busybox, "ls", "/s"); r.Code == 0 {
			t.Errorf("%s: %s", what, r)
		}
	}
}
