package why

import (
	"slices"
	"strings"
	"sync"

	"agentjail.dev/seccomp/profiles"
)

// refusals is what is known of refused calls beside the profiles.
type refusals struct {
	// Groups hold every call that no profile lets pass (TestEveryCallHasAReason).
	Groups []refusedGroup `toml:"group"`
	// AlsoRefusedBy and Instead are, by call, what else refuses calls and arguments that some
	// profile lets pass, and what serves in place of arguments that none does.
	AlsoRefusedBy map[string]string `toml:"also_refused_by"`
	Instead       map[string]string `toml:"instead"`
	// Sockets is what refuses socket families and types beside the filter.
	Sockets map[string]string `toml:"sockets"`
}

// A refusedGroup is a group of system calls that no profile lets pass.
type refusedGroup struct {
	Calls         string `toml:"calls"` // separated by spaces
	Why           string `toml:"why"`
	AlsoRefusedBy string `toml:"also_refused_by"` // "" if they would pass without a filter
	Instead       string `toml:"instead"`         // what programs use, or the user who runs the jail
}

// refused is the table, read at the first question about a call. Its test holds that it can be
// read.
var refused = sync.OnceValue(func() *refusals {
	out := new(refusals)
	if err := decode("refused.toml", profiles.Refused, out); err != nil {
		panic(err)
	}
	return out
})

// groupOf finds a call's group; nil for a call that some profile lets pass.
func groupOf(call string) *refusedGroup {
	all := refused().Groups
	at := slices.IndexFunc(all, func(g refusedGroup) bool { return slices.Contains(strings.Fields(g.Calls), call) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// otherLayers describes what else refuses a call, besides the filters.
func otherLayers(c *Call) string {
	all := refused()
	if g := groupOf(c.Name); g != nil {
		return g.AlsoRefusedBy
	}
	if c.Name == "socket" {
		for word, by := range all.Sockets {
			if c.Known[0] && strings.HasPrefix(word, "AF_") && c.Args[0] == constants[word] {
				return by
			}
		}
		if c.Known[1] && c.Args[1]&0xf == constants["SOCK_RAW"] {
			return all.Sockets["SOCK_RAW"]
		}
	}
	return all.AlsoRefusedBy[c.Name]
}
