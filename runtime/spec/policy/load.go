package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"agentjail.dev/runtime/kernel/idmap"
)

// ErrNoPolicy is wrapped where no policy has the name that is looked for.
var ErrNoPolicy = errors.New("no such policy")

// A Problem is a mistake in a policy file.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // 0 where no line has it
	Policy string `json:"policy,omitempty"` // the named policy
	Key    string `json:"key,omitempty"`
	Text   string `json:"problem"`
	// Warning reports that jails start all the same.
	Warning bool `json:"warning,omitempty"`
}

// String is the problem with its place.
func (p Problem) String() string { return p.File + ":" + p.position() }

// position is the problem with its place in the file.
func (p Problem) position() string {
	text := p.Text
	if p.Policy != "" {
		text = fmt.Sprintf("[policies.%s] %s", p.Policy, text)
	}
	if p.Line > 0 {
		text = fmt.Sprintf("line %d: %s", p.Line, text)
	}
	return " " + text
}

// Problems is the error of a file with mistakes.
type Problems []Problem

// Error names the places of all.
func (ps Problems) Error() string {
	out, file := "", ""
	for i, p := range ps {
		switch {
		case p.File != file:
			out += strings.Repeat("; ", min(i, 1)) + "policy " + p.File + ":"
		default:
			out += ";"
		}
		out, file = out+p.position(), p.File
	}
	return out
}

// Load reads the policy at path, with the named policy of that name ("" for none). A missing file
// means Default. A file that users other than root could have written is an error, and so is an
// unknown key: a misspelt protection must not be silently absent. Mistakes in other named policies
// are not looked at.
func Load(path, name string) (Policy, error) {
	p, err := load(path, name)
	p.Origin = &Origin{Path: path, Name: name}
	return p, err
}

// lasting are the policies of LoadLasting, by path and name.
var lasting sync.Map

// LoadLasting is Load for a process that outlives an upgrade, to which keys of a newer release are
// mistakes. Where the file has mistakes, the result is the policy that this process read there
// before, and Origin has the mistakes. A file that cannot be trusted or read is an error, as are
// mistakes at the first reading.
func LoadLasting(path, name string) (Policy, error) {
	at := [2]string{path, name}
	p, err := Load(path, name)
	if err == nil {
		lasting.Store(at, p)
		return p, nil
	}
	had, ok := lasting.Load(at)
	if _, mistakes := errors.AsType[Problems](err); !ok || !mistakes {
		return p, err
	}
	p = had.(Policy)
	p.noteOrigin(func(o *Origin) { o.Mistakes = err.Error() })
	return p, nil
}

func load(path, name string) (Policy, error) {
	f, err := openFile(path)
	if err != nil {
		return Default(), err
	}
	f.join(namedFile(path, name))
	p, _, err := f.policy(name)
	if err != nil {
		return p, err
	}
	if err := p.Seccomp.load(); err != nil {
		return p, fmt.Errorf("policy %s: %w", path, err)
	}
	return p, nil
}

// openFile reads the file at path. One that is missing at the default place is empty.
func openFile(path string) (*file, error) {
	data, err := readTrusted(path)
	if path == os.DevNull || errors.Is(err, os.ErrNotExist) && path == DefaultPath {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return readFile(data, path), nil
}

// Parse is Load for text already in memory, without the list of seccomp.only and without files of
// named policies; path is used only in messages.
func Parse(data []byte, path, name string) (Policy, error) {
	p, _, err := readFile(data, path).policy(name)
	return p, err
}

// policy makes the policy of that name, and returns the setting that each of its values is from.
func (f *file) policy(name string) (Policy, map[string]setting, error) {
	p, from := Default(), map[string]setting{}
	problems := f.of(name)
	for _, of := range slices.Compact([]string{"", name}) {
		if builtin := builtins[name]; builtin != nil && of == name {
			builtin(&p)
		}
		for _, s := range f.settings {
			if s.policy != of {
				continue
			}
			if err := s.apply(&p); err != nil {
				problems = append(problems, s.problem(err))
			}
			from[s.key] = s
		}
	}
	if problems == nil && name != "" && builtins[name] == nil && !slices.Contains(f.policies, name) {
		hint := Suggestion(name, f.policies)
		if hint == "" {
			hint = " (remedy: add that table)"
		}
		return p, from, fmt.Errorf("%w: %s has no [policies.%s]%s", ErrNoPolicy, f.path, name, hint)
	}
	if from["passthrough"].policy == "" && p.Passthrough {
		problems = append(problems, from["passthrough"].problem(errors.New(
			"passthrough = true: only in a [policies.NAME], so that agentjail by its own name always makes jails")))
	}
	if name == netPolicy && from["network.mode"].policy != netPolicy {
		p.Network.listed()
	}
	p.matchAppArmor()
	for _, fault := range p.faults() {
		problems = append(problems, f.locate(fault, from))
	}
	if problems == nil {
		if err := p.Network.expand(); err != nil {
			problems = append(problems, Problem{File: f.path, Text: err.Error()})
		}
	}
	if problems != nil {
		return p, from, problems
	}
	return p, from, nil
}

// of returns the mistakes in the file's form that concern a named policy.
func (f *file) of(name string) (out Problems) {
	for _, p := range f.problems {
		if p.Policy == "" || p.Policy == name {
			out = append(out, p)
		}
	}
	return out
}

func (s setting) problem(err error) Problem {
	return Problem{File: s.file, Line: s.line, Policy: s.policy, Key: s.key, Text: err.Error()}
}

// locate finds the line of a fault: the key's own, or that of the credential.
func (f *file) locate(fault fault, from map[string]setting) Problem {
	for key := fault.key; key != ""; {
		if s, ok := from[key]; ok {
			s.key = fault.key
			return s.problem(fault.err)
		}
		for _, s := range f.settings {
			if strings.HasPrefix(s.key, key+".") && from[s.key].line == s.line {
				s.key = fault.key
				return s.problem(fault.err)
			}
		}
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
	}
	return Problem{File: f.path, Key: fault.key, Text: fault.err.Error()}
}

// namedDir is the directory of named policies beside a policy file: NAME.toml has the keys of
// [policies.NAME].
const namedDir = "policies.d"

// join adds a named policy of another file; nil is none.
func (f *file) join(other *file) {
	if other == nil {
		return
	}
	name := other.policies[0]
	if slices.Contains(f.policies, name) {
		f.problem(name, "", 0, fmt.Sprintf("it is also in %s (remedy: remove one)", other.path))
	}
	f.settings = append(f.settings, other.settings...)
	f.policies = append(f.policies, name)
	f.problems = append(f.problems, other.problems...)
}

// namedFile reads the file of a named policy; nil if there is none.
func namedFile(path, name string) *file {
	if name == "" || path == os.DevNull || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return nil
	}
	place := filepath.Join(filepath.Dir(path), namedDir, name+".toml")
	data, err := readTrusted(place)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out := &file{path: place, policies: []string{name}}
	if err != nil {
		out.problem(name, "", 0, err.Error())
		return out
	}
	read := readFile(data, place)
	for _, s := range read.settings {
		if s.policy == "" {
			s.policy = name
			out.settings = append(out.settings, s)
		}
	}
	for _, p := range read.problems {
		if p.Policy == "" {
			p.Policy = name
			out.problems = append(out.problems, p)
		}
	}
	if len(read.policies) > 0 {
		out.problem(name, "policies", 0, fmt.Sprintf("[policies.%s] in a file of policies.d, which is itself one policy", read.policies[0]))
	}
	return out
}

// whole reads the file at path with all its named policies.
func whole(path string) (*file, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	if path == os.DevNull {
		return f, nil
	}
	dir := filepath.Join(filepath.Dir(path), namedDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.problem("", "", 0, err.Error())
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".toml")
		if !ok || name == "" || strings.HasPrefix(name, ".") {
			f.problems = append(f.problems, Problem{File: filepath.Join(dir, e.Name()), Text: "not the file of a policy, NAME.toml: it is not read (remedy: rename or remove it)"})
			continue
		}
		f.join(namedFile(path, name))
	}
	slices.Sort(f.policies)
	f.policies = slices.Compact(f.policies)
	return f, nil
}

// PassingThrough lists the named policies of the file at path that harden nothing. A
// file that cannot be read has none.
func PassingThrough(path string) (out []string) {
	for _, s := range settingsOf(path, "passthrough") {
		if s.value == true && s.policy != "" {
			out = append(out, s.policy)
		}
	}
	slices.Sort(out)
	return out
}

// settingsOf returns the values of a key in the file at path and in its named policies; none where
// it cannot be read.
func settingsOf(path, key string) []setting {
	f, err := whole(path)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(f.settings, func(s setting) bool { return s.key != key })
}

// Pools lists the pools of host ids of the file at path: its own and those of its named policies.
// An unreadable file counts as having the built-in pool.
func Pools(path string) []idmap.Pool {
	own, err := Load(path, "")
	if err != nil {
		own = Default()
	}
	out := []idmap.Pool{own.Userns.Pool}
	for _, s := range settingsOf(path, "userns.pool") {
		var p Policy
		if s.apply(&p) == nil && !slices.Contains(out, p.Userns.Pool) {
			out = append(out, p.Userns.Pool)
		}
	}
	return out
}

// Blocked lists the actions that the file at path has eBPF programs refuse (EBPF.Block), with its
// named policies. An unreadable file counts as having none.
func Blocked(path string) (out []string) {
	for _, s := range settingsOf(path, "ebpf.block") {
		var p Policy
		if s.apply(&p) == nil {
			out = append(out, p.EBPF.Block...)
		}
	}
	return out
}
