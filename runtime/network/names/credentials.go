package names

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/credential/secret"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/network"
)

// fetchCredentials reads the values of the credentials that rules let a jail use. Only the helper's
// work contains the values.
func fetchCredentials(r network.Rules) ([]helperproto.Credential, error) {
	if len(r.Credentials) == 0 {
		return nil, nil
	}
	allow, err := netrules.Parse(r.Allow, r.Deny, nil)
	if err != nil {
		return nil, err
	}
	set := r.Credentials.Usable(allow)
	// The values are in no core dump of this process, and no process without root's rights can read
	// its memory. It stays dumpable in a user's own engine, which could not read its /proc
	// otherwise.
	if os.Geteuid() == 0 && !rootless.Inside() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("not being dumpable: %w", err)
		}
	}
	var out []helperproto.Credential
	for _, name := range set.Names() {
		c := set[name]
		if !c.Own() {
			continue // none of its hosts was allowed when the jail was made, whose processes have no placeholder of it
		}
		var value secret.Value
		// On a thread in the process's own namespaces: the caller's may be in a jail's.
		if err := thread.Own(func() (err error) {
			value, err = c.Fetch()
			return err
		}); err != nil {
			return nil, fmt.Errorf("credentials.%s: %w", name, err)
		}
		if c.ForSSH() {
			k := helperproto.Credential{Name: name, Hosts: c.Hosts, Value: value, SSH: &helperproto.SSH{
				User: c.SSH, Repositories: c.Repositories,
				HostKeys: map[string][][]byte{},
			}}
			for _, h := range c.Hosts {
				keys, err := c.HostKeys(h)
				if err != nil {
					return nil, fmt.Errorf("credentials.%s: known_hosts: %w", name, err)
				}
				k.SSH.HostKeys[endpoint(c.Endpoint(h))] = keys
			}
			out = append(out, k)
			continue
		}
		header, scheme := c.Field()
		out = append(out, helperproto.Credential{
			Name: name, Hosts: c.Hosts, Header: strings.ToLower(header), Scheme: scheme, Placeholder: c.Placeholder, End: c.Ends(),
			Value: value,
		})
	}
	return out, nil
}

// endpoint returns a name with its port.
func endpoint(name string, port uint16) string {
	return net.JoinHostPort(name, strconv.Itoa(int(port)))
}

// readOwnKeys reads the jail's own keys: that of its certificate authority, if TLS is to be
// terminated, and that of its ssh server.
func readOwnKeys(dir string, w *helperproto.Work) (err error) {
	if slices.ContainsFunc(w.Credentials, func(c helperproto.Credential) bool { return c.End }) {
		if w.Authority, err = ownKey(dir, credential.AuthorityFile); err != nil {
			return fmt.Errorf("the jail's certificate authority: %w", err)
		}
	}
	if slices.ContainsFunc(w.Credentials, func(c helperproto.Credential) bool { return c.SSH != nil }) {
		if w.HostKey, err = ownKey(dir, credential.HostKeyFile); err != nil {
			return fmt.Errorf("the jail's key for ssh: %w", err)
		}
	}
	return nil
}

func ownKey(dir, name string) (secret.Value, error) {
	text, err := atomicfile.Read(filepath.Join(dir, name), credential.MaxAuthority)
	return secret.New(text), err
}

// usableCredentials returns the names of the credentials that a jail can use, as the end of a
// sentence.
func usableCredentials(j network.Jail) string {
	if j.Rules == nil {
		return ""
	}
	r, err := j.Rules()
	if err != nil {
		return ""
	}
	names := slices.DeleteFunc(r.Credentials.Names(), func(name string) bool { return !r.Credentials[name].Own() })
	if len(names) == 0 {
		return ""
	}
	return "; credentials " + strings.Join(names, ", ")
}
