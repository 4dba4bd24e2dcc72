package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/traits"
)

// Origin is where a policy came from, so that its rules can be read again for a jail that runs.
type Origin struct {
	// Path and Name are the arguments of Load.
	Path string `json:"path"`
	Name string `json:"name,omitempty"`
	// Mistakes are those of the file as it is now, where the policy is of an earlier reading.
	Mistakes string `json:"mistakes,omitempty"`
	// Allow is the owner's own list in place of the file's (allowNames).
	Allow []string `json:"allow,omitempty"`
	// Credentials are the owner's own besides the file's.
	Credentials credential.Set `json:"credentials,omitempty"`
	// Boundary is the owner's own choice in place of the file's (OwnersBoundary).
	Boundary string `json:"boundary,omitempty"`
	// Project is the project's own file that was followed.
	Project *Project `json:"project,omitempty"`
	// Annotations are the container's that were followed.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// networkAllow is the annotation that narrows the rules.
const networkAllow = AnnotationPrefix + "network.allow"

// Again reads a policy again as it was read for a jail. Rules of the container's own list that
// the file no longer covers are left out. The list only ever narrows, so that it cannot be
// ignored as at create: the jail would then get all of the file's rules.
func (o Origin) Again() (Policy, error) {
	p, err := Load(o.Path, o.Name)
	if err != nil {
		return p, err
	}
	if o.Allow != nil {
		if err := p.OwnersNames(o.Allow); err != nil {
			return p, err
		}
	}
	if o.Credentials != nil {
		if err := p.OwnersCredentials(o.Credentials); err != nil {
			return p, err
		}
	}
	if o.Boundary != "" {
		if err := p.OwnersBoundary(o.Boundary); err != nil {
			return p, err
		}
	}
	own, listed := o.Annotations[networkAllow]
	others := maps.Clone(o.Annotations)
	delete(others, networkAllow)
	if o.Project != nil {
		if p, err = p.again(*o.Project); err != nil {
			return p, err
		}
	}
	p, _ = p.Tighten(others)
	p.Origin = &o
	if p.Network.Mode != NetworkNames {
		// No list of names is in use: nothing is allowed by one.
		p.Network.Allow, listed = nil, false
	}
	if listed {
		p.Network, err = p.Network.Common(Network{Allow: entries(own)})
	}
	return p, err
}

// Common returns n with only the rules that both have; a name that one of them denies is denied.
func (n Network) Common(o Network) (Network, error) {
	a, err := n.Rules()
	if err != nil {
		return n, err
	}
	b, err := o.Rules()
	if err != nil {
		return n, err
	}
	both, err := a.With(b)
	if err == nil {
		n.Allow, n.Deny = both.Entries(), both.Denied()
	}
	return n, err
}

// OwnersNames is Network.allowNames for a list that holds when the policy is read again, too.
func (p *Policy) OwnersNames(list []string) error {
	p.noteOrigin(func(o *Origin) { o.Allow = list })
	return p.Network.allowNames(list)
}

// noteOrigin changes where the policy came from, if it has an origin. Copies of the policy keep
// theirs.
func (p *Policy) noteOrigin(change func(*Origin)) {
	if p.Origin != nil {
		o := *p.Origin
		change(&o)
		p.Origin = &o
	}
}

// OwnersCredentials adds credentials, also to the policy that is read again. Those of a name that
// the policy has replace the policy's.
func (p *Policy) OwnersCredentials(more credential.Set) error {
	all := credential.Set{}
	maps.Copy(all, p.Credentials)
	maps.Copy(all, more)
	if err := all.Check(); err != nil {
		return err
	}
	p.Credentials = all
	p.noteOrigin(func(o *Origin) { o.Credentials = more })
	return nil
}

// OwnersBoundary chooses a sandbox by its boundary's name, also when the policy is read again. A
// delegate of policy's with this boundary stays; else it is that of the policy with this name.
func (p *Policy) OwnersBoundary(name string) error {
	delegate := traits.Bounded(name)
	if delegate == "" {
		return fmt.Errorf("no delegate has the boundary %q (remedy: one of %s)", name, strings.Join(traits.BoundaryNames(), ", "))
	}
	if traits.Of(p.Delegate).Sandbox != name {
		p.Delegate = delegate
		if p.Origin != nil {
			named, err := Load(p.Origin.Path, name)
			if err != nil {
				return err
			}
			if traits.Of(named.Delegate).Sandbox == name {
				p.Delegate = named.Delegate
			}
		}
	}
	p.noteOrigin(func(o *Origin) { o.Boundary = name })
	return nil
}

// followed records an annotation that was followed.
func (p *Policy) followed(name, value string) {
	p.noteOrigin(func(o *Origin) {
		all := map[string]string{}
		maps.Copy(all, o.Annotations)
		all[name] = value
		o.Annotations = all
	})
}

// Differs names the settings in which two policies differ, other than the rules of the network.
func Differs(a, b Policy) []string {
	var out []string
	differs("", reflect.ValueOf(a), reflect.ValueOf(b), &out)
	return slices.DeleteFunc(out, func(key string) bool { return key == "network.allow" || key == "network.deny" })
}

func differs(prefix string, a, b reflect.Value, out *[]string) {
	for i := range a.NumField() {
		tag, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("toml"), ",")
		x, y := a.Field(i), b.Field(i)
		switch {
		case tag == "-":
		case x.Type() == reflect.TypeFor[credential.Set]() && x.Interface().(credential.Set).Same(y.Interface().(credential.Set)):
		case x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0: // absent or empty
		case x.Kind() == reflect.Struct && tag != "" && x.Type().Field(0).Tag.Get("toml") != "":
			differs(prefix+tag+".", x, y, out)
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			*out = append(*out, prefix+tag)
		}
	}
}
