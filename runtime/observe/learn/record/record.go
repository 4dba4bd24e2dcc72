// Package record counts the system calls of jails while a profile is learned from them: those that
// pass and, with their errno, those that fail. Two small programs on the kernel's tracepoints do so
// (sys_enter, sys_exit; tp_btf, Linux 5.5), which need neither ptrace nor another filter in the
// jail. They are there only as long as the Recorder: a tracepoint on system calls costs every
// process of the machine some 80 nanoseconds a call.
package record

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Bounds of the maps: jails that are watched at once, different calls that are distinguished, and
// numbers of system calls.
const (
	maxJails = 256
	maxSeen  = 65536
	maxCalls = 512
)

// A Seen is one system call, with the bits of its arguments that were requested, and how often it
// was made.
type Seen struct {
	Number uint32
	// Errno is that of a call that failed; 0 is one that passed the filters, however it ended.
	Errno uint32
	Args  [6]uint64
	Count uint64
}

// key is Seen in the map.
type key struct {
	Number, Errno uint32
	Args          [6]uint64
	Jail, _       uint32
}

// A Recorder has the programs loaded.
type Recorder struct {
	watched, masks, seen, lost *ebpf.Map
	closers                    []func() error
	held                       []*os.File
}

// ErrCannot means that this kernel or this caller cannot load the programs.
var ErrCannot = errors.New("this kernel loads no program on the tracepoints of system calls (remedy: root, Linux 5.11 with BTF (CONFIG_DEBUG_INFO_BTF), and lockdown at most \"integrity\")")

// New loads the programs. masks are, by number, the bits of arguments by which calls are
// distinguished.
func New(masks map[uint32][6]uint64) (r *Recorder, err error) {
	o, err := find()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannot, err)
	}
	r = new(Recorder)
	defer func() {
		if err != nil {
			r.Close()
			r, err = nil, fmt.Errorf("%w: %w", ErrCannot, err)
		}
	}()
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&r.watched, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: maxJails}},
		{&r.masks, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 48, MaxEntries: maxCalls}},
		{&r.seen, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 64, ValueSize: 8, MaxEntries: maxSeen}},
		{&r.lost, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
	} {
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return r, err
		}
		r.closers = append(r.closers, (*m.to).Close)
	}
	for nr, m := range masks {
		if nr < maxCalls {
			if err = r.masks.Put(nr, m); err != nil {
				return r, err
			}
		}
	}
	for _, at := range []struct {
		name string
		exit bool
	}{{"sys_enter", false}, {"sys_exit", true}} {
		if err = r.attach(at.name, r.program(o, at.exit)); err != nil {
			return r, fmt.Errorf("%s: %w", at.name, err)
		}
	}
	runtime.KeepAlive(r)
	return r, nil
}

func (r *Recorder) attach(name string, spec *ebpf.ProgramSpec) error {
	spec.AttachTo = name
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, prog.Close)
	l, err := link.AttachTracing(link.TracingOptions{Program: prog, AttachType: ebpf.AttachTraceRawTp})
	if err != nil {
		return err
	}
	r.closers = append(r.closers, l.Close)
	return nil
}

// Watch counts the calls of the processes in a jail's user namespace that have as many filters as
// its program: until then it is the delegate's and the init step's that are made. The namespace is
// held, so that no other gets its number. Containers of a pod share one.
func (r *Recorder) Watch(pid int, filters uint32) (jail uint32, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return 0, err
	}
	r.held = append(r.held, f)
	jail = uint32(st.Ino)
	return jail, r.watched.Put(jail, filters)
}

// Read returns what was seen of a jail so far, and how often there was no room to count.
func (r *Recorder) Read(jail uint32) (seen []Seen, lost uint64, err error) {
	var k key
	var n uint64
	it := r.seen.Iterate()
	for it.Next(&k, &n) {
		if k.Jail == jail {
			seen = append(seen, Seen{k.Number, k.Errno, k.Args, n})
		}
	}
	if err := it.Err(); err != nil {
		return nil, 0, err
	}
	return seen, lost, r.lost.Lookup(uint32(0), &lost)
}

// Close takes the programs away.
func (r *Recorder) Close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		_ = r.closers[i]()
	}
	for _, f := range r.held {
		f.Close()
	}
	r.closers, r.held = nil, nil
}

// offsets are places in the kernel's structures, which differ from kernel to kernel.
type offsets struct {
	cred, userns, level, inum, filters int16
	number                             int16 // of the call, in struct pt_regs
	wide                               bool  // it has 64 bits
	args                               [6]int16
}

// find looks the offsets up in the kernel's own description (BTF).
func find() (*offsets, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	var o offsets
	look := func(to *int16, structure string, path ...string) {
		if err != nil {
			return
		}
		var s *btf.Struct
		if err = spec.TypeByName(structure, &s); err != nil {
			return
		}
		var at uint32
		var typ btf.Type = s
		for _, name := range path {
			var off uint32
			if off, typ, err = member(typ, name); err != nil {
				err = fmt.Errorf("struct %s: %w", structure, err)
				return
			}
			at += off
		}
		if at >= 1<<15 {
			err = fmt.Errorf("struct %s is too large", structure)
			return
		}
		*to = int16(at)
	}
	look(&o.cred, "task_struct", "cred")
	look(&o.filters, "task_struct", "seccomp", "filter_count", "counter")
	look(&o.userns, "cred", "user_ns")
	look(&o.level, "user_namespace", "level")
	look(&o.inum, "user_namespace", "ns", "inum")
	switch runtime.GOARCH {
	case "amd64":
		o.wide = true
		look(&o.number, "pt_regs", "orig_ax")
		for i, name := range []string{"di", "si", "dx", "r10", "r8", "r9"} {
			look(&o.args[i], "pt_regs", name)
		}
	case "arm64":
		look(&o.number, "pt_regs", "syscallno")
		look(&o.args[0], "pt_regs", "orig_x0")
		var regs int16
		look(&regs, "pt_regs", "regs")
		for i := 1; i < 6; i++ {
			o.args[i] = regs + int16(8*i)
		}
	default:
		err = fmt.Errorf("not on %s", runtime.GOARCH)
	}
	return &o, err
}

// member finds a field, also in structures without a name of their own.
func member(typ btf.Type, name string) (uint32, btf.Type, error) {
	var members []btf.Member
	switch t := btf.UnderlyingType(typ).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), m.Type, nil
		}
		if m.Name == "" {
			if off, t, err := member(m.Type, name); err == nil {
				return m.Offset.Bytes() + off, t, nil
			}
		}
	}
	return 0, nil, fmt.Errorf("no field %s", name)
}
