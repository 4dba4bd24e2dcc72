package idmap

import (
	"math/rand/v2"
	"testing"
)

// TestForMount: owners are mapped, every other id of the jail has a reserved one,
// and the kernel takes the mapping.
func TestForMount(t *testing.T) {
	const reserved = ReservedFirst
	jail := ForBlock(DefaultPool(), false, 3).UIDs
	base := jail[0].HostID
	for _, c := range []struct {
		name   string
		jail   []mapping
		owners []Pair
		want   string // "" for none
	}{
		{"a person's", jail, []Pair{{1000, 1000}}, Text([]mapping{
			{ContainerID: 1000, HostID: base + 1000, Size: 1}, {ContainerID: reserved, HostID: base, Size: 1000}, {ContainerID: reserved + 1001, HostID: base + 1001, Size: 64534},
		})},
		{"the jail's root", jail, []Pair{{1000, 0}}, Text([]mapping{
			{ContainerID: 1000, HostID: base, Size: 1}, {ContainerID: reserved + 1, HostID: base + 1, Size: 65534},
		})},
		{"the jail's last", jail, []Pair{{1000, 65535}}, Text([]mapping{
			{ContainerID: 1000, HostID: base + 65535, Size: 1}, {ContainerID: reserved, HostID: base, Size: 65535},
		})},
		{"a file of a reserved id", jail, []Pair{{reserved + 7, 5}}, Text([]mapping{
			{ContainerID: reserved, HostID: base, Size: 5},
			{ContainerID: reserved + 5, HostID: base + 7, Size: 1},
			{ContainerID: reserved + 6, HostID: base + 6, Size: 1},
			{ContainerID: reserved + 7, HostID: base + 5, Size: 1},
			{ContainerID: reserved + 8, HostID: base + 8, Size: 65527},
		})},
		{"a file of a reserved id of the same number", jail, []Pair{{reserved + 7, 7}}, Text([]mapping{
			{ContainerID: reserved, HostID: base, Size: 7}, {ContainerID: reserved + 7, HostID: base + 7, Size: 1}, {ContainerID: reserved + 8, HostID: base + 8, Size: 65527},
		})},
		{"root as an unmapped id", ForBlock(DefaultPool(), true, 3).UIDs, []Pair{{1000, 1}}, Text([]mapping{
			{ContainerID: 1000, HostID: base + 1, Size: 1}, {ContainerID: reserved, HostID: 65534, Size: 1}, {ContainerID: reserved + 2, HostID: base + 2, Size: 65533},
		})},
		{"an engine's that is longer", []mapping{{HostID: 100000, Size: 200000}}, []Pair{{1000, 70000}}, Text([]mapping{
			{ContainerID: 1000, HostID: 170000, Size: 1}, {ContainerID: reserved, HostID: 100000, Size: 65535},
		})},
		{"an id that the jail lacks", jail, []Pair{{1000, 65536}}, ""},
	} {
		got, ok := ForMount(c.jail, c.owners...)
		if ok != (c.want != "") || Text(got) != c.want {
			t.Errorf("%s: %v\n%snot\n%s", c.name, ok, Text(got), c.want)
		}
	}
	// An id above the block's is an owner, or has the reserved id of the one that it stands for.
	high := ForBlock(DefaultPool(), false, 3).WithHigh([]uint32{100000, 200000}, nil)
	for owner, other := range map[uint32]uint32{100000: 200000, 200000: 100000, 1000: 100000} {
		got, ok := ForMount(high.UIDs, Pair{Disk: 100000, Jail: owner})
		host, _ := high.HostUID(owner)
		if at, known := lookup(got, 100000); !ok || !known || at != host {
			t.Errorf("%d: %v\n%s", owner, ok, Text(got))
		}
		host, _ = high.HostUID(other)
		if disk, known := reverse(got, host); !known || disk < reserved || disk >= reserved+reservedSize {
			t.Errorf("%d beside %d has %d on the disk", other, owner, disk)
		}
	}
	// More parts than the kernel takes: the owner alone.
	var many []mapping
	for i := range uint32(maxExtents) {
		many = append(many, mapping{ContainerID: i * 2, HostID: 100000 + i*3, Size: 2})
	}
	if got, ok := ForMount(many, Pair{1000, 5}); !ok || len(got) != 1 {
		t.Errorf("%d parts: %v", len(got), ok)
	}
}

// TestForMountIsBijective: for every owner of the directory, nothing is mapped twice, and
// no user of the jail but the owner has an id that is not reserved.
func TestForMountIsBijective(t *testing.T) {
	const reserved = ReservedFirst
	r := rand.New(rand.NewPCG(1, 2))
	disk := func() uint32 {
		return []uint32{0, 1, 1000, 65534, reserved - 1, reserved, reserved + 1, reserved + 1000, reserved + 65534, reserved + 65535, 1<<32 - 2}[r.IntN(11)]
	}
	for range 20000 {
		jail := ForBlock(DefaultPool(), false, r.IntN(100)).UIDs
		if r.IntN(3) == 0 {
			jail = []mapping{{HostID: 200000, Size: 1 + r.Uint32N(1000)}, {ContainerID: 1000, HostID: 300000, Size: 1 + r.Uint32N(80000)}}
		}
		owners := []Pair{{disk(), r.Uint32N(1100)}}
		if r.IntN(2) == 0 {
			if o := (Pair{disk(), []uint32{0, 1, 1000, 1001}[r.IntN(4)]}); o.Disk != owners[0].Disk && o.Jail != owners[0].Jail {
				owners = append(owners, o)
			}
		}
		got, ok := ForMount(jail, owners...)
		if !ok {
			continue
		}
		for _, o := range owners {
			host, _ := lookup(jail, o.Jail)
			if at, ok := lookup(got, o.Disk); !ok || at != host {
				t.Fatalf("%v of %v: %d is %d, not %d", owners, jail, o.Disk, at, host)
			}
		}
		n := uint64(0)
		for i, e := range got {
			n += uint64(e.Size)
			for _, o := range got[:i] {
				if overlap(e.HostID, e.Size, o.HostID, o.Size) || overlap(e.ContainerID, e.Size, o.ContainerID, o.Size) {
					t.Fatalf("%v of %v maps an id twice:\n%s", owners, jail, Text(got))
				}
			}
			own := false
			for _, o := range owners {
				own = own || e.ContainerID == o.Disk && e.Size == 1
			}
			if !own && (e.ContainerID < reserved || uint64(e.ContainerID)+uint64(e.Size) > reserved+reservedSize) {
				t.Fatalf("%v of %v: ids on the disk that are not reserved:\n%s", owners, jail, Text(got))
			}
		}
		want := uint64(0)
		for _, e := range jail {
			want += max(min(uint64(e.ContainerID)+uint64(e.Size), reservedSize), uint64(e.ContainerID)) - uint64(e.ContainerID)
		}
		for _, o := range owners {
			if o.Jail >= reservedSize {
				want++
			}
		}
		if n != want {
			t.Fatalf("%v of %v: %d ids are mapped, not %d:\n%s", owners, jail, n, want, Text(got))
		}
		if len(jail) == 1 && len(owners) == 1 && len(got) > 5 {
			t.Fatalf("%d parts, and the kernel searches more than 5 in another way (kernel/user_namespace.c)", len(got))
		}
	}
}
