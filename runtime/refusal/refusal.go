// Package refusal defines the form of agentjail's refusals: a stable code for programs, what the
// refusal is about, the reason, and the remedy.
//
// The text of an error reads
//
//	mount of /etc at /w: refused: the host's settings are in it (remedy: policy: binds.allow)
//
// and stands in an engine's log and on `docker run`'s standard error. With --log-format json, and
// with --json where a command has it, the parts are fields of their own. The codes are listed in
// Codes and in docs/why.md.
package refusal

import (
	"errors"
	"fmt"
	"strings"
)

// Code names a kind of refusal. Codes are part of the interface: the meaning of a code never
// changes.
type Code string

// Err is what every refusal is: errors.Is(err, refusal.Err).
var Err = errors.New("refused")

// Error is one refusal.
type Error struct {
	// Code names the kind; it is one of Codes.
	Code Code `json:"code"`
	// Of reports what is refused, as "mount of /etc at /w"; "" if Why includes it.
	Of string `json:"of,omitempty"`
	// Why is the reason, in one line. Parts of it may come from a bundle: the caller that prints it
	// makes it printable.
	Why string `json:"why"`
	// Remedy is a change after which it is permitted; "" where there is none.
	Remedy string `json:"remedy,omitempty"`
}

// New makes a refusal for a reason, formatted as by fmt.Sprintf.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Why: fmt.Sprintf(format, args...)}
}

// WithRemedy returns a copy with the remedy, formatted as by fmt.Sprintf.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	c := *e
	c.Remedy = fmt.Sprintf(format, args...)
	return &c
}

// About returns a copy that reports what is refused, formatted as by fmt.Sprintf. It returns nil
// for nil.
func (e *Error) About(format string, args ...any) *Error {
	if e == nil {
		return nil
	}
	c := *e
	c.Of = fmt.Sprintf(format, args...)
	return &c
}

// Error is the refusal in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Of != "" {
		b.WriteString(e.Of + ": ")
	}
	b.WriteString("refused: " + e.Why)
	if e.Remedy != "" {
		b.WriteString(" (remedy: " + e.Remedy + ")")
	}
	return b.String()
}

// Is makes every refusal one of Err.
func (e *Error) Is(target error) bool { return target == Err }

// All lists the refusals that an error is made of, in order: an error may wrap several
// (errors.Join). It is empty for any other error.
func All(err error) []*Error {
	if err == nil {
		return nil
	}
	var out []*Error
	switch err := any(err).(type) { // level by level, since each may wrap several
	case *Error:
		return []*Error{err}
	case interface{ Unwrap() error }:
		out = All(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			out = append(out, All(e)...)
		}
	}
	return out
}

// Join makes one error of refusals, nil of none. Its text is on one line, the refusals separated by
// semicolons.
func Join(all []*Error) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return list(all)
}

// list is more than one refusal.
type list []*Error

func (l list) Error() string {
	text := make([]string, len(l))
	for i, e := range l {
		text[i] = e.Error()
	}
	return strings.Join(text, "; ")
}

func (l list) Unwrap() []error {
	out := make([]error, len(l))
	for i, e := range l {
		out[i] = e
	}
	return out
}
