package idmap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

type mapping = specs.LinuxIDMapping

// TestBlocks: each block has its own 65536 ids within the pool, below 2^31 and
// above every id that the host uses.
func TestBlocks(t *testing.T) {
	pool := DefaultPool()
	seen := map[uint32]bool{}
	for b := range pool.Blocks() {
		m := ForBlock(pool, false, b)
		if m.Block != b || m.Given || len(m.UIDs) != 1 || !Equal(m.UIDs, m.GIDs) {
			t.Fatalf("block %d: %+v", b, m)
		}
		first, ok1 := m.HostUID(0)
		last, ok2 := m.HostGID(RangeSize - 1)
		if !ok1 || !ok2 || last-first != RangeSize-1 || first < pool.First || uint64(last) >= uint64(pool.First)+uint64(pool.Count) || last >= 1<<31 {
			t.Fatalf("block %d has %d to %d", b, first, last)
		}
		if seen[first] || first%RangeSize != 0 {
			t.Fatalf("block %d begins at %d, as another does", b, first)
		}
		seen[first] = true
		if _, ok := m.HostUID(RangeSize); ok {
			t.Fatalf("block %d maps past its range", b)
		}
	}
}

// TestNobody: container root is the host's id 65534, every other user has an id of
// the block, and no other id of the container is the host's 65534.
func TestNobody(t *testing.T) {
	pool := DefaultPool()
	m := ForBlock(pool, true, 3)
	base := pool.First + 3*RangeSize
	for id, want := range map[uint32]uint32{0: 65534, 1: base + 1, 1000: base + 1000, 65534: base + 65534, 65535: base + 65535} {
		if got, ok := m.HostUID(id); !ok || got != want {
			t.Errorf("uid %d is host %d, not %d", id, got, want)
		}
		if got, ok := m.HostGID(id); !ok || got != want {
			t.Errorf("gid %d is host %d, not %d", id, got, want)
		}
	}
	if _, ok := m.HostUID(65536); ok {
		t.Error("maps past its range")
	}
	if got, want := Text(m.UIDs), fmt.Sprintf("0 65534 1\n1 %d 65535\n", base+1); got != want {
		t.Errorf("text %q, not %q", got, want)
	}
}

func TestForEngine(t *testing.T) {
	pool := DefaultPool()
	good := []mapping{{HostID: 100000, Size: 65536}}
	for _, c := range []struct {
		name string
		ms   []mapping
		says string // "" for one that is taken
	}{
		{"remapped range", good, ""},
		{"kubelet's", []mapping{{HostID: 131072, Size: 65536}}, ""},
		{"two parts", []mapping{{HostID: 100000, Size: 1000}, {ContainerID: 1000, HostID: 300000, Size: 64536}}, ""},
		{"one id", []mapping{{HostID: 100000, Size: 1}}, ""},
		{"65534 and a range", []mapping{{HostID: 65534, Size: 1}, {ContainerID: 1, HostID: 100000, Size: 65535}}, ""},
		{"host root", []mapping{{HostID: 0, Size: 65536}}, "below 65536"},
		{"a person's id", []mapping{{HostID: 100000, Size: 1000}, {ContainerID: 1000, HostID: 1000, Size: 1}}, "below 65536"},
		{"65534 and one more", []mapping{{HostID: 65534, Size: 2}}, "below 65536"},
		{"into people's from below", []mapping{{HostID: 65535, Size: 65536}}, "below 65536"},
		{"no root", []mapping{{ContainerID: 1, HostID: 100000, Size: 65536}}, "no container root"},
		{"nothing", nil, "no container root"},
		{"empty range", []mapping{{HostID: 100000, Size: 65536}, {ContainerID: 70000, HostID: 200000}}, "out of bounds"},
		{"past 32 bits", []mapping{{HostID: 4294901761, Size: 65536}}, "out of bounds"},
		{"container ids past 32 bits", []mapping{{HostID: 100000, Size: 10}, {ContainerID: 4294967290, HostID: 200000, Size: 10}}, "out of bounds"},
		{"another jail's", []mapping{{HostID: pool.First + 65536, Size: 65536}}, "agentjail's own pool"},
		{"up into the pool", []mapping{{HostID: pool.First - 65535, Size: 65536}}, "agentjail's own pool"},
		{"the pool's last id", []mapping{{HostID: pool.First + pool.Count - 1, Size: 1}}, "agentjail's own pool"},
		{"behind the pool", []mapping{{HostID: pool.First + pool.Count, Size: 65536}}, ""},
		{"the reserved ids", []mapping{{HostID: ReservedFirst, Size: 1}}, "no process may have"},
		{"the reserved ids' last", []mapping{{HostID: ReservedFirst + 65534, Size: 65536}}, "no process may have"},
		{"Podman's, behind the reserved ids", []mapping{{HostID: 2147483647, Size: 65536}}, ""},
		{"all ids", []mapping{{HostID: 65536, Size: 4294901760}}, "agentjail's own pool"},
		{"host id twice", []mapping{{HostID: 100000, Size: 10}, {ContainerID: 10, HostID: 100009, Size: 10}}, "maps an id twice"},
		{"container id twice", []mapping{{HostID: 100000, Size: 10}, {ContainerID: 9, HostID: 200000, Size: 10}}, "maps an id twice"},
		{"too many", make([]mapping, 341), "more than 340"},
	} {
		for _, swap := range []bool{false, true} {
			uids, gids := c.ms, good
			if swap {
				uids, gids = good, c.ms
			}
			m, err := ForEngine(pool, uids, gids)
			if c.says == "" {
				if err != nil || !m.Given || m.Block != -1 || !Equal(m.UIDs, uids) || !Equal(m.GIDs, gids) {
					t.Errorf("%s: %+v, %v", c.name, m, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: states %v, not %q", c.name, err, c.says)
			}
		}
	}
}

func TestEqual(t *testing.T) {
	a := []mapping{{HostID: 1, Size: 2}}
	for _, c := range []struct {
		b    []mapping
		same bool
	}{
		{[]mapping{{HostID: 1, Size: 2}}, true},
		{[]mapping{{HostID: 1, Size: 3}}, false},
		{[]mapping{{HostID: 2, Size: 2}}, false},
		{[]mapping{{ContainerID: 1, HostID: 1, Size: 2}}, false},
		{nil, false},
	} {
		if Equal(a, c.b) != c.same {
			t.Errorf("%v and %v", a, c.b)
		}
	}
}

// TestForUser: a rootless engine's ids are its user's, whatever their numbers.
func TestForUser(t *testing.T) {
	one := func(ms ...specs.LinuxIDMapping) []specs.LinuxIDMapping { return ms }
	for _, c := range []struct {
		name string
		ids  []specs.LinuxIDMapping
		good bool
	}{
		{"all", one(specs.LinuxIDMapping{ContainerID: 0, HostID: 0, Size: 1}, specs.LinuxIDMapping{ContainerID: 1, HostID: 1, Size: 65536}), true},
		{"keep-id", one(specs.LinuxIDMapping{ContainerID: 0, HostID: 1, Size: 1000}, specs.LinuxIDMapping{ContainerID: 1000, HostID: 0, Size: 1}), true},
		{"no root", one(specs.LinuxIDMapping{ContainerID: 1, HostID: 1, Size: 5}), false},
		{"twice", one(specs.LinuxIDMapping{ContainerID: 0, HostID: 0, Size: 2}, specs.LinuxIDMapping{ContainerID: 5, HostID: 1, Size: 1}), false},
		{"none", nil, false},
	} {
		if m, err := ForUser(c.ids, c.ids); (err == nil) != c.good || c.good && (!m.Given || m.Block >= 0) {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
	}
}

func TestHost(t *testing.T) {
	for _, c := range []struct {
		ids  []specs.LinuxIDMapping
		want bool
	}{
		{[]specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 4294967295}}, true},
		{[]specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 65536}}, false},
		{[]specs.LinuxIDMapping{{ContainerID: 0, HostID: 1, Size: 4294967294}}, false},
		{nil, false},
	} {
		if got := Host(c.ids); got != c.want {
			t.Errorf("%v: %v", c.ids, got)
		}
	}
}
