package idmap

import "testing"

// TestSpare: one id of a block is the helper's and the overflow user's in the jail, and it is none
// that images of pods run as.
func TestSpare(t *testing.T) {
	pool := DefaultPool()
	for _, nobody := range []bool{false, true} {
		all := ForBlock(pool, nobody, 3)
		m := all.WithoutSpare()
		id := m.Spare()
		if m.HasHostUID(id) || m.HasHostGID(id) || !all.HasHostUID(id) || !all.HasHostGID(id) {
			t.Errorf("host id %d: %+v", id, m)
		}
		left := 0
		for c := range uint32(RangeSize) {
			want, _ := all.HostUID(c)
			got, ok := m.HostUID(c)
			gid, gok := m.HostGID(c)
			if ok != gok || got != gid || ok && got != want {
				t.Fatalf("id %d is host %d, %d, not %d", c, got, gid, want)
			}
			if !ok {
				left++
			}
		}
		if left != 1 {
			t.Errorf("%d ids are left out", left)
		}
		for _, c := range []uint32{0, 1, 1000, 65532, 65534, 65535} { // root, users, distroless' nonroot, the overflow id, pause
			if _, ok := m.HostUID(c); !ok {
				t.Errorf("id %d is unmapped", c)
			}
		}
		// A jail that has all of its block, or an engine's ids, has none to spare.
		engines := all
		engines.Block = -1
		for _, m := range []Map{all, engines, engines.WithoutSpare()} {
			if id := m.Spare(); id < ReservedFirst || m.HasHostUID(id) {
				t.Errorf("%+v spares %d", m, id)
			}
		}
	}
}
