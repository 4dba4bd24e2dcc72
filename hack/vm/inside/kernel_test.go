package inside

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// TestClock: a jail of this kernel has a time namespace of its own, also over a runc that knows
// none.
func TestClock(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		id := aJail(t, runtime)
		var up float64
		if _, err := fmt.Sscan(docker(t, "exec", id, "cat", "/proc/uptime"), &up); err != nil {
			t.Fatal(err)
		}
		var host float64
		if _, err := fmt.Sscan(read(t, "/proc/uptime"), &host); err != nil {
			t.Fatal(err)
		}
		if up < 0 || up >= host-2 {
			t.Errorf("up for %.1f s inside, %.1f s outside", up, host)
		}
		own, err := os.Readlink("/proc/self/ns/time")
		env.Check(t, err)
		if got := docker(t, "exec", id, "readlink", "/proc/self/ns/time"); got == own {
			t.Error("exec is in the machine's time namespace")
		}
	})
}

// TestImageOwners: the image's files belong to the jail's ids (idmapped layers under overlayfs),
// and nothing is copied for it.
func TestImageOwners(t *testing.T) {
	need(t, "apparmor")
	each(t, func(t *testing.T, runtime string) {
		got := docker(t, "run", "--rm", runtime, image, "sh", "-c", "stat -c '%u %g %a' /etc/passwd /etc/image-secret /home/app /bin/busybox; cat /etc/image-secret; df -k / | tail -n 1")
		lines := strings.Split(got, "\n")
		want := []string{"0 0 644", "0 0 600", "1000 1000 755", "0 0 755", "only for root of the image"}
		for i, w := range want {
			if i >= len(lines) || lines[i] != w {
				t.Fatalf("got %q, want %q first", got, want)
			}
		}
		f := strings.Fields(lines[len(lines)-1])
		if len(f) < 4 || f[1] != "1048576" || f[2] > "200" && len(f[2]) > 3 {
			t.Errorf("the ephemeral layer: %q, want 1048576 KiB and next to nothing used", lines[len(lines)-1])
		}
		if runtime != "--runtime="+runtimes[0] {
			return // the delegate has no influence in it
		}
		// Read by somebody else than its owner.
		if r := run(t, "docker", "run", "--rm", runtime, "-u", "1000", image, "cat", "/etc/image-secret"); r.Code == 0 {
			t.Error("uid 1000 reads root's file")
		}
	})
}

// TestOverlayDefaults: distributions switch features of overlayfs on; jails start all the same.
func TestOverlayDefaults(t *testing.T) {
	need(t, "apparmor")
	for i, feature := range []string{"index", "metacopy", "redirect_dir", "nfs_export", "xino_auto"} {
		t.Run(feature, func(t *testing.T) {
			knob := "/sys/module/overlay/parameters/" + feature
			old := read(t, knob)
			env.Check(t, os.WriteFile(knob, []byte("Y"), 0))
			defer os.WriteFile(knob, []byte(old), 0)
			env.Equal(t, "says", docker(t, "run", "--rm", "--runtime="+runtimes[i%len(runtimes)], image, "sh", "-c", "rm /etc/passwd; mkdir /new; mv /home /home2; echo fine"), "fine")
		})
	}
}

// TestInspect: agentjail's own look at a running jail finds every protection in force on this
// machine.
func TestInspect(t *testing.T) {
	need(t, any)
	each(t, func(t *testing.T, runtime string) {
		id := aJail(t, runtime)
		if r := run(t, "agentjail", "inspect", id); r.Code != 0 || strings.Contains(r.Stdout, "BROKEN") {
			t.Error(r)
		}
	})
}

// TestCheck: this machine can hold every ring.
func TestCheck(t *testing.T) {
	need(t, any)
	if r := run(t, "agentjail", "check"); r.Code != 0 {
		t.Error(r)
	}
}
