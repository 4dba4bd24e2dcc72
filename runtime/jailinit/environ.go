package jailinit

import (
	"slices"
	"strconv"
	"strings"
)

// numberedForm is the first form with which a process's variables are numbered.
const numberedForm = 10

// maxPiece bounds the part of a variable under one number, in bytes. The kernel takes strings of
// 128 KiB (MAX_ARG_STRLEN, execve(2)).
const maxPiece = 64 << 10

// Numbered returns a program's variables for a delegate and the step. Go's runtime, a C library and
// a delegate act on variables by their names, and neither of these is the container's to steer. So
// each string goes under a number of its own; one that ends in "+" continues in the next.
func Numbered(env []string) []string {
	out := make([]string, 0, len(env))
	for _, e := range env {
		for len(e) > maxPiece {
			out = append(out, strconv.Itoa(len(out))+"+="+e[:maxPiece])
			e = e[maxPiece:]
		}
		out = append(out, strconv.Itoa(len(out))+"="+e)
	}
	return out
}

// Variables returns the program's variables, of those that the step was started with: what went
// through Numbered. HOME, where the program has none, is the delegate's, which looks it up in the
// jail (runc, crun and runsc).
func (o *Orders) Variables(environ []string) (env []string) {
	if o.Form < numberedForm {
		for _, own := range o.OwnEnv {
			if i := slices.Index(environ, own); i >= 0 {
				environ = slices.Delete(environ, i, i+1)
			}
		}
		return environ
	}
	var found []string
	type piece struct {
		number int
		text   string
		more   bool
	}
	var pieces []piece
	for _, e := range environ {
		name, text, _ := strings.Cut(e, "=")
		number, more := strings.CutSuffix(name, "+")
		if n, err := strconv.Atoi(number); err == nil {
			pieces = append(pieces, piece{n, text, more})
		} else if name == "HOME" {
			found = []string{e}
		}
	}
	// gVisor changes the order.
	slices.SortFunc(pieces, func(a, b piece) int { return a.number - b.number })
	whole := ""
	for _, p := range pieces {
		if whole += p.text; !p.more {
			env, whole = append(env, whole), ""
		}
	}
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		return env
	}
	return append(env, found...)
}
