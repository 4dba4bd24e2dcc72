package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/netrules"
)

// Examine lists the mistakes of the policy file at path with all its named policies, and of the
// files that they name. The error is that of a file that cannot be read at all.
func Examine(path string) (Problems, error) {
	f, err := whole(path)
	if err != nil {
		return nil, err
	}
	var out Problems
	known := map[Problem]bool{}
	add := func(all ...Problem) {
		for _, p := range all {
			if !known[p] {
				known[p], out = true, append(out, p)
			}
		}
	}
	add(f.problems...)
	unused := map[string]Problem{}
	for _, name := range append([]string{"", netPolicy}, f.policies...) {
		p, from, err := f.policy(name)
		if mistakes, ok := errors.AsType[Problems](err); ok {
			add(mistakes...)
		}
		if err := p.Seccomp.load(); err != nil {
			add(f.locate(fault{"seccomp.only", err}, from))
		}
		for _, c := range p.Credentials.Names() {
			if err := available(p.Credentials[c]); err != nil {
				add(f.locate(fault{"credentials." + c + ".from", fmt.Errorf("credentials.%s: %w", c, err)}, from))
			}
		}
		if err == nil {
			f.unused(p, from, unused)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(unused)) {
		if unused[p].Text != "" {
			add(unused[p])
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return out, nil
}

// unused notes the credentials of a policy of which no host is allowed. One that another policy
// can use has an empty problem.
func (f *file) unused(p Policy, from map[string]setting, out map[string]Problem) {
	rules, err := p.Network.Rules()
	if err != nil {
		return
	}
	if p.Network.Mode != NetworkNames {
		rules = nil
	}
	for name, c := range p.Credentials {
		at := f.locate(fault{"credentials." + name + ".hosts", unallowed(name, c)}, from)
		key := fmt.Sprint(at.File, at.Line, name)
		if _, noted := out[key]; noted && !usable(name, c, rules) {
			continue
		}
		if usable(name, c, rules) {
			at.Text = ""
		}
		at.Warning = true
		out[key] = at
	}
}

func usable(name string, c credential.Spec, rules *netrules.Set) bool {
	return rules != nil && len(credential.Set{name: c}.Usable(rules)) > 0
}

func unallowed(name string, c credential.Spec) error {
	return fmt.Errorf("credentials.%s: no policy of the file allows its hosts, so that no jail uses it "+
		"(remedy: network.mode = \"names\" and network.allow with %q, or agentjail sandbox --allow)", name, c.Hosts)
}

// Unavailable returns an error for a credential that a policy's jails would use, and whose value a
// start could not read, with its line in the policy file.
func Unavailable(path string, p *Policy) error {
	rules, err := p.Network.Rules()
	if err != nil || p.Network.Mode != NetworkNames {
		return err
	}
	for _, name := range p.Credentials.Names() {
		if !usable(name, p.Credentials[name], rules) {
			continue
		}
		err := available(p.Credentials[name])
		if err == nil {
			continue
		}
		problems, xerr := Examine(path)
		key := "credentials." + name + ".from"
		if i := slices.IndexFunc(problems, func(p Problem) bool { return p.Key == key }); i >= 0 && xerr == nil {
			return problems[i:][:1]
		}
		return fmt.Errorf("credentials.%s: %w", name, err)
	}
	return nil
}

// available returns why a start could not read a credential. It runs no command. A user other than
// root cannot look.
func available(c credential.Spec) error {
	err := c.Available()
	if os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
