package apparmor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeave: only what confines nothing is left.
func TestLeave(t *testing.T) {
	for _, c := range []struct {
		label, profiles string
		left            bool
	}{
		{"unconfined\n", "crun (unconfined)\nbash (enforce)\n", true},
		{"unconfined\n", "crun (enforce)\n", false},
		{"unconfined\n", "crun (complain)\n", false},
		{"unconfined\n", "crun (unconfined)\n/usr/bin/crun (enforce)\n", false},
		{"unconfined\n", "runc (unconfined)\n", false}, // it gets no name
		{"podman (unconfined)\n", "podman (unconfined)\n", true},
		{"podman (unconfined)\n", "podman (unconfined)\ncrun (enforce)\n", false},
		{"engine (enforce)\n", "crun (unconfined)\n", false},
		{"engine//&podman (mixed)\n", "crun (unconfined)\n", false},
	} {
		s, _ := fake(t)
		write(t, filepath.Join(s.securityfs, "profiles"), c.profiles)
		attr := t.TempDir()
		write(t, filepath.Join(attr, "apparmor/current"), c.label)
		write(t, filepath.Join(attr, "apparmor/exec"), "")
		if err := s.leave("/usr/bin/crun", attr); err != nil {
			t.Errorf("%q, %q: %v", c.label, c.profiles, err)
		}
		want := ""
		if c.left {
			want = "exec unconfined"
		}
		if got, err := os.ReadFile(filepath.Join(attr, "apparmor/exec")); err != nil || string(got) != want {
			t.Errorf("%q, %q: the kernel gets %q (%v)", c.label, c.profiles, got, err)
		}
	}
	s, _ := fake(t)
	write(t, s.enabled, "N\n")
	if err := s.leave("/usr/bin/crun", t.TempDir()); err != nil {
		t.Error(err)
	}
}
