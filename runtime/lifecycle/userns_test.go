package lifecycle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// testRuntime has a store with a jail of this id and ids.
func testRuntime(t *testing.T, ids ...string) (*Runtime, map[string]*state.Jail) {
	t.Helper()
	r := &Runtime{Store: state.Store{Root: t.TempDir()}}
	pol := policy.Default().Userns
	jails := map[string]*state.Jail{}
	for _, id := range ids {
		j := &state.Jail{Brief: state.Brief{ID: id, Key: state.Key("", id), BootID: state.BootID(), Userns: pol}}
		if err := r.Store.Create(j); err != nil {
			t.Fatal(err)
		}
		jails[id] = j
	}
	return r, jails
}

// specWith is a spec with a user namespace at a path.
func specWith(path string) *specs.Spec {
	return &specs.Spec{Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.UserNamespace, Path: path}}}}
}

// nested are the distinct limits on namespaces in a user namespace.
func nested(t *testing.T, f *os.File) string {
	t.Helper()
	limits, err := fork.ReadInside(f, fork.NestedLimits(), 32)
	if err != nil {
		t.Fatal(err)
	}
	if len(limits) == 0 {
		t.Skip("this kernel has no limits on namespaces (Linux 4.9)")
	}
	for _, l := range limits[1:] {
		if l.Text != limits[0].Text {
			t.Errorf("%s and %s differ", l.Path, limits[0].Path)
		}
	}
	return strings.TrimSpace(limits[0].Text)
}

// TestNestedNamespaces: no process forbids namespaces while another jail is being made in the same
// user namespace; the last one does, also where it failed.
func TestNestedNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes namespaces")
	}
	for _, given := range []bool{false, true} {
		r, jails := testRuntime(t, "first", "second", "third")
		first := jails["first"]
		first.IDs = first.Userns.Block(5)
		first.IDs.Given = given
		if !given { // as Store.Allocate does
			if err := os.MkdirAll(filepath.Join(r.Store.Root, "ids", "2013593600"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s := specWith("")
		u, err := r.openUserNS(first, s, harden.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		if path := specUserNS(s).Path; path == "" || path != first.OwnUserNS {
			t.Errorf("the spec names %q, the record %q", path, first.OwnUserNS)
		}
		if err := u.forbid(); err != nil {
			t.Fatal(err)
		}
		if got := nested(t, u.made()); got != "0" {
			t.Errorf("given %v: alone: %s", given, got)
		}
		join := func(id string) *userNS {
			j := jails[id]
			j.IDs = first.IDs
			var f harden.Facts
			f.Joins = map[specs.LinuxNamespaceType]harden.Join{specs.NetworkNamespace: {Jail: "first", Mode: policy.NetworkNone}}
			u, err := r.openUserNS(j, specWith(first.OwnUserNS), f)
			if err != nil {
				t.Fatal(err)
			}
			if j.OwnUserNS != "" {
				t.Error("a joined user namespace is recorded as the jail's own")
			}
			return u
		}
		second, third := join("second"), join("third")
		if got := nested(t, u.made()); got == "0" {
			t.Errorf("given %v: no namespace can be made for a jail that joins", given)
		}
		if err := second.forbid(); err != nil {
			t.Fatal(err)
		}
		if got := nested(t, u.made()); got == "0" {
			t.Errorf("given %v: forbidden while another jail is being made", given)
		}
		third.abandon(r.Log) // it failed
		if got := nested(t, u.made()); got != "0" {
			t.Errorf("given %v: left open: %s", given, got)
		}
		second.abandon(r.Log)
		u.abandon(r.Log)
	}
}

// TestSettleUserNS: a jail that is elsewhere than it was to be is refused.
func TestSettleUserNS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes namespaces")
	}
	ids := policy.Default().Userns.Block(5)
	uid, gid := ids.Owner()
	f, err := fork.UserNSOf(uid, gid, 4096, idmap.Text(ids.UIDs), idmap.Text(ids.GIDs))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := settleUserNS(&userNS{file: f}, os.Getpid()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a process of the host's user namespace: %v", err)
	}
	if err := settleUserNS(nil, os.Getpid()); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the host's own limits: %v", err)
	}
}
