package guest

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// Of the filters of a process and its ancestors the kernel adds up the instructions, as compiled,
// and 4 for each filter (kernel/seccomp.c, MAX_INSNS_PER_PATH). Forked processes share the filters
// that were loaded before.
const (
	pathInstructions = 1 << 18 / 8
	perFilter        = 4
	filterMax        = 4096 // instructions of a filter as handed to the kernel
)

// outerFilter bounds what the kernel makes of the delegate's filter: 632 to 748
// instructions for the profile that is padded.
const outerFilter = 1024

// pad loads filters that allow everything, until about o.LeaveFilters
// instructions of the kernel's are left for filters of the program's own.
// Without, each process of a jail could take thirty thousand, and two jails all
// that the host has (net.core.bpf_jit_limit).
//
// The kernel answers from its bitmap what such a filter allows; all but two of
// its instructions are jumps to the next, which are never run and of which
// compiling leaves nothing on x86_64.
func pad(o *jailinit.Orders) error {
	if o.LeaveFilters == 0 {
		return nil
	}
	// An instruction becomes at most two in filters like the second.
	free := pathInstructions - outerFilter - int(o.LeaveFilters) - len(o.Filter)/8*2 - perFilter
	for free > 0 {
		p, cost := padding(free)
		if p == nil {
			return nil
		}
		switch err := addFilter(p); {
		case errors.Is(err, unix.ENOMEM): // the delegate's filter is longer: less is left
			return nil
		case err != nil:
			return err
		}
		free -= cost
	}
	return nil
}

// padding returns a filter that costs at most free of the path's instructions, and its cost. It
// returns nil if every filter costs more.
func padding(free int) (filter []byte, cost int) {
	// The kernel puts three instructions in front, and a return becomes two.
	const more = 3 + 2 + perFilter
	n := min(free-more, filterMax)
	if n < 2 {
		return nil, 0
	}
	filter = make([]byte, 8*n)
	for i := range n {
		code, k := uint16(unix.BPF_JMP|unix.BPF_JA), uint32(0)
		if i == 0 || i == n-1 {
			code, k = unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW
		}
		binary.NativeEndian.PutUint16(filter[8*i:], code)
		binary.NativeEndian.PutUint32(filter[8*i+4:], k)
	}
	return filter, n + more
}
