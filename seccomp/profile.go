// Package seccomp holds agentjail's syscall filters as data, renders them as
// the seccomp section of an OCI spec, and intersects them with the filter
// that an engine asked for.
//
// It is pure Go and part of the hot path. Compiling a filter to BPF and
// proving what the compiled filter lets through needs cgo and lives apart, in
// package agentjail.dev/seccomp/prove.
package seccomp

import (
	"embed"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/opencontainers/runtime-spec/specs-go"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// Options picks a profile and how violations are answered.
type Options struct {
	// Profile is one of Profiles(); empty means "default".
	Profile string
	// Arch is a GOARCH: amd64 or arm64.
	Arch string
	// Kill makes a call that is not listed end the process (policy's
	// on_violation = "kill") where it otherwise answers ENOSYS.
	Kill bool
}

// Entry is one syscall of a profile, with the reason why it is there.
type Entry struct {
	// Name is the syscall's name as libseccomp knows it.
	Name string `json:"name"`
	// Why says in a few words which program needs it, or for a refused
	// call why it is answered as it is.
	Why string `json:"why"`
	// Rule says in words which arguments pass; empty when all do.
	Rule string `json:"rule,omitempty"`
	// Errno is the errno of a call that is listed only to be refused in its
	// own way; empty for an allowed call.
	Errno string `json:"errno,omitempty"`
}

// profile mirrors one file in profiles/.
type profile struct {
	About   string  `json:"about"`
	Extends string  `json:"extends"`
	Allow   []group `json:"allow"`
	Refuse  []group `json:"refuse"`
}

// group is a set of syscalls that are there for one reason.
type group struct {
	Names []string `json:"names"`
	Arch  string   `json:"arch"`  // GOARCH that has them; empty for both
	Rule  string   `json:"rule"`  // name of an argument rule
	Errno string   `json:"errno"` // of a refused call
	Why   string   `json:"why"`
}

// Profiles lists the embedded profiles by name.
func Profiles() []string { return []string{"default", "server", "strict"} }

// load reads an embedded profile and what it extends.
func load(name string) (*profile, error) {
	if name == "" {
		name = "default"
	}
	known := false
	for _, p := range Profiles() {
		known = known || p == name
	}
	if !known {
		return nil, fmt.Errorf("seccomp profile %q: not one of %v", name, Profiles())
	}
	data, err := profileFiles.ReadFile("profiles/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("seccomp profile %q: %w", name, err)
	}
	var p profile
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("seccomp profile %q: %w", name, err)
	}
	if p.Extends != "" {
		base, err := load(p.Extends)
		if err != nil {
			return nil, err
		}
		p.Allow = append(base.Allow, p.Allow...)
		p.Refuse = append(base.Refuse, p.Refuse...)
	}
	return &p, nil
}

// archOf maps a GOARCH to its OCI name.
func archOf(goarch string) (specs.Arch, error) {
	switch goarch {
	case "amd64":
		return specs.ArchX86_64, nil
	case "arm64":
		return specs.ArchAARCH64, nil
	}
	return "", fmt.Errorf("no seccomp profile for architecture %q: only amd64 and arm64", goarch)
}

// errnoOf maps the errno names that profiles use.
func errnoOf(name string) (uint, error) {
	switch name {
	case "EPERM":
		return ePERM, nil
	case "EINVAL":
		return eINVAL, nil
	case "ENOSYS":
		return eNOSYS, nil
	case "EOPNOTSUPP":
		return eOPNOTSUPP, nil
	}
	return 0, fmt.Errorf("errno %q is not known here", name)
}

// OCI renders an embedded profile as an OCI seccomp section. Everything that
// is not listed answers ENOSYS (libc and language runtimes probe new calls and
// fall back on ENOSYS only), or ends the process with o.Kill. Only the native
// architecture is listed, so that libseccomp kills calls of any other ABI.
//
// The result is freshly allocated. Errors: an unknown profile or architecture.
func OCI(o Options) (*specs.LinuxSeccomp, error) {
	arch, err := archOf(o.Arch)
	if err != nil {
		return nil, err
	}
	p, err := load(o.Profile)
	if err != nil {
		return nil, err
	}
	nosys := uint(eNOSYS)
	out := &specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: &nosys,
		Architectures:   []specs.Arch{arch},
	}
	if o.Kill {
		out.DefaultAction, out.DefaultErrnoRet = specs.ActKillProcess, nil
	}
	var plain []string
	for _, g := range p.Allow {
		if g.Arch != "" && g.Arch != o.Arch {
			continue
		}
		if g.Rule == "" {
			plain = append(plain, g.Names...)
			continue
		}
		r, ok := ruleOf(g.Rule)
		if !ok {
			return nil, fmt.Errorf("seccomp profile %q: no argument rule %q", o.Profile, g.Rule)
		}
		out.Syscalls = append(out.Syscalls, r.oci(g.Names, o.Kill)...)
	}
	for _, g := range p.Refuse {
		if g.Arch != "" && g.Arch != o.Arch {
			continue
		}
		errno, err := errnoOf(g.Errno)
		if err != nil {
			return nil, fmt.Errorf("seccomp profile %q: %w", o.Profile, err)
		}
		if errno == eNOSYS && !o.Kill {
			continue // the default already
		}
		out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: g.Names, Action: specs.ActErrno, ErrnoRet: &errno})
	}
	sort.Strings(plain)
	out.Syscalls = append(out.Syscalls, specs.LinuxSyscall{Names: plain, Action: specs.ActAllow})
	return out, nil
}

// oci renders an argument rule for the named calls.
func (r argRule) oci(names []string, kill bool) []specs.LinuxSyscall {
	out := make([]specs.LinuxSyscall, 0, len(r.allow)+len(r.refuse))
	for _, conds := range r.allow {
		args := make([]specs.LinuxSeccompArg, len(conds))
		for i, c := range conds {
			args[i] = c.oci()
		}
		out = append(out, specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args})
	}
	if kill {
		return out
	}
	for _, v := range r.refuse {
		errno := v.errno
		s := specs.LinuxSyscall{Names: names, Action: specs.ActErrno, ErrnoRet: &errno}
		for _, c := range v.conds {
			s.Args = append(s.Args, c.oci())
		}
		if len(v.conds) == 0 {
			s.Args = []specs.LinuxSeccompArg{anything}
		}
		out = append(out, s)
	}
	return out
}

// anything is always true. libseccomp tests >= after every equality, and the
// lowest argument last, so a refusing rule with it answers what no allowing
// rule matched; were the order different, it could only refuse more.
var anything = specs.LinuxSeccompArg{Index: 0, Value: 0, Op: specs.OpGreaterEqual}

// Entries lists a profile with reasons, sorted by name: allowed calls, and
// calls refused in their own way. Errors: an unknown profile or architecture.
func Entries(name, arch string) ([]Entry, error) {
	if _, err := archOf(arch); err != nil {
		return nil, err
	}
	p, err := load(name)
	if err != nil {
		return nil, err
	}
	var out []Entry
	add := func(groups []group) error {
		for _, g := range groups {
			if g.Arch != "" && g.Arch != arch {
				continue
			}
			e := Entry{Why: g.Why, Errno: g.Errno}
			if g.Rule != "" {
				r, ok := ruleOf(g.Rule)
				if !ok {
					return fmt.Errorf("seccomp profile %q: no argument rule %q", name, g.Rule)
				}
				e.Rule = r.text
			}
			for _, n := range g.Names {
				e.Name = n
				out = append(out, e)
			}
		}
		return nil
	}
	if err := add(p.Allow); err != nil {
		return nil, err
	}
	if err := add(p.Refuse); err != nil {
		return nil, err
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}
