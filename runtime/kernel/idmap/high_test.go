package idmap

import (
	"slices"
	"testing"
)

// TestHigh: ids above the block's are host ids of the block, which no lower id then has.
func TestHigh(t *testing.T) {
	pool := DefaultPool()
	var many []uint32
	for i := range uint32(100) {
		many = append(many, 2000000000+2*i)
	}
	for _, c := range []struct {
		name       string
		high, used []uint32
		have, lack []uint32
	}{
		{"none", nil, nil, []uint32{0, 65519, 65535}, []uint32{65536, 100000}},
		{"a user", []uint32{100000}, nil, []uint32{0, 1000, 65518, 65520, 65535, 100000}, []uint32{65519, 65536, 99999, 100001}},
		{"its id is in use", []uint32{100000}, []uint32{65519}, []uint32{65519, 100000}, []uint32{65518}},
		{"twice, low, out of bounds", []uint32{70000, 70000, 1000, 1<<32 - 1, 1<<32 - 2}, nil, []uint32{1000, 70000, 1<<32 - 2}, []uint32{65518, 65519}},
		{"too many", many, nil, []uint32{many[0], many[MaxHigh-1], 65532, 65534}, []uint32{many[MaxHigh], 65519 - MaxHigh + 1}},
	} {
		for _, nobody := range []bool{false, true} {
			all := ForBlock(pool, nobody, 3)
			for _, m := range []Map{all.WithHigh(c.high, c.used), all.WithHigh(c.high, c.used).WithoutSpare()} {
				if err := checkShape(m.UIDs); err != nil || !Equal(m.UIDs, m.GIDs) || len(Text(m.UIDs)) >= 4096 {
					t.Fatalf("%s: %v: %+v", c.name, err, m)
				}
				if !slices.IsSortedFunc(m.UIDs, func(a, b mapping) int { return int(int64(a.ContainerID) - int64(b.ContainerID)) }) {
					t.Errorf("%s: not in the kernel's order: %s", c.name, Text(m.UIDs))
				}
				for _, id := range c.have {
					host, ok := m.HostUID(id)
					if back, _ := m.UIDInside(host); !ok || back != id || !all.HasHostUID(host) {
						t.Errorf("%s: id %d is host %d, %v, and that is %d", c.name, id, host, ok, back)
					}
				}
				for _, id := range c.lack {
					if _, ok := m.HostGID(id); ok {
						t.Errorf("%s: id %d is mapped", c.name, id)
					}
				}
				uids, gids := m.ForImage()
				if err := checkShape(uids); err != nil || !Equal(uids, gids) || len(Text(uids)) >= 4096 {
					t.Fatalf("%s, image: %v: %s", c.name, err, Text(uids))
				}
				for _, id := range []uint32{0, 1000, 65536, 100000, 70000, pool.First - 1} {
					want, mapped := m.HostUID(id)
					if !mapped {
						want = id
					}
					if got, ok := lookup(uids, id); !ok || got != want {
						t.Errorf("%s, image: id %d is host %d, not %d", c.name, id, got, want)
					}
				}
				if id, ok := lookup(uids, pool.First); ok && !slices.Contains(c.high, pool.First) {
					t.Errorf("%s: an id of the pool is host %d", c.name, id)
				}
			}
		}
	}
	for high, want := range map[int]bool{0: true, 1: true, 2: true, 3: false, 48: false} { // with three ranges of lower ids
		if m := ForBlock(pool, false, 3).WithHigh(many[:high], nil).WithoutSpare(); m.Readable() != want {
			t.Errorf("%d: %v of %s", high, m.Readable(), Text(m.UIDs))
		}
	}
	if m := ForBlock(pool, false, 3).WithHigh([]uint32{100001, 100000}, nil); len(m.UIDs) != 3 || m.UIDs[2].Size != 2 {
		t.Errorf("two in a row: %s", Text(m.UIDs))
	}
	engines := Map{Block: -1, UIDs: []mapping{{HostID: 100000, Size: 65536}}}
	if m := engines.WithHigh([]uint32{100000}, nil); !Equal(m.UIDs, engines.UIDs) {
		t.Errorf("an engine's mapping: %+v", m)
	}
}
