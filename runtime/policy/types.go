package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In text it may carry a unit: B, KiB, MiB, GiB,
// TiB, or the short forms K, M, G, T, all powers of 1024.
type Size int64

var units = []struct {
	suffix string
	factor float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"B", 1}, {"", 1},
}

// ParseSize reads a size such as "512MiB" or "1.5G".
func ParseSize(s string) (Size, error) {
	t := strings.TrimSpace(s)
	for _, u := range units {
		num, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		num = strings.TrimSpace(num)
		if u.factor == 1 && strings.ContainsAny(num, ".eE") {
			break // surely a unit is missing
		}
		v, err := strconv.ParseFloat(num, 64)
		if err != nil || math.IsNaN(v) || v < 0 || v*u.factor >= math.MaxInt64 {
			break
		}
		return Size(v * u.factor), nil
	}
	return 0, fmt.Errorf("%q is not a size (examples: 512MiB, 1GiB)", s)
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err == nil {
		*s = v
	}
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the size with the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%int64(u.factor) == 0 {
			return fmt.Sprintf("%d%s", int64(s)/int64(u.factor), u.suffix)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}

// RangeSize is the number of ids that each jail gets: as many as images use,
// and the unit in which other tools (the kubelet, systemd-nspawn) divide too.
const RangeSize = 1 << 16

// ReservedFirst is the first of ReservedSize ids that no process has: on disks they
// stand for a jail's users other than the owner of what is mounted. systemd's list
// has them as unused (UIDS-GIDS.md), between those that it keeps for files of
// foreign images and the usual range of Podman's --userns=auto.
const (
	ReservedFirst = 0x7fff0000
	ReservedSize  = RangeSize - 1
)

// Pool is a run of host ids, divided into blocks of RangeSize.
type Pool struct {
	First uint32 `json:"first"`
	Count uint32 `json:"count"`
}

// UnmarshalText reads FIRST:COUNT.
func (p *Pool) UnmarshalText(text []byte) error {
	first, count, ok := strings.Cut(string(text), ":")
	f, err1 := strconv.ParseUint(first, 10, 32)
	c, err2 := strconv.ParseUint(count, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return fmt.Errorf("%q is not an id pool (FIRST:COUNT, for example 2013265920:134086656)", text)
	}
	*p = Pool{First: uint32(f), Count: uint32(c)}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p Pool) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d:%d", p.First, p.Count), nil
}

// Blocks is how many jails the pool serves at once.
func (p Pool) Blocks() int { return int(p.Count / RangeSize) }

func (p Pool) validate() error {
	end := uint64(p.First) + uint64(p.Count)
	switch {
	case p.First%RangeSize != 0:
		return fmt.Errorf("userns.pool: %d is not a multiple of %d", p.First, RangeSize)
	case p.First < RangeSize:
		return fmt.Errorf("userns.pool: ids below %d belong to the host", RangeSize)
	case p.Count < RangeSize:
		return fmt.Errorf("userns.pool: needs at least %d ids", RangeSize)
	case end > ReservedFirst:
		// Behind the reserved ids, devpts and other file systems take ids as signed
		// 32-bit numbers.
		return fmt.Errorf("userns.pool: must end below %d", uint32(ReservedFirst))
	}
	return nil
}
