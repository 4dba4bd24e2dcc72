// Package record counts the system calls of jails for package learn: those that pass and, with
// their errno, those that fail. It loads two small programs on the kernel's tracepoints (sys_enter,
// sys_exit; tp_btf, Linux 5.5), and needs neither ptrace nor another filter in the jail. The
// programs end with the Recorder: a tracepoint on system calls costs every process of the machine
// some 80 nanoseconds a call.
package record

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// object is runtime/observe/ebpf/src/calls.c, compiled.
//
//go:embed calls.o
var object []byte

// A Seen is one system call, with the bits of its arguments that were requested, and how often it
// was made.
type Seen struct {
	Number uint32
	// Errno is that of a call that failed; 0 is one that passed the filters, however it ended.
	Errno uint32
	Args  [6]uint64
	Count uint64
}

// key is Seen in the map, as the programs have it.
type key struct {
	Number, Errno uint32
	Args          [6]uint64
	Jail, _       uint32
}

// A Recorder has the programs loaded.
type Recorder struct {
	loaded struct {
		Watched *ebpf.Map     `ebpf:"watched"`
		Masks   *ebpf.Map     `ebpf:"masks"`
		Seen    *ebpf.Map     `ebpf:"seen"`
		Lost    *ebpf.Map     `ebpf:"lost"`
		Enter   *ebpf.Program `ebpf:"sys_enter"`
		Exit    *ebpf.Program `ebpf:"sys_exit"`
	}
	closers []io.Closer
}

// errCannot means that this kernel or this caller cannot load the programs.
var errCannot = errors.New("this kernel loads no program on the tracepoints of system calls (remedy: root, Linux 5.11 with BTF (CONFIG_DEBUG_INFO_BTF), and lockdown at most \"integrity\")")

// New loads the programs. masks are, by number, the bits of arguments by which calls are
// distinguished.
func New(masks map[uint32][6]uint64) (*Recorder, error) {
	r := new(Recorder)
	if err := r.load(masks); err != nil {
		r.Close()
		return nil, fmt.Errorf("%w: %w", errCannot, err)
	}
	return r, nil
}

func (r *Recorder) load(masks map[uint32][6]uint64) error {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return err
	}
	arm := uint32(0)
	if runtime.GOARCH == "arm64" {
		arm = 1
	}
	if err := spec.Variables["arm64"].Set(arm); err != nil {
		return err
	}
	l := &r.loaded
	if err := spec.LoadAndAssign(l, nil); err != nil {
		return err
	}
	r.closers = append(r.closers, l.Watched, l.Masks, l.Seen, l.Lost, l.Enter, l.Exit)
	for nr, m := range masks {
		if nr < l.Masks.MaxEntries() {
			if err := l.Masks.Put(nr, m); err != nil {
				return err
			}
		}
	}
	for _, p := range []*ebpf.Program{l.Enter, l.Exit} {
		at, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return err
		}
		r.closers = append(r.closers, at)
	}
	return nil
}

// Watch counts the calls of the processes in a jail's user namespace that have as many filters as
// its program: processes with fewer are the delegate and the init step. The namespace stays open,
// so that its number is not used again. Containers of a pod share a namespace.
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
	r.closers = append(r.closers, f)
	jail = uint32(st.Ino)
	return jail, r.loaded.Watched.Put(jail, filters)
}

// Read returns what was seen of a jail so far, and how often there was no room to count.
func (r *Recorder) Read(jail uint32) (seen []Seen, lost uint64, err error) {
	var k key
	var n uint64
	it := r.loaded.Seen.Iterate()
	for it.Next(&k, &n) {
		if k.Jail == jail {
			seen = append(seen, Seen{k.Number, k.Errno, k.Args, n})
		}
	}
	if err := it.Err(); err != nil {
		return nil, 0, err
	}
	return seen, lost, r.loaded.Lost.Lookup(uint32(0), &lost)
}

// Close ends the programs.
func (r *Recorder) Close() {
	for _, c := range slices.Backward(r.closers) {
		_ = c.Close()
	}
	r.closers = nil
}
