// Package lazyregexp compiles regular expressions when they are first used: every start of a jail
// would pay for one that is compiled before main.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression, which has to be valid.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
