package invoker

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/rootless"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || rootless.Inside() {
		t.Skip("needs root")
	}
}

// TestOf: each program's variable counts, a root's does not hide another's, and two users are an error.
func TestOf(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		env  map[string]string
		want int64 // -1 is an error, 0 root itself
	}{
		{nil, 0},
		{map[string]string{"SUDO_UID": "0", "SUDO_GID": "0"}, 0},
		{map[string]string{"SUDO_UID": "1234567", "SUDO_GID": "5"}, 1234567},
		{map[string]string{"SUDO_UID": "1000", "SUDO_GID": ""}, -1},
		{map[string]string{"SUDO_UID": "-1", "SUDO_GID": "1"}, -1},
		{map[string]string{"PKEXEC_UID": "65534"}, 65534},
		{map[string]string{"PKEXEC_UID": "7654321"}, -1},
		{map[string]string{"DOAS_USER": "nobody"}, 65534},
		{map[string]string{"DOAS_USER": "root"}, 0},
		{map[string]string{"DOAS_USER": "no such user"}, -1},
		{map[string]string{"SUDO_UID": "0", "SUDO_GID": "0", "DOAS_USER": "nobody"}, 65534},
		{map[string]string{"SUDO_UID": "1", "SUDO_GID": "1", "DOAS_USER": "nobody"}, -1},
	} {
		u, err := Of(func(k string) string { return c.env[k] })
		got := int64(0)
		if err != nil {
			got = -1
		} else if u != nil {
			got = int64(u.UID)
		}
		if got != c.want {
			t.Errorf("%v: %d, %v", c.env, got, err)
		}
	}
}

// TestDo: the function has the invoker's ids and no capability, and this process's other threads keep theirs.
func TestDo(t *testing.T) {
	needRoot(t)
	t.Setenv("SUDO_UID", "12345")
	t.Setenv("SUDO_GID", "12346")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(secret, 10); !os.IsPermission(err) {
		t.Errorf("root's file: %v", err)
	}
	if err := MayRead(secret); !os.IsPermission(err) {
		t.Errorf("root's file may be read: %v", err)
	}
	if err := Do(func() error {
		if os.Getuid() != 12345 || os.Geteuid() != 12345 || os.Getegid() != 12346 {
			t.Errorf("%d, %d, %d", os.Getuid(), os.Geteuid(), os.Getegid())
		}
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&head, &data[0]); err != nil || data[0].Effective != 0 {
			t.Errorf("capabilities: %x, %v", data[0].Effective, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Error("this thread has lost root's rights")
	}
	if err := Owns(0, "it"); err == nil {
		t.Error("root's is the invoker's")
	}
	t.Setenv("SUDO_UID", "0")
	if data, err := Read(secret, 10); err != nil || string(data) != "x" {
		t.Errorf("root itself: %q, %v", data, err)
	}
}
