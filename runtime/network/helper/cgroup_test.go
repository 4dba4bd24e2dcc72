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

// TestFollow: a helper has its jail's limit on processor time and on buffers of sockets, and the
// new one once that has changed. What the jail does not limit, of version 1's sockets, its helper
// has a bound on all the same.
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
			err := os.WriteFile(filepath.Join(p.beside, file), []byte(value), 0)
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
	quota, max := set("cpu.cfs_quota_us", "20000"), set("cpu.max", "20000 100000")
	if !quota && !max {
		t.Skip("this machine has no limit on processor time to follow")
	}
	shares, sockets := set("cpu.shares", "512"), set(socketsFile, strconv.Itoa(8<<20))
	dir := t.TempDir()
	o := Options{Dir: dir, Name: program, Group: "agentjail-test-follow"}
	if born {
		o.Beside = init.Pid
	}
	p, err := Begin(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := End(dir); err != nil {
			t.Error(err)
		}
	}()
	r, err := p.Ready([]byte("serve"))
	if err == nil {
		err = Place(dir, init.Pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	of, err := cgroups.Of(strconv.Itoa(r.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range of {
		if slices.Contains(g.List(), "cpu") && filepath.Base(g.Path) != o.Group {
			t.Errorf("its group for processor time is %s", g.Path)
		}
	}
	check := func(when, limit, period, sock string) {
		t.Log(when)
		if quota {
			has("cpu.cfs_quota_us", limit)
			has("cpu.cfs_period_us", period)
		} else {
			has("cpu.max", limit+" "+period)
		}
		if sockets {
			has(socketsFile, sock)
		}
	}
	check("when it begins", "20000", "100000", strconv.Itoa(8<<20))
	if shares {
		has("cpu.shares", "512")
	}
	// A period that the former quota does not fit, and no limit on sockets.
	if quota {
		set("cpu.cfs_quota_us", "-1")
		set("cpu.cfs_period_us", "10000")
		set("cpu.cfs_quota_us", "1000")
	} else {
		set("cpu.max", "1000 10000")
	}
	set(socketsFile, "-1")
	if err := Follow(dir, init.Pid); err != nil {
		t.Fatal(err)
	}
	check("after a change", "1000", "10000", strconv.Itoa(SocketsMax))
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
