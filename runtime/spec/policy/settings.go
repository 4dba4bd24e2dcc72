package policy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/xrash/smetrics"

	"agentjail.dev/runtime/spec/credential"
)

// A setting is one KEY = VALUE of a file.
type setting struct {
	policy string // of [policies.NAME]; "" at the top
	key    string // with dots
	value  any
	file   string
	line   int
}

// file is a policy file's text, read.
type file struct {
	path     string
	settings []setting
	policies []string // names, sorted
	problems []Problem
}

// readFile reads the text of a policy file: its syntax, and the names of its keys.
func readFile(data []byte, path string) *file {
	f := &file{path: path}
	var tree map[string]any
	rest := bytes.ToValidUTF8(data, nil)
	if marked := bytes.HasPrefix(data, []byte("\xef\xbb\xbf")); marked || len(rest) < len(data) {
		at := 0
		for !marked && at < len(rest) && rest[at] == data[at] {
			at++
		}
		f.problems = append(f.problems, Problem{
			File: path, Line: 1 + bytes.Count(data[:at], []byte("\n")),
			Text: "the text is not UTF-8, or begins with a byte order mark (remedy: save it as UTF-8 without one)",
		})
		return f
	}
	if err := toml.Unmarshal(data, &tree); err != nil {
		f.problems = append(f.problems, syntax(err, path))
		return f
	}
	lines := linesOf(data)
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		switch name {
		case "policies":
			f.named(tree[name], lines.of(name))
		case "profiles":
			f.problem("", name, lines.of(name).number(), "[profiles.NAME] is [policies.NAME]: a profile is one of system calls, or AppArmor's "+
				"(remedy: rename the table)")
		default:
			f.walk("", name, tree[name], lines.of(name))
		}
	}
	slices.SortStableFunc(f.settings, func(a, b setting) int { return a.line - b.line })
	return f
}

// named reads [policies].
func (f *file) named(v any, at *lines) {
	tables, ok := v.(map[string]any)
	if !ok {
		f.problem("", "policies", at.number(), given(v)+", but it must be tables, as [policies.NAME]")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		table, ok := tables[name].(map[string]any)
		if !ok {
			f.problem(name, "", at.of(name).number(), given(tables[name])+", but it must be a table (remedy: [policies."+name+"])")
			continue
		}
		if len(f.policies) == maxPolicies {
			f.problem("", "policies", 0, fmt.Sprintf("it has more than %d named policies (remedy: leave out those without use)", maxPolicies))
			return
		}
		f.policies = append(f.policies, name)
		for _, key := range slices.Sorted(maps.Keys(table)) {
			f.walk(name, key, table[key], at.of(name, key))
		}
	}
}

// maxParts bounds the parts of an unknown key that is named.
const maxParts = 8

// walk reads the value of a key, or of a table of keys.
func (f *file) walk(policy, key string, v any, at *lines) {
	if len(f.problems) > maxProblems {
		return
	}
	table, is := v.(map[string]any)
	_, known := keyOf(key)
	switch {
	case key == "credentials" && is:
		f.credentials(policy, table, at)
	case isTable(key) && !is:
		f.problem(policy, key, at.number(), key+" is "+given(v)+", but it must be a table of keys")
	case known:
		f.settings = append(f.settings, setting{policy, key, v, f.path, at.number()})
	case len(table) > 0 && strings.Count(key, ".") < maxParts || isTable(key):
		for _, name := range slices.Sorted(maps.Keys(table)) {
			f.walk(policy, key+"."+name, table[name], at.of(name))
		}
	default:
		f.problem(policy, key, at.number(), unknownKey(key, key, keyNames()))
	}
}

// credentials reads the fields of each credential.
func (f *file) credentials(policy string, all map[string]any, at *lines) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		key, at := "credentials."+name, at.of(name)
		fields, ok := all[name].(map[string]any)
		if !ok {
			f.problem(policy, key, at.number(), key+" is "+given(all[name])+", but it must be a table")
			continue
		}
		for _, part := range slices.Sorted(maps.Keys(fields)) {
			if len(f.problems) > maxProblems {
				return
			}
			key, line := key+"."+part, at.of(part).number()
			if fieldOf(reflect.TypeFor[credential.Spec](), part) < 0 {
				f.problem(policy, key, line, unknownKey(key, part, credentialKeys()))
				continue
			}
			f.settings = append(f.settings, setting{policy, key, fields[part], f.path, line})
		}
	}
}

// unknownKey is the text about a key that does not exist.
func unknownKey(key, name string, known []string) string {
	near := Suggestion(name, known)
	if near == "" {
		near = " (remedy: `agentjail policy schema` has all keys)"
	}
	return fmt.Sprintf("unknown key %q%s", clipped(key), near)
}

// credentialKeys are the fields of a credential.
func credentialKeys() (out []string) {
	for f := range reflect.TypeFor[credential.Spec]().Fields() {
		out = append(out, f.Tag.Get("toml"))
	}
	return out
}

// maxProblems and maxPolicies bound the mistakes and the named policies of one file that are read:
// each mistake is compared with all keys, and each policy with all settings.
const maxProblems, maxPolicies = 200, 1000

// problem records a problem of the file. Those beyond maxProblems are left out, and then no policy
// of the file is in force.
func (f *file) problem(policy, key string, line int, text string) {
	if len(f.problems) >= maxProblems {
		more := Problem{File: f.path, Text: "it has more mistakes, which are not listed"}
		f.problems = append(f.problems[:maxProblems:maxProblems], more)
		return
	}
	f.problems = append(f.problems, Problem{File: f.path, Line: line, Policy: policy, Key: key, Text: text})
}

// apply sets a setting. It returns an error without the place.
func (s setting) apply(p *Policy) error {
	rest, isCredential := strings.CutPrefix(s.key, "credentials.")
	if !isCredential {
		if err := set(valueAt(reflect.ValueOf(p).Elem(), s.key), s.value); err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
		return nil
	}
	at := strings.LastIndexByte(rest, '.')
	name, part := rest[:at], rest[at+1:]
	spec := p.Credentials[name]
	v := reflect.ValueOf(&spec).Elem()
	if err := set(v.Field(fieldOf(v.Type(), part)), s.value); err != nil {
		return fmt.Errorf("%s: %w", s.key, err)
	}
	if p.Credentials == nil {
		p.Credentials = credential.Set{}
	}
	p.Credentials[name] = spec
	return nil
}

// syntax is the problem of a text that is no TOML.
func syntax(err error, path string) Problem {
	out := Problem{File: path, Text: strings.TrimPrefix(err.Error(), "toml: ")}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		var column int
		out.Line, column = at.Position()
		out.Text = fmt.Sprintf("column %d: %s", column, out.Text)
	}
	return out
}

// lines has the line of each key of a text: that of a key, and the keys below it by their names.
// A key's depth costs no time, since no key has a copy of those above it.
type lines struct {
	line  int
	below map[string]*lines
}

// linesOf reads where keys are. The text is valid TOML.
func linesOf(data []byte) *lines {
	out := &lines{}
	var ends []int // of lines
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	var p unstable.Parser
	p.Reset(data)
	table := out
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = out.note(ends, e.Key())
		case unstable.KeyValue:
			table.value(ends, e)
		}
	}
	return out
}

func (l *lines) value(ends []int, e *unstable.Node) {
	l = l.note(ends, e.Key())
	if e.Value().Kind != unstable.InlineTable {
		return
	}
	for it := e.Value().Children(); it.Next(); {
		if it.Node().Kind == unstable.KeyValue {
			l.value(ends, it.Node())
		}
	}
}

// note records the line of a key, and of its first parts where they have none yet.
func (l *lines) note(ends []int, key unstable.Iterator) *lines {
	for key.Next() {
		n := key.Node()
		below := l.below[string(n.Data)]
		if below == nil {
			line, _ := slices.BinarySearch(ends, int(n.Raw.Offset))
			below = &lines{line: 1 + line}
			if l.below == nil {
				l.below = map[string]*lines{}
			}
			l.below[string(n.Data)] = below
		}
		l = below
	}
	return l
}

// of returns the lines of a key, or of one below it; nil if they are not known.
func (l *lines) of(parts ...string) *lines {
	for _, part := range parts {
		if l == nil {
			return nil
		}
		l = l.below[part]
	}
	return l
}

// number returns the key's own line; 0 if it is not known.
func (l *lines) number() int {
	if l == nil {
		return 0
	}
	return l.line
}

func abs(n int) int { return max(n, -n) }

// Suggestion returns the end of an error about an unknown name: the known one that is most like it,
// or nothing where none is near.
func Suggestion(name string, known []string) string {
	best, least := "", min(4, 1+len(name)/3)
	name = strings.ToLower(name)
	for _, k := range slices.Sorted(slices.Values(known)) {
		// The last part of a key may be all that was written.
		short := k[strings.LastIndexByte(k, '.')+1:]
		// No distance is less than that of the lengths.
		if min(abs(len(name)-len(k)), 1+abs(len(name)-len(short))) >= least {
			continue
		}
		d := min(smetrics.WagnerFischer(name, k, 1, 1, 1), 1+smetrics.WagnerFischer(name, short, 1, 1, 1))
		if d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}
