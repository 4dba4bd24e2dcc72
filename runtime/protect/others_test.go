package protect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
)

// TestFindOthers: what others own is met, and what of it every user, the owner's group or a user by an access control list may write to is listed.
func TestFindOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make files of others")
	}
	owner := []specs.LinuxIDMapping{{ContainerID: 1000, HostID: 5000, Size: 1}}
	known := idmap.Map{UIDs: owner, GIDs: owner}
	// In the kernel's form (acl(5)): user:1000:rw or user:1000:r.
	acl := func(bits string) []byte {
		return []byte("\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00" + bits + "\x00\xe8\x03\x00\x00" + "\x04\x00\x00\x00\xff\xff\xff\xff" +
			"\x10\x00" + bits + "\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")
	}
	for _, c := range []struct {
		name      string
		uid, gid  int
		mode      uint32
		acl       string
		any, open bool
	}{
		{"f", 1000, 1000, 0o666, "", false, false},
		{"f", 1000, 1001, 0o666, "", true, false}, // the owner's own
		{"f", 0, 0, 0o644, "", true, false},
		{"f", 0, 0, 0o664, "", true, false},
		{"f", 0, 0, 0o646, "", true, true},
		{"f", 1001, 1000, 0o664, "", true, true},
		{"f", 1001, 1000, 0o644, "", true, false},
		{"f", 1001, 1001, 0o600, "\x06", true, true},
		{"f", 1001, 1001, 0o600, "\x04", true, false},
		{"d/", 0, 0, 0o755, "", true, false},
		{"d/", 0, 0, 0o1777, "", true, true},
		{"a/b/node_modules/d/", 0, 0, 0o777, "", true, true},
		{"->/etc", 0, 0, 0, "", true, false},
	} {
		t.Run(fmt.Sprintf("%s of %d:%d, %o%x", filepath.Base(c.name), c.uid, c.gid, c.mode, c.acl), func(t *testing.T) {
			dir := t.TempDir()
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			at := filepath.Join(dir, "f")
			if c.name[0] == '-' {
				check(os.Symlink("/etc", at))
			} else if at = filepath.Join(dir, c.name); c.name[len(c.name)-1] == '/' {
				check(os.MkdirAll(at, 0o700))
			} else {
				check(os.WriteFile(at, nil, 0o600))
			}
			for p := filepath.Dir(at); ; p = filepath.Dir(p) {
				check(os.Chown(p, 1000, 1000))
				if p == dir {
					break
				}
			}
			check(os.Lchown(at, c.uid, c.gid))
			if c.mode != 0 {
				check(unix.Chmod(at, c.mode))
			}
			if c.acl != "" {
				if err := unix.Setxattr(at, aclAttr, acl(c.acl), 0); err == unix.EOPNOTSUPP {
					t.Skip("the file system has no access control lists")
				} else {
					check(err)
				}
			}
			root, err := os.Open(dir)
			check(err)
			defer root.Close()
			got, err := FindOthers(root, known)
			check(err)
			rel, _ := filepath.Rel(dir, at)
			if got.Any != c.any || slices.ContainsFunc(got.Open, func(f OpenFile) bool { return f.Rel == rel }) != c.open || len(got.Open) > 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestFindOthersBounds: more than can be covered is an error.
func TestFindOthersBounds(t *testing.T) {
	dir := t.TempDir()
	for i := range maxOpen + 1 {
		at := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := FindOthers(root, idmap.Map{}); err == nil {
		t.Error("more files than can be covered")
	}
}
