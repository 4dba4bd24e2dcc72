// Package credential describes the credentials that a jail can use but not read: for which hosts,
// in which header, and where the value is stored. Root reads the value when a jail is started
// (Fetch), and passes it to the jail's helper only.
package credential

import (
	"crypto/rand"
	"fmt"
	"maps"
	"math/big"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/netrules"
)

// How TLS to the credential's hosts is handled.
const (
	TLSRoute = "route" // it passes as it is: the credential is used by the plain route alone
	TLSEnd   = "end"   // the helper ends it, and sets the header in what is inside
)

// RouteSuffix is appended to a host's name to form the name of its plain route.
const RouteSuffix = ".jail"

// Port is the port of a host that the helper connects to, with TLS.
const Port = 443

// A Spec is one credential of policy, without its value.
type Spec struct {
	// Hosts are the exact names of the hosts that get the credential.
	Hosts []string `toml:"hosts" json:"hosts"`
	// Header is the header that is set in every request: NAME, or "NAME: SCHEME" with a scheme
	// before the value.
	Header string `toml:"header" json:"header,omitempty"`
	// From is the source of the value: "file:PATH" or "command:PATH ARGUMENT...".
	From string `toml:"from" json:"from"`
	// Env is the environment variable that holds the placeholder in the jail; "" sets none.
	Env string `toml:"env" json:"env,omitempty"`
	// Placeholder is the placeholder's shape: each "*" becomes a letter or a digit. In a jail's
	// record it is the jail's own placeholder.
	Placeholder string `toml:"placeholder" json:"placeholder,omitempty"`
	// TLS is TLSRoute or TLSEnd; "" means TLSRoute.
	TLS string `toml:"tls" json:"tls,omitempty"`
	// SSH, if set, makes the credential a key for git over ssh: it is the user at the hosts, and
	// Hosts are NAME[:PORT].
	SSH string `toml:"ssh" json:"ssh,omitempty"`
	// KnownHosts is the path of a file with the hosts' keys, for ssh.
	KnownHosts string `toml:"known_hosts" json:"knownHosts,omitempty"`
	// Repositories are the only repositories that a key is used for, as programs write them. An
	// entry that ends in "/*" matches all below. An empty list means every repository.
	Repositories []string `toml:"repositories" json:"repositories,omitempty"`
}

// Bounds of a policy's credentials.
const (
	max            = 64 // credentials
	maxHosts       = 32 // of each
	maxPlaceholder = 256
	// minStars makes placeholders long enough that two never coincide, and that no other text
	// equals one by chance.
	minStars = 16
	// shape is the default placeholder.
	shape = "agentjail-********************************"
)

// Set is policy's credentials by name.
type Set map[string]Spec

// Names returns the credentials' names, sorted.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Check returns an error if a credential is not well formed.
func (s Set) Check() error {
	if len(s) > max {
		return fmt.Errorf("%d credentials, at most %d", len(s), max)
	}
	envs, sets := map[string]string{}, map[string]string{}
	for _, name := range s.Names() {
		c := s[name]
		if err := c.check(name); err != nil {
			return fmt.Errorf("credentials.%s: %w", name, err)
		}
		if other, twice := envs[c.Env]; twice && c.Env != "" {
			return fmt.Errorf("credentials.%s: env: %s is that of credentials.%s", name, c.Env, other)
		}
		envs[c.Env] = name
		header, _ := c.Field()
		for _, h := range c.Hosts {
			key := h + " " + strings.ToLower(header)
			if c.ForSSH() {
				if key = serverName(c.Endpoint(h)); len(c.Repositories) > 0 {
					continue // there may be a key for each
				}
				header = "of ssh"
			}
			if other, twice := sets[key]; twice {
				return fmt.Errorf("credentials.%s: header %s at %s is set by credentials.%s", name, header, h, other)
			}
			sets[key] = name
		}
	}
	return nil
}

func (c Spec) check(name string) error {
	if !netrules.PresetName(name) { // the grammar is that of a preset's name
		return fmt.Errorf("a name is of at most 32 lower-case letters, digits and -")
	}
	if len(c.Hosts) == 0 || len(c.Hosts) > maxHosts {
		return fmt.Errorf("hosts: %d of them, must be 1 to %d", len(c.Hosts), maxHosts)
	}
	for _, h := range c.Hosts {
		own, port := h, ""
		if c.ForSSH() {
			own, port, _ = strings.Cut(h, ":")
		}
		if canonical, err := netrules.Canonical(own); err != nil || canonical != own {
			return fmt.Errorf("hosts: %q is not an exact name in lower case", h)
		}
		if _, err := netrules.ParsePort(port); own != h && err != nil {
			return fmt.Errorf("hosts: %q: %w", h, err)
		}
	}
	if err := c.checkSSH(); err != nil {
		return err
	}
	if err := checkHeader(c.Field()); err != nil && !c.ForSSH() {
		return fmt.Errorf("header = %q: %w", c.Header, err)
	}
	if _, _, err := c.source(); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	if c.Env != "" && (!variable(c.Env) || strings.HasPrefix(c.Env, "LD_")) {
		return fmt.Errorf("env = %q: not a variable for a credential", c.Env)
	}
	if p := c.Placeholder; p != "" && (len(p) > maxPlaceholder || !printable.IsASCII(p) || strings.ContainsAny(p, " ,;") ||
		strings.Count(p, "*") < minStars) {
		return fmt.Errorf("placeholder: must have %d or more stars, at most %d characters, and no spaces, commas or semicolons", minStars, maxPlaceholder)
	}
	if c.TLS != "" && c.TLS != TLSRoute && c.TLS != TLSEnd {
		return fmt.Errorf("tls = %q: must be one of %s, %s", c.TLS, TLSRoute, TLSEnd)
	}
	return nil
}

// Field returns the header's name and the scheme before the value.
func (c Spec) Field() (name, scheme string) {
	name, scheme, _ = strings.Cut(c.Header, ":")
	return name, strings.TrimSpace(scheme)
}

// framing are the headers that HTTP itself uses.
var framing = []string{
	"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer", "expect",
	"http2-settings",
	"proxy-connection", "proxy-authorization", "proxy-authenticate",
}

func checkHeader(name, scheme string) error {
	const token = "abcdefghijklmnopqrstuvwxyz0123456789-"
	lower := strings.ToLower(name)
	switch {
	case name == "" || len(name) > 64 || strings.Trim(lower, token) != "":
		return fmt.Errorf("must be NAME or \"NAME: SCHEME\", of letters, digits and -")
	case slices.Contains(framing, lower):
		return fmt.Errorf("HTTP itself works by it")
	case len(scheme) > 64 || strings.Trim(strings.ToLower(scheme), token) != "":
		return fmt.Errorf("%q cannot stand before a value", scheme)
	}
	return nil
}

// source parses From into the path and a command's arguments.
func (c Spec) source() (path string, args []string, err error) {
	kind, rest, _ := strings.Cut(c.From, ":")
	words := []string{rest}
	if kind == "command" {
		words = strings.Fields(rest)
	}
	if kind != "file" && kind != "command" || len(words) == 0 || !filepath.IsAbs(words[0]) || filepath.Clean(words[0]) != words[0] ||
		strings.ContainsRune(rest, 0) {
		return "", nil, fmt.Errorf("%q must be file:PATH or \"command:PATH ARGUMENT...\", the path a clean absolute one", c.From)
	}
	if kind == "file" {
		return words[0], nil, nil
	}
	return words[0], append([]string{}, words[1:]...), nil
}

// Ways reports how a jail uses the credential at a host.
func (c Spec) Ways(host string) string {
	if c.ForSSH() {
		if len(c.Repositories) > 0 {
			return "by git over ssh, for " + strings.Join(c.Repositories, ", ")
		}
		return "by git over ssh"
	}
	out := "by http://" + host + RouteSuffix + "/"
	if c.Ends() {
		out += ", and by TLS that the helper ends"
	}
	if c.Env != "" {
		out += "; " + c.Env + " has a placeholder"
	}
	return out
}

// Ends reports whether the helper terminates TLS to the hosts.
func (c Spec) Ends() bool { return c.TLS == TLSEnd }

// Same reports whether two credentials are the same but for their placeholders.
func (c Spec) Same(o Spec) bool {
	c.Placeholder, o.Placeholder = "", ""
	return reflect.DeepEqual(c, o)
}

// Same reports whether two sets are the same but for their placeholders.
func (s Set) Same(o Set) bool { return maps.EqualFunc(s, o, Spec.Same) }

// Placeholders returns new placeholders for a jail, by the credential's name.
func (s Set) Placeholders() map[string]string {
	out := map[string]string{}
	for name, c := range s {
		p := c.Placeholder
		if p == "" {
			p = shape
		}
		out[name] = fill(p)
	}
	return out
}

// With returns the set with a jail's own placeholders.
func (s Set) With(placeholders map[string]string) Set {
	out := maps.Clone(s)
	for name, p := range placeholders {
		if c, has := out[name]; has {
			c.Placeholder = p
			out[name] = c
		}
	}
	return out
}

// Usable returns the credentials with only the hosts that rules allow. A credential without such a
// host is left out.
func (s Set) Usable(r *netrules.Set) Set {
	out := Set{}
	for name, c := range s {
		c.Hosts = slices.DeleteFunc(slices.Clone(c.Hosts), func(h string) bool { return !r.Match(c.Endpoint(h)).OK })
		if len(c.Hosts) > 0 {
			out[name] = c
		}
	}
	return out
}

// Own reports whether the placeholder is a jail's own, and not a shape.
func (c Spec) Own() bool { return c.Placeholder != "" && !strings.Contains(c.Placeholder, "*") }

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// fill replaces each star by a random letter or digit.
func fill(shape string) string {
	b := []byte(shape)
	for i := range b {
		if b[i] == '*' {
			n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet)))) // never fails (crypto/rand)
			b[i] = alphabet[n.Int64()]
		}
	}
	return string(b)
}

func variable(name string) bool {
	return name != "" && len(name) <= 128 && (name[0] < '0' || name[0] > '9') &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
