package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/abi"
)

// A List narrows a profile to the calls that some known work needs (policy's seccomp.only). It
// comes from a file that the host's owner wrote, or had `agentjail learn` write. It is intersected
// with the profile, so that it can never let more through.
type List struct {
	// About reports what the list is for.
	About string `json:"about,omitempty"`
	// Extends is a profile whose calls the list has in addition to its own.
	Extends string `json:"extends,omitempty"`
	// Allow are its own calls. One that Extends has, too, is as it is here.
	Allow []ListGroup `json:"allow"`
}

// ListGroup are calls that are on a list for one reason.
type ListGroup struct {
	Names []string `json:"names"`
	// When are conditions on arguments, of which one must hold: "arg0 == 1 && arg1 & 0xf == 2".
	// Without any, all arguments pass that the profile lets pass.
	When []string `json:"when,omitempty"`
	Why  string   `json:"why"`
}

// Bounds of a list: more than there are calls, and than any profile's rules.
const (
	maxListGroups = 1024
	maxListWhen   = 64
)

// ParseList reads a list. Errors: what is not one, an unknown profile, a call that no architecture
// has, and a condition that is none: a misspelt line must not be silently absent.
func ParseList(data []byte) (*List, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	l := new(List)
	if err := dec.Decode(l); err != nil {
		return nil, fmt.Errorf("reading the list of calls: %w", err)
	}
	if dec.More() {
		return nil, errors.New("reading the list of calls: there is more after it")
	}
	return l, l.check()
}

func (l *List) check() error {
	if l.Extends != "" && !slices.Contains(Profiles(), l.Extends) {
		return fmt.Errorf("list of calls: extends %q: not one of %v", l.Extends, Profiles())
	}
	if len(l.Allow) > maxListGroups {
		return fmt.Errorf("list of calls: %d groups, and at most %d are read", len(l.Allow), maxListGroups)
	}
	for _, g := range l.Allow {
		for _, n := range g.Names {
			if _, ok := abi.Number(n, "amd64"); !ok {
				if _, ok := abi.Number(n, "arm64"); !ok {
					return fmt.Errorf("list of calls: %q is no system call", n)
				}
			}
		}
		if _, err := g.conditions(); err != nil {
			return fmt.Errorf("list of calls: %v: %w", g.Names, err)
		}
	}
	return nil
}

// conditions are the group's, in the form of filters.
func (g *ListGroup) conditions() ([]args, error) {
	if len(g.When) == 0 {
		return always, nil
	}
	if len(g.When) > maxListWhen {
		return nil, fmt.Errorf("%d conditions, and at most %d are read", len(g.When), maxListWhen)
	}
	out := make([]args, 0, len(g.When))
	for _, w := range g.When {
		a, err := parseWhen(w)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// parseWhen reads "arg0 == 1 && arg1 & 0xf == 2".
func parseWhen(text string) (args, error) {
	var out args
	for part := range strings.SplitSeq(text, "&&") {
		left, right, ok := strings.Cut(part, "==")
		if !ok {
			return out, fmt.Errorf("%q is no condition (as \"arg0 & 0xf == 2\")", text)
		}
		name, mask, hasMask := strings.Cut(left, "&")
		digit, ok := strings.CutPrefix(strings.TrimSpace(name), "arg")
		index, err := strconv.ParseUint(digit, 10, 3)
		if err != nil || !ok || index > 5 {
			return out, fmt.Errorf("%q: %q is none of arg0 to arg5", text, strings.TrimSpace(name))
		}
		m := uint64(0xffffffff) // what the kernel looks at of an integer
		if hasMask {
			if m, err = strconv.ParseUint(strings.TrimSpace(mask), 0, 64); err != nil || m == 0 {
				return out, fmt.Errorf("%q: %q is no mask", text, strings.TrimSpace(mask))
			}
		}
		v, err := strconv.ParseUint(strings.TrimSpace(right), 0, 64)
		if err != nil || v&^m != 0 {
			return out, fmt.Errorf("%q: %q is no value of that mask", text, strings.TrimSpace(right))
		}
		if out[index] != (set{}) {
			return out, fmt.Errorf("%q has two conditions on arg%d", text, index)
		}
		out[index] = set{masked, m, v}
	}
	return out, nil
}

// whenOf is parseWhen's inverse.
func whenOf(conds []cond) string {
	var parts []string
	for _, c := range conds {
		if c.mask == 0xffffffff {
			parts = append(parts, fmt.Sprintf("arg%d == %#x", c.arg, c.value))
		} else {
			parts = append(parts, fmt.Sprintf("arg%d & %#x == %#x", c.arg, c.mask, c.value))
		}
	}
	return strings.Join(parts, " && ")
}

// needed are what a process calls between the loading of the filters and the jail's program, in the
// delegate and in the init step (package guest), and the kernel by itself (restart_syscall(2)).
// Every list has them, as far as the profile does.
var needed = [...]string{
	"close", "execve", "exit", "exit_group", "fcntl", "fstat", "fstatfs", "futex", "getdents64", "getpid", "gettid", "mmap",
	"munmap", "nanosleep",
	"newfstatat", "openat", "read", "readlinkat", "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "statx",
	"tgkill", "write",
}

// Needed are the calls that every list has, whatever its rules: without them no program starts.
func Needed() []string { return slices.Clone(needed[:]) }

// section is the list as a filter for an architecture.
func (l *List) section(arch specs.Arch, goarch string) (*specs.LinuxSeccomp, error) {
	f := &filter{arches: []specs.Arch{arch}, def: answer{specs.ActErrno, eNOSYS}}
	has := map[string]bool{}
	for _, g := range l.Allow {
		conds, err := g.conditions()
		if err != nil {
			return nil, err
		}
		for _, n := range g.Names {
			if has[n] {
				return nil, fmt.Errorf("list of calls: %s is there twice", n)
			}
			has[n] = true
			if slices.Contains(needed[:], n) {
				conds = always
			}
			c := call{name: n, allow: conds}
			c.sort()
			f.calls = append(f.calls, c)
		}
	}
	add := func(name string, c call) {
		if _, ok := abi.Number(name, goarch); ok && !has[name] {
			has[name] = true
			c.name = name
			f.calls = append(f.calls, c)
		}
	}
	for _, n := range needed {
		add(n, call{allow: always})
	}
	if l.Extends != "" {
		p, err := load(l.Extends)
		if err != nil {
			return nil, err
		}
		for g := range on(p.allow, goarch) {
			c, err := g.allowed(false)
			if err != nil {
				return nil, fmt.Errorf("seccomp profile %q: %w", p.name, err)
			}
			for _, n := range g.names {
				add(n, c)
			}
		}
	}
	f.sort()
	return f.oci(), nil
}

// Text is the list as a file of it is written.
func (l *List) Text() ([]byte, error) {
	var b bytes.Buffer
	line := func(v any) (string, error) {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		err := enc.Encode(v)
		return strings.TrimSuffix(out.String(), "\n"), err
	}
	about, err := line(l.About)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "{\n  \"about\": %s,\n", about)
	if l.Extends != "" {
		fmt.Fprintf(&b, "  \"extends\": %q,\n", l.Extends)
	}
	b.WriteString("  \"allow\": [")
	for i, g := range l.Allow {
		text, err := line(g)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %s", text)
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes(), nil
}

// A Way is one alternative of an argument rule: the calls that pass by it, as a list's condition,
// and the bits that are looked at.
type Way struct {
	When  string
	conds []cond
}

// Has reports whether a call with these arguments passes by it.
func (w Way) Has(values [6]uint64) bool {
	for _, c := range w.conds {
		if values[c.arg]&c.mask != c.value {
			return false
		}
	}
	return true
}

// Ways are the alternatives by which a profile lets a call pass; none for one that passes whatever
// its arguments, or not at all.
func Ways(profile, call, arch string) []Way {
	p, err := load(profile)
	if err != nil {
		return nil
	}
	for g := range on(p.allow, arch) {
		if g.rule == "" || !slices.Contains(g.names, call) {
			continue
		}
		r, _ := ruleOf(g.rule)
		var out []Way
		for _, conds := range r.allow {
			out = append(out, Way{whenOf(conds), conds})
		}
		return out
	}
	return nil
}

// Looked are the bits of each argument that a profile's rule for a call looks at, to let it pass or
// to refuse it in its own way.
func Looked(profile, call, arch string) (masks [6]uint64) {
	p, err := load(profile)
	if err != nil {
		return masks
	}
	for g := range on(slices.Concat(p.allow, p.refuse), arch) {
		r, ok := ruleOf(g.rule)
		if !ok || !slices.Contains(g.names, call) {
			continue
		}
		for _, conds := range r.allow {
			for _, c := range conds {
				masks[c.arg] |= c.mask
			}
		}
		for _, v := range r.refuse {
			for _, c := range v.conds {
				masks[c.arg] |= c.mask
			}
		}
	}
	return masks
}
