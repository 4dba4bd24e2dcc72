// Package ebpf loads eBPF programs by which the kernel refuses and reports requests of jails,
// behind the two system call filters; the reports go to the jails' journals. The collector,
// cmd/agentjail-journal, loads the programs (src/programs.c, compiled ahead) and pins them, so that
// they outlive it. Each program is small and optional: a program that the running kernel rejects is
// left out, with the reason.
//
// The programs know a jail by its user namespace: other processes pay for one comparison. Code for
// each bundle is in packages jailmap and status, which do without this one's library.
package ebpf

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
)

//go:generate ../../../hack/bpf.sh

// object is src/programs.c, compiled.
//
//go:embed programs.o
var object []byte

// maxPools is how many pools of host ids the programs know.
const maxPools = 8

// Options report what the programs do.
type Options struct {
	// Pools are the host ids by which jails are known.
	Pools []idmap.Pool
	// Verdict is for jails whose policy sets nothing.
	Verdict Verdict
	// RefusalRate and EventRate are how many events of a jail are reported a second, at most: of
	// what is refused here, and of all else.
	RefusalRate, EventRate uint32
	// Syscalls has refused system calls reported, by the kernel's seccomp entry; Fallback, by the
	// exit of all system calls of the machine where that cannot be had.
	Syscalls, Fallback bool
	// Connections sends connect and bind to the blocking programs. Otherwise they are only
	// reported.
	Connections bool
	// Pins is the directory of a bpf file system where the programs stay; "" has them end with the
	// Set.
	Pins string
}

// Rates of events, for Options.
const (
	DefaultRefusalRate = 200
	DefaultEventRate   = 1000
)

// config is struct config of src/programs.c.
type config struct {
	Verdict Verdict
	Pools   uint32
	Rate    [2]uint32
	Pool    [maxPools]struct{ First, Count uint32 }
}

func (o Options) config() (config, error) {
	c := config{Verdict: o.Verdict, Pools: uint32(len(o.Pools)), Rate: [2]uint32{o.RefusalRate, o.EventRate}}
	if len(o.Pools) > maxPools {
		return c, fmt.Errorf("%d pools of host ids, and the programs know %d (remedy: use in all of the policy's profiles the same userns.pool)",
			len(o.Pools), maxPools)
	}
	for i, p := range o.Pools {
		c.Pool[i].First, c.Pool[i].Count = p.First, p.Count
	}
	return c, nil
}

// Loaded is what became of a program.
type Loaded struct {
	Name   string `json:"name"`
	Hook   string `json:"hook,omitempty"`
	Target string `json:"target"`
	// Why it is not there, "" where it acts.
	Why string `json:"why,omitempty"`
}

// Set is the programs that are loaded and attached, with their maps.
type Set struct {
	Programs []Loaded
	maps     map[string]*ebpf.Map
	links    map[string]link.Link
}

// sharedMaps are those that all programs have, and that are pinned.
var sharedMaps = []string{"config", "jails", "totals", "events", jailmap.MapName}

// readsMemory and isARM64 are constants of src/programs.c.
const (
	readsMemory = "reads"
	isARM64     = "arm64"
)

// Load loads and attaches all programs that the kernel takes. It fails only where there are none at
// all.
func Load(o Options) (*Set, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("the kernel does not describe its types: %w (remedy: a kernel with CONFIG_DEBUG_INFO_BTF)", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("the compiled programs: %w", err)
	}
	s := &Set{maps: map[string]*ebpf.Map{}, links: map[string]link.Link{}}
	if err := s.fill(o, c, spec, kernel); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// fill loads what is not pinned yet.
func (s *Set) fill(o Options, c config, spec *ebpf.CollectionSpec, kernel *btf.Spec) error {
	dir := filepath.Join(o.Pins, generation())
	kept := o.Pins != "" && s.reuse(dir)
	l := loader{set: s, spec: spec, kernel: kernel}
	defer l.close()
	if err := l.makeMaps(kept); err != nil {
		return err
	}
	if err := s.maps["config"].Put(uint32(0), c); err != nil {
		return fmt.Errorf("configuring the programs: %w", err)
	}
	l.all(o)
	if len(s.links) == 0 {
		return fmt.Errorf("no program can be loaded: %s", s.Programs[0].Why)
	}
	if o.Pins == "" {
		return nil
	}
	return s.pin(o.Pins, dir)
}

// A loader loads one program at a time: the failure of one does not stop the others.
type loader struct {
	set       *Set
	spec      *ebpf.CollectionSpec
	kernel    *btf.Spec
	constants [2]*ebpf.Map // without and with reading of the kernel's memory
}

func (l *loader) close() {
	for _, m := range l.constants {
		if m != nil {
			m.Close()
		}
	}
}

// only is the specification with one program, or with none.
func (l *loader) only(name string) *ebpf.CollectionSpec {
	s := l.spec.Copy()
	for n := range s.Programs {
		if n != name {
			delete(s.Programs, n)
		}
	}
	return s
}

const constants = ".rodata"

// makeMaps makes the constants of both kinds, and the shared maps unless there are pinned ones.
func (l *loader) makeMaps(kept bool) error {
	for reads := range l.constants {
		s := l.only("")
		arm := uint32(0)
		if runtime.GOARCH == "arm64" {
			arm = 1
		}
		if err := errors.Join(s.Variables[readsMemory].Set(uint32(reads)), s.Variables[isARM64].Set(arm)); err != nil {
			return err
		}
		if kept || reads == 1 {
			for n := range s.Maps {
				if n != constants {
					delete(s.Maps, n)
				}
			}
		}
		made, err := ebpf.NewCollection(s)
		if err != nil {
			return fmt.Errorf("making the programs' maps: %w", explained(err))
		}
		l.constants[reads] = made.DetachMap(constants)
		for _, n := range sharedMaps {
			if reads == 0 && !kept {
				l.set.maps[n] = made.DetachMap(n)
			}
		}
		made.Close()
	}
	return nil
}

// all loads every program.
func (l *loader) all(o Options) {
	calls := false
	for _, p := range programs {
		if p.syscalls && (!o.Syscalls || calls) {
			l.drop(p.name)
			continue
		}
		if p.connections && !o.Connections && l.set.links[p.name] == nil {
			continue // one that is pinned stays: jails may rely on it
		}
		err := p.fits(l.kernel)
		if err == nil {
			err = l.load(p.name)
		} else if p.instead != "" {
			continue
		}
		calls = calls || p.syscalls && err == nil
		l.note(p.name, p.hook, p.target, err)
	}
	if o.Fallback && !calls {
		l.note(fallback, Syscall, "sys_exit", l.load(fallback))
	}
}

// drop ends a pinned program that is not requested any more.
func (l *loader) drop(name string) {
	if kept := l.set.links[name]; kept != nil {
		_ = kept.Unpin()
		kept.Close()
		delete(l.set.links, name)
	}
}

func (l *loader) note(name string, h Hook, target string, err error) {
	done := Loaded{Name: name, Target: target}
	if h != noHook {
		done.Hook = h.String()
	}
	if err != nil {
		done.Why = err.Error()
	}
	l.set.Programs = append(l.set.Programs, done)
}

// load loads and attaches a program; where the kernel does not let it read its memory, without
// that.
func (l *loader) load(name string) error {
	if l.set.links[name] != nil {
		return nil
	}
	err := l.try(name, 1)
	if forbidden(err) && l.try(name, 0) == nil {
		return nil
	}
	return explained(err)
}

func (l *loader) try(name string, reads int) error {
	replaced := map[string]*ebpf.Map{constants: l.constants[reads]}
	maps.Copy(replaced, l.set.maps)
	made, err := ebpf.NewCollectionWithOptions(l.only(name), ebpf.CollectionOptions{
		MapReplacements: replaced, Programs: ebpf.ProgramOptions{KernelTypes: l.kernel},
	})
	if err != nil {
		return err
	}
	defer made.Close()
	attached, err := link.AttachTracing(link.TracingOptions{Program: made.Programs[name]})
	if err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	l.set.links[name] = attached
	return nil
}

// Events is the ring that the programs write to.
func (s *Set) Events() *ebpf.Map { return s.maps["events"] }

// Acting names the hooks that some program acts on.
func (s *Set) Acting() []string {
	var out []string
	for _, p := range s.Programs {
		if p.Why == "" && p.Hook != "" && !slices.Contains(out, p.Hook) {
			out = append(out, p.Hook)
			if p.Hook == Ptrace.String() {
				out = append(out, Trace.String()) // the same program's
			}
		}
	}
	return out
}

// Close closes all. Programs that are not pinned end.
func (s *Set) Close() {
	for _, l := range s.links {
		l.Close()
	}
	for _, m := range s.maps {
		m.Close()
	}
}

// explained is an error of the library in one line: a verifier's log is many, and what it guesses
// of memory limits is not so.
func explained(err error) error {
	if v, ok := errors.AsType[*ebpf.VerifierError](err); ok && len(v.Log) > 0 {
		return fmt.Errorf("%w: %s", v.Cause, strings.TrimSpace(v.Log[max(0, len(v.Log)-2)]))
	}
	if errors.Is(err, unix.EPERM) {
		return errors.New("the kernel refuses it (EPERM)")
	}
	return err
}
