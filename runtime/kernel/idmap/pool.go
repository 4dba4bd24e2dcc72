package idmap

import (
	"fmt"
	"strconv"
	"strings"
)

// RangeSize is the number of ids that each jail gets: as many as images use,
// and the unit in which other tools (the kubelet, systemd-nspawn) divide too.
const RangeSize = 1 << 16

// ReservedFirst is the first of ReservedSize ids that no process has: on disks they
// stand for a jail's users other than the owner of what is mounted. systemd's list
// has them as unused (UIDS-GIDS.md), between those that it keeps for files of
// foreign images and the usual range of Podman's --userns=auto.
const (
	ReservedFirst = 0x7fff0000
	reservedSize  = RangeSize - 1
)

// Users and groups of helpers that serve no single jail. They own no file, and each helper has its
// own: a process of one cannot signal or trace another's. The kernel's overflow user is gVisor's
// sentry's, and that of services. No tool allocates ids from 2147483648 on (UIDS-GIDS.md).
const (
	ApproverID = ReservedFirst + RangeSize + iota // policy's command that decides on names
	ParserID                                      // parses a project's policy file
	ReaderID                                      // reads the eBPF programs' events, without a user of its name
)

// Pool is a run of host ids, divided into blocks of RangeSize.
type Pool struct {
	First uint32 `json:"first"`
	Count uint32 `json:"count"`
}

// DefaultPool is that of the built-in policy.
func DefaultPool() Pool { return Pool{First: 0x78000000, Count: 0x7fe0000} }

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

// Check reports what is wrong with a pool: it begins at a multiple of RangeSize, above
// the host's own ids, holds a block, and ends below the reserved ids.
func (p Pool) Check() error {
	end := uint64(p.First) + uint64(p.Count)
	switch {
	case p.First%RangeSize != 0:
		return fmt.Errorf("%d is not a multiple of %d", p.First, RangeSize)
	case p.First < RangeSize:
		return fmt.Errorf("ids below %d belong to the host", RangeSize)
	case p.Count < RangeSize:
		return fmt.Errorf("needs at least %d ids", RangeSize)
	case end > ReservedFirst:
		// Behind the reserved ids, devpts and other file systems take ids as signed
		// 32-bit numbers.
		return fmt.Errorf("must end below %d", uint32(ReservedFirst))
	}
	return nil
}
