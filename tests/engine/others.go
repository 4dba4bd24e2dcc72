package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// Others makes files of other owners in a directory of user and group 1000: each of an owner, a group and a mode, that are in its name.
func Others(t testing.TB, dir string) {
	t.Helper()
	own := func(path string, uid, gid int, mode uint32) {
		env.Check(t, errors.Join(os.Lchown(path, uid, gid), unix.Chmod(path, mode)))
	}
	put := func(path string, uid, gid int, mode uint32) {
		env.Check(t, os.WriteFile(path, []byte("theirs\n"), 0o600))
		own(path, uid, gid, mode)
	}
	for _, ids := range [][2]int{{0, 0}, {1001, 1001}, {0, 1000}, {100000, 100000}, {1001, 65534}, {3000000000, 3000000000}} {
		for _, mode := range []uint32{0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o777} {
			for _, kind := range []string{"kept", "gone", "over"} {
				put(filepath.Join(dir, fmt.Sprintf("%s_%d_%d_%04o", kind, ids[0], ids[1], mode)), ids[0], ids[1], mode)
			}
		}
		for _, mode := range []uint32{0o700, 0o755, 0o775, 0o777, 0o1777} {
			name := fmt.Sprintf("_%d_%d_%04o", ids[0], ids[1], mode)
			for _, kind := range []string{"dir", "empty"} {
				env.Check(t, os.Mkdir(filepath.Join(dir, kind+name), 0o700))
			}
			put(filepath.Join(dir, "dir"+name, "own"), 1000, 1000, 0o644)
			put(filepath.Join(dir, "dir"+name, "theirs"), ids[0], ids[1], 0o644)
			for _, kind := range []string{"dir", "empty"} {
				own(filepath.Join(dir, kind+name), ids[0], ids[1], mode)
			}
		}
	}
	// user:1000:rw by an access control list (acl(5)), in the kernel's form.
	const acl = "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x06\x00\xe8\x03\x00\x00" + "\x04\x00\x00\x00\xff\xff\xff\xff" +
		"\x10\x00\x06\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"
	put(filepath.Join(dir, "acl_1001_1001_0660"), 1001, 1001, 0o600)
	env.Check(t, unix.Setxattr(filepath.Join(dir, "acl_1001_1001_0660"), "system.posix_acl_access", []byte(acl), 0))
}

// OthersScript tries each of Others' files as the directory's owner, in the working directory, and prints what succeeds.
const OthersScript = `
try() { what="$1 $2"; shift 2; if sh -c "$@" 2>/dev/null >/dev/null </dev/null; then echo "$what"; fi; }
for f in kept_* acl_*; do
	try $f read 'cat "$0"' $f
	try $f write 'echo x >>"$0"' $f
	try $f truncate ': >"$0"' $f
	try $f chmod 'chmod 666 "$0"' $f
	try $f touch 'touch -d 2001-01-01 "$0"' $f
	try $f chown 'chown 1000 "$0"' $f
	try $f rename 'mv -f "$0" "$0.moved" && mv -f "$0.moved" "$0"' $f
done
for f in gone_*; do try $f remove 'rm -f "$0"' $f; done
for f in over_*; do try $f replace 'echo mine >.new && mv -f .new "$0"' $f; rm -f .new; done
for d in dir_*; do
	try $d create ': >"$0/new"' $d
	try $d mkdir 'mkdir "$0/newdir"' $d
	try $d unlink 'rm -f "$0/own"' $d
	try $d unlinktheirs 'rm -f "$0/theirs"' $d
	try $d chmod 'chmod 777 "$0"' $d
done
for d in empty_*; do try $d rename 'mv "$0" "$0.moved" && mv "$0.moved" "$0"' $d; try $d remove 'rmdir "$0"' $d; done
echo end`

// CheckOthers compares what OthersScript printed, in a jail that is the directory's owner, with what is right in a mount of a kind (direct, view,
// gvisor): reading by the mode, and neither writing, whatever the mode, nor anything in a directory of theirs. What no mode opens to the jail can be
// removed, replaced and renamed; in a view all can be removed and replaced, and nothing renamed. gVisor's helper has none of the jail's groups.
func CheckOthers(t testing.TB, out, kind string) {
	t.Helper()
	view := kind == "view"
	done := map[string]bool{}
	for line := range strings.Lines(out) {
		done[strings.TrimSpace(line)] = true
	}
	if !done["end"] {
		t.Fatalf("the script did not end:\n%s", out)
	}
	files := 0
	for _, ids := range [][2]int{{0, 0}, {1001, 1001}, {0, 1000}, {100000, 100000}, {1001, 65534}, {3000000000, 3000000000}} {
		expect := func(kind string, mode int, want map[string]bool) {
			files++
			name := fmt.Sprintf("%s_%d_%d_%04o", kind, ids[0], ids[1], mode)
			for _, what := range []string{
				"read", "write", "truncate", "chmod", "touch", "chown", "rename", "remove", "replace", "create", "mkdir", "unlink", "unlinktheirs",
			} {
				if done[name+" "+what] != want[what] {
					t.Errorf("%s: %s: %v", name, what, done[name+" "+what])
				}
			}
		}
		group := ids[1] == 1000
		isOpen := func(mode int) bool { return mode&0o002 != 0 || group && mode&0o020 != 0 }
		for _, mode := range []int{0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o777} {
			expect("kept", mode, map[string]bool{"read": mode&0o004 != 0 || group && mode&0o040 != 0 && kind != "gvisor", "rename": !view && !isOpen(mode)})
			expect("gone", mode, map[string]bool{"remove": view || !isOpen(mode)})
			expect("over", mode, map[string]bool{"replace": view || !isOpen(mode)})
		}
		for _, mode := range []int{0o700, 0o755, 0o775, 0o777, 0o1777} {
			expect("dir", mode, nil)
			expect("empty", mode, map[string]bool{"rename": !view && !isOpen(mode), "remove": view || !isOpen(mode)})
		}
	}
	for _, what := range []string{"write", "truncate"} {
		if done["acl_1001_1001_0660 "+what] {
			t.Errorf("a file with an access control list: %s", what)
		}
	}
	if files == 0 || len(done) < 50 {
		t.Errorf("%d lines about %d files", len(done), files)
	}
}
