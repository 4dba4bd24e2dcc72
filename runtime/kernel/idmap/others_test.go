package idmap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWithOthers: beside what a mount maps for its owner, every other id on the disk has one of its own,
// which is neither a process's of the jail nor, for the ids of people and services, one of the machine's.
func TestWithOthers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ids := []uint32{0, 1, 999, 1000, 1001, 65533, 65534, 65535, 65536, 100000, 165536, 1 << 30, ReservedFirst - 1, 1<<31 + RangeSize, 3000000000, 1<<32 - 2}
	for range 2000 {
		m := ForBlock(DefaultPool(), r.IntN(2) == 0, r.IntN(100)).WithoutSpare()
		switch r.IntN(3) {
		case 0:
			m = m.WithHigh([]uint32{100000, 200000, 3000000000}, nil)
		case 1:
			m = Map{Block: -1, UIDs: []mapping{{HostID: 100000, Size: 1 + r.Uint32N(70000)}, {ContainerID: 80000, HostID: 1000, Size: 1}}}
		}
		jail, owner := m.UIDs, ids[r.IntN(len(ids))]
		own, ok := ForMount(jail, Pair{Disk: owner, Jail: 0})
		if !ok {
			t.Fatal(Text(jail))
		}
		got := WithOthers(own, jail)
		if err := checkRanges(got); err != nil || len(Text(got)) >= maxText {
			t.Fatalf("%v:\n%s", err, Text(got))
		}
		if !slices.IsSortedFunc(got, func(a, b mapping) int { return int(int64(a.ContainerID) - int64(b.ContainerID)) }) {
			t.Fatalf("not in order:\n%s", Text(got))
		}
		for _, id := range append(ids, r.Uint32N(ReservedFirst)) {
			had, known := lookup(own, id)
			at, ok := lookup(got, id)
			_, ofJail := reverse(jail, at)
			switch {
			case known && at != had:
				t.Fatalf("%d was %d, and is %d", id, had, at)
			case known:
			case !ok && id < ReservedFirst:
				t.Fatalf("%d has no id:\n%s", id, Text(got))
			case ok && (ofJail || at < RangeSize):
				t.Fatalf("%d has %d, of the jail %v", id, at, ofJail)
			case ok && id < ReservedFirst && (at < 1<<31 || at >= ApproverID && at <= ReaderID):
				t.Fatalf("%d has %d, which a process can have", id, at)
			}
		}
	}
	// More than the kernel takes: the owner alone.
	var many []mapping
	for i := range uint32(300) {
		many = append(many, mapping{ContainerID: i, HostID: 100000 + 2*i, Size: 1})
	}
	if got := WithOthers([]mapping{{ContainerID: 1000, HostID: 100000, Size: 1}}, many); len(got) != 1 {
		t.Errorf("%d parts", len(got))
	}
}

// checkRanges is checkShape of a mapping without container root.
func checkRanges(ms []mapping) error {
	for i, e := range ms {
		if e.Size == 0 || uint64(e.HostID)+uint64(e.Size) > 1<<32-1 || uint64(e.ContainerID)+uint64(e.Size) > 1<<32-1 {
			return fmt.Errorf("%v is out of bounds", e)
		}
		for _, o := range ms[:i] {
			if overlap(e.HostID, e.Size, o.HostID, o.Size) || overlap(e.ContainerID, e.Size, o.ContainerID, o.Size) {
				return fmt.Errorf("%v and %v map an id twice", e, o)
			}
		}
	}
	return nil
}
