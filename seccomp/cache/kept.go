// Package cache makes a jail's filters once for all jails that have the same:
// engines come with one profile or two, and reading that, meeting it with ours
// and compiling the result takes a quarter of all that agentjail computes for a
// start.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

// A Filter is the filter of a jail.
type Filter struct {
	// Delegates is for the delegate: what both our profile and the incoming section allow, with
	// what the init step needs (seccomp.WithEntry). Notes describe where the incoming section
	// changed it (seccomp.Intersect).
	Delegates *specs.LinuxSeccomp
	Notes     []string
	// Program is for the init step: what both allow and no more, compiled by package
	// compiler, as bpf.Encode writes it.
	Program []byte
}

// Make makes a filter. A nil section is none.
func Make(o seccomp.Options, incoming *specs.LinuxSeccomp) (*Filter, error) {
	ours, err := seccomp.OCI(o)
	if err != nil {
		return nil, err
	}
	section, notes := seccomp.Intersect(ours, incoming)
	program, err := compiler.Compile(section)
	if err != nil {
		return nil, fmt.Errorf("compiling the inner filter: %w", err)
	}
	f := &Filter{Notes: notes, Program: bpf.Encode(program)}
	f.Delegates, _ = seccomp.WithEntry(section)
	return f, nil
}

// A Store is a directory with filters that were made before, each named after all that it was made
// from, the program that made it among it. Only a user who may write the state of all jails may
// write there: nothing is verified that comes from it.
type Store struct{ Dir string }

// maxKept bounds the number of files in it. Engines have a few profiles each.
const maxKept = 64

// maxFile bounds one of its files, in bytes.
const maxFile = 8 << 20

// Get returns the filter that Make makes, from the directory or to it. A directory that
// cannot be read or written costs time only.
func (s Store) Get(o seccomp.Options, incoming *specs.LinuxSeccomp) (*Filter, error) {
	maker, err := self()
	if err != nil {
		return Make(o, incoming)
	}
	path := filepath.Join(s.Dir, name(maker, o, incoming))
	if data, err := atomicfile.Read(path, maxFile); err == nil {
		if f, err := decode(data); err == nil {
			return f, nil
		}
	}
	f, err := Make(o, incoming)
	if err == nil {
		s.keep(path, f)
	}
	return f, err
}

func (s Store) keep(path string, f *Filter) {
	_ = os.Mkdir(s.Dir, 0o700)
	// Those of programs that are no longer installed are never requested again.
	if all, err := os.ReadDir(s.Dir); err == nil && len(all) >= maxKept {
		for _, e := range all {
			_ = os.Remove(filepath.Join(s.Dir, e.Name()))
		}
	}
	_ = atomicfile.Write(path, encode(f), 0o600)
}

// self returns an identity of this program, unlike that of every other that was in its place.
func self() (string, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		return "", err
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim), nil
}

// name is that of the file for a filter.
func name(maker string, o seccomp.Options, in *specs.LinuxSeccomp) string {
	e := encoder{buf: make([]byte, 0, 16<<10)}
	e.text(maker)
	e.text(o.Profile)
	e.text(o.Arch)
	e.flag(o.Kill)
	e.flag(o.Only != nil)
	if o.Only != nil {
		e.list(o.Only)
	}
	e.flag(in != nil)
	if in != nil {
		e.section(in)
	}
	sum := sha256.Sum256(e.buf)
	return hex.EncodeToString(sum[:])
}
