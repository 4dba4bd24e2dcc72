package credential

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // known_hosts(5) hashes names by it
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/netrules"
)

// sshPort is the default port of an ssh host.
const sshPort = 22

// HostKeyFile is the file of the key by which a jail recognises its helper as the ssh server, in
// the jail's directory of state. Only root can read it.
const HostKeyFile = "ssh_host_key.pem"

// Bounds of a key's entry in policy.
const (
	maxRepositories = 64
	maxPath         = 512
	maxKnownHosts   = 1 << 20 // bytes
)

// ForSSH reports whether the credential is a key for git over ssh.
func (c Spec) ForSSH() bool { return c.SSH != "" }

// Endpoint splits a host of the credential into its name and the port that the helper connects to.
func (c Spec) Endpoint(host string) (name string, port uint16) {
	if !c.ForSSH() {
		return host, Port
	}
	name, text, ok := strings.Cut(host, ":")
	if ok {
		if n, err := netrules.ParsePort(text); err == nil {
			return name, n
		}
	}
	return name, sshPort
}

// serverName returns an endpoint in the form of known_hosts(5).
func serverName(name string, port uint16) string {
	if port == sshPort {
		return name
	}
	return "[" + name + "]:" + strconv.Itoa(int(port))
}

// checkSSH returns an error if the fields for ssh are not well formed, or if they are set without a
// key.
func (c Spec) checkSSH() error {
	switch {
	case !c.ForSSH() && (c.KnownHosts != "" || len(c.Repositories) > 0):
		return errors.New("known_hosts and repositories are of a key: ssh is missing (remedy: ssh = \"git\", the user at the server)")
	case !c.ForSSH():
		return nil
	case c.Header != "" || c.Env != "" || c.Placeholder != "" || c.TLS != "":
		return errors.New("header, env, placeholder and tls are not of a key for ssh: programs need nothing to use it")
	case len(c.SSH) > 64 || c.SSH[0] == '-' || strings.Trim(c.SSH, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "":
		return fmt.Errorf("ssh = %q: must be the user at the server, as git", c.SSH)
	case !filepath.IsAbs(c.KnownHosts) || filepath.Clean(c.KnownHosts) != c.KnownHosts:
		return fmt.Errorf("known_hosts = %q: must be the clean absolute path of a file with the servers' keys (known_hosts(5))", c.KnownHosts)
	case len(c.Repositories) > maxRepositories:
		return fmt.Errorf("repositories: %d of them, at most %d", len(c.Repositories), maxRepositories)
	}
	for _, r := range c.Repositories {
		if err := Repository(strings.TrimSuffix(r, "/*")); err != nil || strings.Contains(strings.TrimSuffix(r, "/*"), "*") {
			return fmt.Errorf("repositories: %q must be a path as programs write it, or one with /* at its end", r)
		}
	}
	return nil
}

// Repository returns an error for a path that a server may interpret in another way than policy
// does.
func Repository(path string) error {
	switch {
	case path == "" || len(path) > maxPath || !printable.IsASCII(path) || strings.ContainsAny(path, "'\\!\"`$"):
		return errors.New("not a path of printable ASCII without quotes")
	case path[0] == '-':
		return errors.New("a path that begins with -")
	case slices.ContainsFunc(strings.Split(strings.Trim(path, "/"), "/"), func(s string) bool {
		return s == "" || s == "." || s == ".."
	}):
		return errors.New("a path with an empty element, or with .. or . as one")
	}
	return nil
}

// key returns a private key's text, or an error if the text is not one.
func key(text []byte) ([]byte, error) {
	if len(text) > maxValue || !bytes.HasPrefix(text, []byte("-----BEGIN ")) {
		return nil, fmt.Errorf("not a private key of at most %d bytes, as ssh-keygen makes them", maxValue)
	}
	return text, nil
}

// HostKeys returns the keys of one of the credential's hosts from policy's known_hosts.
func (c Spec) HostKeys(host string) ([][]byte, error) {
	text, err := trusted.Read(c.KnownHosts, maxKnownHosts)
	if err != nil {
		return nil, err
	}
	server := serverName(c.Endpoint(host))
	keys := hostKeys(string(text), server)
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key of %s (remedy: add the one that the server's owner publishes; patterns and certificate authorities are not read)", c.KnownHosts, server)
	}
	return keys, nil
}

// hostKeys returns the keys of a server from the text of known_hosts(5). The server's name may be
// plain or hashed there. Revoked keys are left out.
func hostKeys(text, server string) [][]byte {
	var keys, revoked [][]byte
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		mark := ""
		if len(f) > 0 && strings.HasPrefix(f[0], "@") {
			mark, f = f[0], f[1:]
		}
		if len(f) < 3 || strings.HasPrefix(f[0], "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(f[2])
		if err != nil || len(key) > 4096 {
			continue
		}
		switch {
		case mark == "@revoked":
			revoked = append(revoked, key)
		case mark == "" && slices.ContainsFunc(strings.Split(f[0], ","), func(name string) bool { return names(name, server) }):
			keys = append(keys, key)
		}
	}
	return slices.DeleteFunc(keys, func(k []byte) bool {
		return slices.ContainsFunc(revoked, func(r []byte) bool { return bytes.Equal(r, k) })
	})
}

// names reports whether an entry of known_hosts(5) names the server.
func names(entry, server string) bool {
	hashed, ok := strings.CutPrefix(entry, "|1|")
	if !ok {
		return strings.EqualFold(entry, server)
	}
	salt, sum, _ := strings.Cut(hashed, "|")
	by, err := base64.StdEncoding.DecodeString(salt)
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(sum)
	m := hmac.New(sha1.New, by)
	m.Write([]byte(server))
	return err == nil && hmac.Equal(want, m.Sum(nil))
}

// Servers returns the servers of the ssh keys, in the form of known_hosts(5).
func (s Set) Servers() []string {
	var out []string
	for _, name := range s.Names() {
		if c := s[name]; c.ForSSH() {
			for _, h := range c.Hosts {
				out = append(out, serverName(c.Endpoint(h)))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
