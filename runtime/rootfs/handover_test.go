package rootfs

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/plan"
)

// jailedAs is the host ids of a user and a group of the jail.
func jailedAs(uid, gid uint32) string { return fmt.Sprintf("%d:%d", base+uid, base+gid) }

// volume is a request with the directory of a new volume of an engine's, which is to
// be handed to a user.
func volume(t *testing.T, dir string, owner plan.Owner, user specs.User) *Request {
	t.Helper()
	r := request(t, image(t), bindMount(dir, "/data", "rbind", "same"))
	r.Spec.Process.User = user
	r.Plan.User = plan.User{UID: user.UID, GID: user.GID}
	r.Plan.Binds[0].Owner, r.Plan.Binds[0].HandOver = owner, true
	return r
}

func newVolume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir() + "/_data"
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// TestHandOver: a new volume becomes the first process's user's on the disk, for good.
// Container root may do what it could, and a third user may not.
func TestHandOver(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := newVolume(t)
		r := volume(t, dir, plan.OwnerSame, specs.User{UID: 999, GID: 998})
		st := staged(t, r)
		want(t, "notes", len(st.Notes), 0)
		at := r.Spec.Mounts[0].Source
		want(t, "the top on the disk", owner(dir), "999:998")
		write := func(name string) error { return os.WriteFile(at+"/"+name, nil, 0o600) }
		as(t, base+999, base+998, func() { must(t, write("users")) })
		as(t, base+1000, base+1000, func() {
			if err := write("others"); !errors.Is(err, unix.EACCES) {
				t.Errorf("a third user: %v", err)
			}
		})
		as(t, base, base, func() {
			must(t, write("roots"))
			if _, err := os.ReadFile(at + "/users"); !errors.Is(err, unix.EACCES) {
				t.Errorf("root read a file of mode 0600: %v", err)
			}
		})
		want(t, "the user's file on the disk", owner(dir+"/users"), "999:998")
		want(t, "root's file on the disk", owner(dir+"/roots"), "0:0")
		as(t, base+999, base+998, func() {
			if _, err := os.ReadFile(at + "/roots"); !errors.Is(err, unix.EACCES) {
				t.Errorf("the user read root's file of mode 0600: %v", err)
			}
		})
		// The next start finds each id as it was written.
		again := request(t, image(t), bindMount(dir, "/data", "rbind", "same"))
		staged(t, again)
		as(t, base+999, base+998, func() {
			must(t, os.WriteFile(again.Spec.Mounts[0].Source+"/users", nil, 0o600))
			must(t, os.Chmod(again.Spec.Mounts[0].Source, 0o700)) // as initdb does
		})
	})
}

// TestHandOverGiven: where the ids on the disk are the host's, the top is given to the
// host's id.
func TestHandOverGiven(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := newVolume(t)
		must(t, os.Chown(dir, int(base), int(base)))
		r := volume(t, dir, plan.OwnerHost, specs.User{UID: 5, GID: 6})
		want(t, "notes", len(staged(t, r).Notes), 0)
		want(t, "the top on the disk", owner(dir), jailedAs(5, 6))
		as(t, base+5, base+6, func() { must(t, os.WriteFile(r.Spec.Mounts[0].Source+"/x", nil, 0o600)) })
		want(t, "a file on the disk", owner(dir+"/x"), jailedAs(5, 6))
	})
}

// TestHandOverOnce: what is in use since it was looked at stays whose it is, and the
// first of two users is the one.
func TestHandOverOnce(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string){
		"1000:1000": func(t *testing.T, dir string) { must(t, os.Chown(dir, 1000, 1000)) },
		"0:5":       func(t *testing.T, dir string) { must(t, os.Chown(dir, 0, 5)) },
		"0:0":       func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/roots", nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				dir := newVolume(t)
				r := volume(t, dir, plan.OwnerSame, specs.User{UID: 999, GID: 999})
				change(t, dir)
				want(t, "notes", len(staged(t, r).Notes), 1)
				want(t, "the top", owner(dir), name)
			})
		})
	}
}
