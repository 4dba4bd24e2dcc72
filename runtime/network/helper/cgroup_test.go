package helper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/state"
)

// TestFollow: a helper has a part of its jail's processor time on version 2, or is in the jail's
// group for it, and the jail's limit on buffers of sockets, and the new ones once those have
// changed. What the jail does not limit, of version 1's sockets, its helper has a bound on all the
// same.
func TestFollow(t *testing.T) {
	beside(t)
	for _, born := range []bool{true, false} {
		t.Run(map[bool]string{true: "born beside", false: "placed"}[born], func(t *testing.T) { follows(t, born) })
	}
}

func follows(t *testing.T, born bool) {
	init := grouped(t)
	all := places(init.Pid, "agentjail-test-follow")
	if len(all) == 0 {
		t.Skip("this machine has no control groups for a helper")
	}
	set := func(file, value string) bool {
		t.Helper()
		for _, p := range all {
			err := os.WriteFile(filepath.Join(p.jail, file), []byte(value), 0)
			if err == nil {
				return true
			}
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
				t.Fatal(err)
			}
		}
		return false
	}
	has := func(file, want string) {
		t.Helper()
		for _, p := range all {
			if text, err := cgroups.Read(p.dir, file); err == nil {
				if got := strings.TrimSpace(text); got != want {
					t.Errorf("%s has %s in %s, not %s", p.dir, got, file, want)
				}
				return
			}
		}
		t.Errorf("no group of the helper's has %s", file)
	}
	quota, sockets := set(quotaFile, "20000 100000"), set(socketsFile, strconv.Itoa(8<<20))
	if !quota && !sockets {
		t.Skip("this machine has no limit to follow")
	}
	dir := t.TempDir()
	o := Options{Dir: dir, Name: program, Group: "agentjail-test-follow"}
	if born {
		o.Beside = init.Pid
	}
	defer func() {
		if err := End(dir); err != nil {
			t.Error(err)
		}
	}()
	r, err := Start(o, []byte("serve"))
	if err == nil {
		err = Place(dir, init.Pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	jails, err := cgroups.Of(strconv.Itoa(init.Pid))
	if err != nil {
		t.Fatal(err)
	}
	of, err := cgroups.Of(strconv.Itoa(r.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range of {
		if want := filepath.Join(jails[i].Path, o.Group); slices.Contains(g.List(), "cpu") && g.Path != want {
			t.Errorf("its group for processor time is %s, not %s", g.Path, want)
		}
	}
	check := func(when, limit, sock string) {
		t.Log(when)
		if quota {
			has(quotaFile, limit)
		}
		if sockets {
			has(socketsFile, sock)
		}
	}
	check("when it begins", "10000 100000", strconv.Itoa(8<<20))
	// No limit on sockets.
	set(quotaFile, "8000 10000")
	set(socketsFile, "-1")
	if err := Follow(dir, init.Pid); err != nil {
		t.Fatal(err)
	}
	check("after a change", "20000 100000", strconv.Itoa(SocketsMax))
	if !quota {
		return
	}
	// One that has processor time that no other wants has no weight.
	for _, idle := range []string{"1", "0"} {
		if !set("cpu.idle", idle) {
			t.Log("this kernel has no idle groups")
			break
		}
		if err := Follow(dir, init.Pid); err != nil {
			t.Fatal(err)
		}
		has("cpu.idle", idle)
	}
}

// TestPart: a helper's part of its jail's processor time is one that the kernel takes.
func TestPart(t *testing.T) {
	for of, want := range map[string]string{
		"max 100000": "max 100000", "400000 100000": "100000 100000", "40000 100000": "10000 100000", "20000 100000": "10000 100000",
		"4000 100000": "4000 100000", "1000 1000": "25000 100000", "1000 1000000": "1000 100000",
	} {
		if got := part(of); got != want {
			t.Errorf("of %s: %s, not %s", of, got, want)
		}
	}
}

// TestFollowNone: without a helper, or after its end, there is nothing to follow.
func TestFollowNone(t *testing.T) {
	dir := t.TempDir()
	if err := Follow(dir, os.Getpid()); err != nil {
		t.Error(err)
	}
	if err := (&Record{Name: program, Process: state.Process{Pid: 1 << 30}, Cgroups: []string{dir}}).save(dir); err != nil {
		t.Fatal(err)
	}
	if err := Follow(dir, os.Getpid()); err != nil {
		t.Error(err)
	}
}
