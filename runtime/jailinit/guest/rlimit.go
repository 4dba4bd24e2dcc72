package guest

import (
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// A limit is a resource limit that is to be set, and what the kernel has then.
type limit struct {
	resource   uintptr
	want, have unix.Rlimit
}

const limitName = "resource limit "

// limitsOf returns the limits to be set. Without CAP_SYS_RESOURCE a hard limit can only be lowered:
// a lower limit stays. The limit on core files has to be the ordered one.
func limitsOf(ordered []jailinit.Rlimit) ([]limit, error) {
	out := make([]limit, len(ordered))
	for i, r := range ordered {
		l := &out[i]
		l.resource = uintptr(r.Resource)
		if err := unix.Prlimit(0, int(r.Resource), nil, &l.have); err != nil {
			return nil, refusal("reading " + limitName + itoa(uint64(r.Resource)) + ": " + err.Error())
		}
		l.want.Max = min(r.Hard, l.have.Max)
		l.want.Cur = min(r.Soft, l.want.Max)
		if r.Resource == unix.RLIMIT_CORE && l.want.Cur != r.Soft {
			why := append([]byte(limitName), itoa(uint64(r.Resource))...)
			return nil, refusal(string(appendIsNot(why, l.want, unix.Rlimit{Cur: r.Soft, Max: r.Hard})))
		}
	}
	return out, nil
}

// appendIsNot reports what a limit is and must be.
func appendIsNot(b []byte, is, must unix.Rlimit) []byte {
	b = strconv.AppendUint(append(b, " is "...), is.Cur, 10)
	b = strconv.AppendUint(append(b, " of "...), is.Max, 10)
	b = strconv.AppendUint(append(b, " and must be "...), must.Cur, 10)
	return strconv.AppendUint(append(b, " of "...), must.Max, 10)
}
