package why

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/seccomp/abi"
)

// Kind reports what a question is about.
type Kind string

// The kinds of questions.
const (
	OfCall  Kind = "call"
	OfPath  Kind = "path"
	OfName  Kind = "name"
	OfError Kind = "error"
)

// Question is one parsed question.
type Question struct {
	Text string
	Kind Kind
	Call Call // OfCall
	Name string
	Port uint16
	// Addr is an address that stands for a name in jails, in place of Name.
	Addr netip.Addr
	// Path is that of OfPath, or of the text of an error, and Inner a call that such a text names.
	Path  string
	Inner Call
}

// maxQuestion bounds the text of a question: a whole log is none.
const maxQuestion = 16 << 10

// ParseQuestion reads a question: a path begins with a slash, a system call is a name, a number or
// NAME(ARGUMENT, ...), a name of the network has a dot or a port, and everything else is the text
// of an error.
func ParseQuestion(text, arch string) (Question, error) {
	q := Question{Text: strings.TrimSpace(text)}
	if q.Text == "" || len(q.Text) > maxQuestion {
		return q, fmt.Errorf("a question has 1 to %d characters: a system call, a path, NAME:PORT or the text of an error", maxQuestion)
	}
	if strings.HasPrefix(q.Text, "/") && !strings.ContainsAny(q.Text, ":\n") {
		q.Kind, q.Path = OfPath, q.Text
		return q, nil
	}
	call, isCall, err := parseCall(q.Text, arch)
	if isCall {
		q.Kind, q.Call = OfCall, call
		return q, err
	}
	if name, port, ok := target(q.Text); ok {
		q.Kind = OfName
		q.toward(name, port)
		return q, nil
	}
	q.Kind = OfError
	q.about(arch)
	return q, nil
}

// toward makes a name or an address the subject of a question.
func (q *Question) toward(name string, port uint16) {
	q.Name, q.Port = name, port
	if a, err := netip.ParseAddr(name); err == nil && netrules.InPool(a) {
		q.Addr = a
	}
}

// target reads NAME:PORT, or a NAME with a dot.
func target(text string) (string, uint16, bool) {
	if strings.ContainsAny(text, " \t\n/'\"") {
		return "", 0, false
	}
	name, port := text, uint64(443)
	if n, p, err := net.SplitHostPort(text); err == nil {
		name = n
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return "", 0, false
		}
	} else if !strings.Contains(text, ".") {
		return "", 0, false
	}
	if a, err := netip.ParseAddr(name); err == nil && netrules.InPool(a) {
		return name, uint16(port), true
	}
	name, err := netrules.Canonical(name)
	return name, uint16(port), err == nil
}

// A Call is a system call, with what is known of its arguments.
type Call struct {
	Name   string
	Number uint32
	Args   [6]uint64
	Known  [6]bool
}

// maxNumber is above every number that a kernel has assigned.
const maxNumber = 1 << 12

// parseCall reads NAME, NUMBER or NAME(ARGUMENT, ...). ok is false where the text is no call's.
func parseCall(text, arch string) (c Call, ok bool, err error) {
	name, rest, args := strings.Cut(text, "(")
	name = strings.TrimSpace(name)
	if n, nerr := strconv.ParseUint(name, 0, 32); nerr == nil {
		c.Number, c.Name = uint32(n), abi.Name(uint32(n), arch)
		if n >= maxNumber {
			return c, true, fmt.Errorf("%d is no system call's number", n)
		}
	} else if c.Number, ok = abi.Number(name, arch); ok {
		c.Name = name
	} else {
		// A call of the other architecture is a call, too.
		for _, other := range []string{"amd64", "arm64"} {
			if _, there := abi.Number(name, other); there {
				return c, true, fmt.Errorf("%s is no system call of %s", name, arch)
			}
		}
		return c, false, nil
	}
	if !args {
		return c, true, nil
	}
	rest, after, closed := strings.Cut(rest, ")")
	if !closed {
		return c, true, fmt.Errorf("%q has no closing parenthesis", text)
	}
	if strings.TrimSpace(after) != "" { // a line of strace's, or an error that begins with a call
		return c, false, nil
	}
	if strings.TrimSpace(rest) == "" {
		return c, true, nil
	}
	for i, word := range strings.Split(rest, ",") {
		if i >= len(c.Args) {
			return c, true, fmt.Errorf("%q has more than six arguments", text)
		}
		if c.Args[i], c.Known[i], err = argument(strings.TrimSpace(word)); err != nil {
			return c, true, err
		}
	}
	return c, true, nil
}

// argument reads a number, names of constants joined by "|", or what is not known: "_" or "...".
func argument(word string) (value uint64, known bool, err error) {
	if word == "" || word == "_" || word == "..." || word == "?" {
		return 0, false, nil
	}
	for part := range strings.SplitSeq(word, "|") {
		part = strings.TrimSpace(part)
		v, ok := constants[part]
		if !ok {
			if n, serr := strconv.ParseInt(part, 0, 64); serr == nil {
				v, ok = uint64(n), true
			} else if n, uerr := strconv.ParseUint(part, 0, 64); uerr == nil {
				v, ok = n, true
			}
		}
		if !ok {
			return 0, false, fmt.Errorf("argument %q: a number, a constant such as AF_VSOCK, or _ for any", part)
		}
		value |= v
	}
	return value, true, nil
}
