package names

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// manyVar reports how many jails TestMany has at once, in place of a dozen (make load: NAMES_JAILS).
const manyVar = "AGENTJAIL_NAMES_JAILS"

// TestMany: jails with helpers beside each other, each of which serves its own; what they cost the host is logged, and nothing is left.
func TestMany(t *testing.T) {
	count := 12
	if v := os.Getenv(manyVar); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q", manyVar, v)
		}
		count = n
	}
	n := newInternet(t)
	resolveBy(t, dnsAddr)
	first := newJail(t, n)
	first.b.Write(t)
	l := newLab(t, n)
	before, memory := helpers(t, l), meminfo(t)
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-many%d", first.id, i)
	}
	call := func(args ...string) error {
		ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		defer cancel()
		cmd := first.b.Command(ctx, first.c, args...)
		said, err := os.CreateTemp(first.b.Dir, "said-") // the jail holds it open, as it would a pipe
		if err != nil {
			return err
		}
		defer said.Close()
		defer os.Remove(said.Name())
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(said.Name())
			return fmt.Errorf("%v: %w: %s", args, err, text)
		}
		return nil
	}
	t.Cleanup(func() {
		begun := time.Now()
		atOnce(t, deleting, ids, func(id string) error { return call("delete", "--force", id) })
		t.Logf("deleted in %v", time.Since(begun).Round(time.Millisecond))
		if left := len(helpers(t, l)) - len(before); left != 0 {
			t.Errorf("%d helpers are left", left)
		}
		if left, _ := filepath.Glob("/sys/fs/cgroup/*/agentjail-egress-*" + first.id + "*"); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	})
	begun := time.Now()
	atOnce(t, making, ids, func(id string) error {
		if err := call("create", "--bundle", first.b.Dir, id); err != nil {
			return err
		}
		return call("start", id)
	})
	took, after := time.Since(begun), meminfo(t)
	var pids []int
	for path, r := range helpers(t, l) {
		if _, old := before[path]; !old {
			pids = append(pids, r.Pid)
		}
	}
	if len(pids) != count {
		t.Fatalf("%d helpers of %d jails", len(pids), count)
	}
	var anonymous, share, threads []int
	for _, pid := range pids {
		m, err := env.Memory(pid)
		env.Check(t, err)
		anonymous, share, threads = append(anonymous, m["Anonymous"]), append(share, m["Pss"]), append(threads, env.Number(t, env.Status(t, pid, "Threads")))
	}
	all := 0
	for _, n := range threads {
		all += n
	}
	t.Logf("%d jails in %v, %v each; of the host %d kB each, jails and all; a helper has %d kB of its own (median; at most %d), %d with its share of files, %d threads (at most %d; %d in all)",
		count, took.Round(time.Millisecond), (took / time.Duration(count)).Round(time.Millisecond), (memory-after)/count,
		median(anonymous), slices.Max(anonymous), median(share), median(threads), slices.Max(threads), all)
	var some []string
	for i := 0; i < count; i += max(1, count/20) {
		some = append(some, ids[i])
	}
	begun = time.Now()
	atOnce(t, making, some, func(id string) error {
		if err := call("exec", id, client, "https", "other.example.test", "443"); err == nil {
			t.Errorf("%s reaches a name without a rule", id)
		}
		return call("exec", id, client, "https", "api.example.test", "443")
	})
	t.Logf("%d of them looked at in %v", len(some), time.Since(begun).Round(time.Millisecond))
}

// How many jails are made and deleted at a time. A delete mostly waits, for the kernel.
const (
	making   = 4
	deleting = 24
)

// atOnce does something for all ids, some at a time.
func atOnce(t *testing.T, some int, ids []string, do func(id string) error) {
	t.Helper()
	work := make(chan string)
	var wg sync.WaitGroup
	for range some {
		wg.Go(func() {
			for id := range work {
				if err := do(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, id := range ids {
		work <- id
	}
	close(work)
	wg.Wait()
}

// meminfo is what the host has left, in kB.
func meminfo(t *testing.T) int {
	t.Helper()
	_, rest, _ := strings.Cut(string(env.Read(t, "/proc/meminfo")), "MemAvailable:")
	kib, _, _ := strings.Cut(rest, "kB")
	return env.Number(t, kib)
}

func median(list []int) int {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
