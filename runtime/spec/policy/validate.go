package policy

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/traits"
)

// A fault is the reason why a key's value cannot be followed.
type fault struct {
	key string
	err error
}

// Validate refuses values with which no jail could start, or whose effect would differ from their
// wording.
func (p Policy) Validate() error {
	if all := p.faults(); len(all) > 0 {
		return all[0].err
	}
	return nil
}

// faults lists the values that Validate refuses, in the order of Keys.
func (p Policy) faults() (out []fault) {
	for _, k := range Keys {
		if err := p.check(k); err != nil {
			out = append(out, fault{k.Name, err})
		}
	}
	return append(out, p.credentialFaults()...)
}

func (p Policy) check(k Key) error {
	v := valueAt(reflect.ValueOf(p), k.Name)
	if k.OneOf != nil && !slices.Contains(k.OneOf, v.String()) {
		return fmt.Errorf("%s = %q: must be one of %s%s", k.Name, clipped(v.String()), strings.Join(k.OneOf, ", "),
			Suggestion(v.String(), k.OneOf))
	}
	if check := checks[k.Name]; check != nil {
		return check(p)
	}
	if v.CanInt() {
		return notNegative(k.Name, v.Int())
	}
	return nil
}

// checks are the checks of keys with rules of their own.
var checks = map[string]func(Policy) error{
	"delegate": func(p Policy) error {
		if p.Delegate == "auto" || slices.Contains(traits.Names(), p.Delegate) || filepath.IsAbs(p.Delegate) {
			return nil
		}
		return fmt.Errorf("delegate = %q: must be auto, %s or an absolute path%s", clipped(p.Delegate),
			strings.Join(traits.Names(), ", "),
			Suggestion(p.Delegate, append(traits.Names(), "auto")))
	},
	"userns.ids":    func(p Policy) error { return p.Userns.checkIDs() },
	"userns.pool":   func(p Policy) error { return prefixed("userns.pool", p.Userns.Pool.Check()) },
	"root.size":     func(p Policy) error { return positive("root.size", int64(p.Root.Size)) },
	"root.disk":     func(p Policy) error { return checkLayer("root.disk", p.Root.Disk) },
	"root.inodes":   func(p Policy) error { return positive("root.inodes", p.Root.Inodes) },
	"tmpfs.size":    func(p Policy) error { return positive("tmpfs.size", int64(p.Tmpfs.Size)) },
	"tmpfs.max":     func(p Policy) error { return p.Tmpfs.checkMax() },
	"tmpfs.inodes":  func(p Policy) error { return positive("tmpfs.inodes", p.Tmpfs.Inodes) },
	"limits.mounts": func(p Policy) error { return positive("limits.mounts", int64(p.Limits.Mounts)) },
	"limits.cpus": func(p Policy) error {
		if p.Limits.CPUs >= 0 && p.Limits.CPUs <= 1<<16 { // not so for NaN
			return nil
		}
		return fmt.Errorf("limits.cpus = %v: must be between 0 and 65536", p.Limits.CPUs)
	},
	"limits.nofile": func(p Policy) error {
		if p.Limits.NoFile > 1<<30 {
			return fmt.Errorf("limits.nofile = %d: must be at most %d", p.Limits.NoFile, 1<<30)
		}
		return nil
	},
	"binds.owner":     func(p Policy) error { return prefixed("binds.owner", CheckOwner(p.Binds.Owner)) },
	"binds.allow":     func(p Policy) error { return paths("binds.allow", "/", p.Binds.Allow) },
	"binds.unprotect": func(p Policy) error { return prefixed("binds.unprotect", protect.CheckUnprotect(p.Binds.Unprotect)) },
	"binds.sockets":   func(p Policy) error { return checkSockets(p.Binds.Sockets) },
	"binds.hide":      func(p Policy) error { return prefixed("binds.hide", protect.CheckHide(p.Binds.Hide)) },
	"devices.allow":   func(p Policy) error { return paths("devices.allow", "/dev/", p.Devices.Allow) },
	"apparmor.profile": func(p Policy) error {
		if strings.ContainsAny(p.AppArmor.Profile, " \t\n{}/\"") || p.AppArmor.Profile == "" || p.AppArmor.Profile == "unconfined" {
			return fmt.Errorf("apparmor.profile = %q: not a profile name (remedy: \"agentjail-default\")", clipped(p.AppArmor.Profile))
		}
		return nil
	},
	"process.capabilities": func(p Policy) error { return p.checkCapabilities() },
	"network.allow": func(p Policy) error {
		if len(p.Network.Allow)+len(p.Network.Deny) == 0 {
			return nil
		}
		_, err := p.Network.Rules()
		return err
	},
	"network.servers":          func(p Policy) error { return p.Network.checkServers() },
	"network.approval_command": func(p Policy) error { return p.Network.checkApproval() },
	"network.publish": func(p Policy) error {
		_, _, err := p.Network.mayPublish()
		return err
	},
	"shim.loggers": func(p Policy) error { return p.Shim.validate() },
	"shim.logs":    func(p Policy) error { return paths("shim.logs", "/", p.Shim.Logs) },
	"journal.dir":  func(p Policy) error { return p.Journal.checkDir() },
	"journal.size": func(p Policy) error {
		if p.Journal.Size < minJournal {
			return fmt.Errorf("journal.size = %q: at least 128KiB", p.Journal.Size)
		}
		return notNegative("journal.size", int64(p.Journal.Size))
	},
	"journal.required":    func(p Policy) error { return p.Journal.checkRequired() },
	"workspace.review":    func(p Policy) error { return p.Workspace.checkReview() },
	"workspace.size":      func(p Policy) error { return checkLayer("workspace.size", p.Workspace.Size) },
	"workspace.files":     func(p Policy) error { return p.Workspace.checkFiles() },
	"workspace.keep_size": func(p Policy) error { return p.Workspace.checkKeepSize() },
	"ebpf.block":          func(p Policy) error { return p.EBPF.validate() },
}

// credentialFaults looks at each credential, and at all together.
func (p Policy) credentialFaults() (out []fault) {
	for _, name := range p.Credentials.Names() {
		if err := (credential.Set{name: p.Credentials[name]}).Check(); err != nil {
			out = append(out, fault{"credentials." + name, err})
		}
	}
	if err := p.Credentials.Check(); err != nil && out == nil {
		out = append(out, fault{"credentials", err})
	}
	return out
}

func prefixed(key string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// maxValue keeps sums of bounds, and their conversions, within 64 bits.
const maxValue = 1 << 56

func positive(key string, v int64) error {
	if v == 0 {
		return fmt.Errorf("%s = 0: must be greater than 0", key)
	}
	return notNegative(key, v)
}

func notNegative(key string, v int64) error {
	if v < 0 {
		return fmt.Errorf("%s = %d: must not be negative", key, v)
	}
	if v > maxValue {
		return fmt.Errorf("%s = %d: must be at most %d", key, v, int64(maxValue))
	}
	return nil
}

// checkSockets refuses patterns that fit in every directory, and those that are none.
func checkSockets(list []string) error {
	for _, p := range list {
		if first := strings.SplitN(p, "/", 3); len(first) > 1 && strings.Trim(first[1], "*?") == "" && p[0] == '/' {
			return fmt.Errorf("binds.sockets: %q would allow everything", p)
		}
	}
	return patterns("binds.sockets", list)
}

// paths demands names below a directory, in the form in which they are compared.
func paths(key, below string, list []string) error {
	for _, p := range list {
		switch {
		case !filepath.IsAbs(p) || filepath.Clean(p) != p:
			return fmt.Errorf("%s: %q must be a clean absolute path", key, p)
		case p == "/":
			return fmt.Errorf("%s: %q would allow everything", key, p)
		case !strings.HasPrefix(p, below):
			return fmt.Errorf("%s: %q is not below %s", key, p, below)
		}
	}
	return nil
}
