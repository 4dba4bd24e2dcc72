package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Project is the text of a project's own policy file, read: ProjectFile of the directory that is
// worked in. It can only narrow.
type Project struct {
	Path     string           `json:"path"`
	Settings []ProjectSetting `json:"settings"`
	Problems Problems         `json:"problems,omitempty"`
}

// ProjectSetting is one KEY = VALUE of a project's file.
type ProjectSetting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	Line  int    `json:"line"`
}

// ProjectFile is the name of a project's own policy file.
const ProjectFile = ".agentjail.toml"

// MaxProject bounds it, in bytes.
const MaxProject = 64 << 10

// ProjectAnnotation is the annotation that names the mount whose directory has the file, without
// AnnotationPrefix.
const ProjectAnnotation = "project"

// ReadProject reads the text of a project's file.
func ReadProject(data []byte, path string) Project {
	f := readFile(data, path)
	p := Project{Path: path, Problems: f.problems}
	for _, s := range f.settings {
		if s.policy != "" {
			p.Problems = append(p.Problems, s.problem(fmt.Errorf("a project's own file has no named policies (remedy: %s at the top)", s.key)))
			continue
		}
		p.Settings = append(p.Settings, ProjectSetting{s.key, s.value, s.line})
	}
	return p
}

// UnmarshalJSON implements json.Unmarshaler. Whole numbers stay whole.
func (s *ProjectSetting) UnmarshalJSON(data []byte) error {
	type plain ProjectSetting
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode((*plain)(s)); err != nil {
		return err
	}
	if n, ok := s.Value.(json.Number); ok {
		if whole, err := n.Int64(); err == nil {
			s.Value = whole
		} else if s.Value, err = n.Float64(); err != nil {
			return err
		}
	}
	return nil
}

// Narrow applies a project's own file. The error lists each value that is wrong, or wider than
// the policy does; nothing is left out.
func (p Policy) Narrow(project Project) (Policy, error) {
	problems := slices.Clone(project.Problems)
	for _, s := range project.Settings {
		next, err := p.narrowed(s)
		if err != nil {
			problems = append(problems, Problem{File: project.Path, Line: s.Line, Key: s.Key, Text: err.Error()})
			continue
		}
		p = next
	}
	if problems != nil {
		return p, problems
	}
	p.noteOrigin(func(o *Origin) {
		if o.Project != nil { // of another directory
			project.Settings = slices.Concat(o.Project.Settings, project.Settings)
		}
		o.Project = &project
	})
	return p, nil
}

// narrowed applies one setting. The policy stays as it is where it is an error.
func (p Policy) narrowed(s ProjectSetting) (Policy, error) {
	k, known := keyOf(s.Key)
	if !known || k.narrow == never {
		return p, fmt.Errorf("%s: a project's own file cannot set it (remedy: set it in the policy of the host, or remove it)", s.Key)
	}
	next := p
	if err := (setting{key: s.Key, value: s.Value}).apply(&next); err != nil {
		return p, err
	}
	if err := next.check(k); err != nil {
		return p, err
	}
	old, now := valueAt(reflect.ValueOf(p), k.Name), valueAt(reflect.ValueOf(next), k.Name)
	if k.narrow == narrowerRules {
		return next, next.narrowRules(p.Network)
	}
	if !narrower(k, old, now) {
		return p, fmt.Errorf("%s = %s: wider than the policy's %s; a project's own file can only narrow", k.Name, clipped(literal(now)), clipped(literal(old)))
	}
	return next, nil
}

// narrower reports whether now permits no more than old.
func narrower(k Key, old, now reflect.Value) bool {
	switch k.narrow {
	case always:
		return true
	case lowerBound:
		return old.IsZero() || !now.IsZero() && compare(now, old) <= 0
	case lowerValue:
		return compare(now, old) <= 0
	case onlyTrue:
		return now.Bool() || !old.Bool()
	case onlyFalse:
		return !now.Bool() || old.Bool()
	case later:
		return slices.Index(k.OneOf, now.String()) >= slices.Index(k.OneOf, old.String())
	case onlyNone:
		return now.String() == old.String() || now.String() == NetworkNone
	case onlyStrict:
		return now.String() == old.String() || now.String() == "strict" && old.String() == "default"
	case fewerEntries:
		return subset(now.Interface().([]string), old.Interface().([]string))
	case moreEntries:
		return subset(old.Interface().([]string), now.Interface().([]string))
	}
	return false
}

// subset reports whether all has each of some.
func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func compare(a, b reflect.Value) int {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.Float(), b.Float())
}

// narrowRules replaces the project's list of names by the rules for them, which the policy's must
// cover. Where nothing can be connected to, the list has no effect.
func (p *Policy) narrowRules(of Network) error {
	list := p.Network.Allow
	p.Network = of
	switch of.Mode {
	case NetworkNone:
		return nil
	case NetworkNames:
		took, err := p.Network.narrow(strings.Join(list, "\n"))
		if err == nil && !took {
			err = fmt.Errorf("network.mode is %q", of.Mode)
		}
		return prefixed("network.allow", err)
	}
	return fmt.Errorf("network.allow: in network.mode = %q no names are held back (remedy: network.mode = \"names\" in the policy of the host)", of.Mode)
}

// again applies a project's settings to a policy that was read again. A setting that the policy no
// longer covers is left out: less is allowed than by both.
func (p Policy) again(project Project) (Policy, error) {
	for _, s := range project.Settings {
		next, err := p.narrowed(s)
		if err == nil {
			p = next
			continue
		}
		var own Policy
		if s.Key != "network.allow" && s.Key != "network.deny" || (setting{key: s.Key, value: s.Value}).apply(&own) != nil {
			continue
		}
		if s.Key == "network.deny" {
			p.Network.Deny = append(slices.Clone(p.Network.Deny), own.Network.Deny...)
		} else if p.Network, err = p.Network.Common(own.Network); err != nil {
			return p, err
		}
	}
	return p, nil
}
