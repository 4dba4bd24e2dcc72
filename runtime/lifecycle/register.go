package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/observe/ebpf/jailmap"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/state"
)

// spaceFile holds the number of the user namespace of a jail that the eBPF programs know, in the
// jail's directory.
const spaceFile = "userns"

func (r *Runtime) registry() jailmap.Registry { return jailmap.Registry{Root: r.Store.Root} }

// registerEBPF makes the waiting jail known to the eBPF programs if they do not recognise it by its
// host ids, and has them block what policy blocks beyond their default. Without programs a jail
// runs all the same, unless policy requires them.
func (a *attempt) registerEBPF(pid int, mounts []mountinfo.Mount) error {
	block := a.j.Policy.EBPF.Block
	if a.in.Facts.Host.Rootless {
		if len(block) > 0 {
			return refusal.New(refusal.EBPF, "policy blocks %s by eBPF programs, which are root's and do not know this user's jails", strings.Join(block, ", ")).WithRemedy("a root engine, or no ebpf.block")
		}
		return nil
	}
	if !a.j.IDs.Given && len(block) == 0 {
		return nil
	}
	bits, err := jailmap.Bits(block)
	if err != nil {
		return err
	}
	return onHostThread(func() error {
		if err := checkBlockable(block); err != nil {
			return err
		}
		ns, err := namespace.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		if err != nil {
			return fmt.Errorf("opening the jail's user namespace: %w", err)
		}
		defer ns.Close()
		number, owner, err := jailmap.About(ns)
		if err != nil {
			return err
		}
		e := jailmap.Entry{Owner: owner, Block: bits}
		// The time is taken now rather than when create began: files staged since then are not the
		// jail's, and nothing of the image has run.
		if e.Born, err = jailmap.Now(); err != nil {
			return err
		}
		if slices.Contains(block, "exec") {
			e.Devices = mountedDevices(a.in.Bundle.Spec.Mounts, mounts)
		}
		if err := atomicfile.WriteNew(filepath.Join(a.rt.Store.Dir(a.j.Key), spaceFile), []byte(strconv.FormatUint(uint64(number), 10)), 0o600); err != nil {
			return err
		}
		err = a.rt.registry().Add(number, a.j.Key, e)
		switch {
		case !errors.Is(err, jailmap.ErrUnseen):
			return err
		case len(block) == 0:
			return nil // inspect reports it
		}
		// The pinned programs of a dead collector may still run although their map can no longer be
		// opened.
		return errNotBlocking(strings.Join(block, ", ")).WithRemedy("systemctl restart agentjail-journal; `agentjail check` lists what this kernel supports")
	})
}

// checkBlockable returns a refusal if a hook in ebpf.block has no attached program.
func checkBlockable(block []string) error {
	if len(block) == 0 {
		return nil
	}
	s := status.Look()
	for _, name := range block {
		if s.Acting && slices.Contains(s.Hooks, name) {
			continue
		}
		refused := errNotBlocking(name)
		if name == "connect" || name == "bind" {
			return refused.WithRemedy("systemctl restart agentjail-journal, which takes its option --connections where policy itself does not block them; `agentjail check` lists what this kernel supports")
		}
		return refused.WithRemedy("systemctl start agentjail-journal; `agentjail check` lists what this kernel supports")
	}
	return nil
}

func errNotBlocking(name string) *refusal.Error {
	return refusal.New(refusal.EBPF, "policy blocks %s by eBPF programs, and none act on it", name)
}

// mountedDevices returns the device numbers of the directories that are mounted from outside: by
// the bundle's mounts, and, since a mount may be requested behind a link of the image, all that are
// on a disk. Below /dev, engines mount memory for the jail alone.
func mountedDevices(asked []specs.Mount, mounts []mountinfo.Mount) []uint32 {
	var out []uint32
	var root string
	for _, m := range mounts {
		if m.Point == "/" {
			root = m.Dev
		}
	}
	for _, m := range mounts {
		bound := slices.ContainsFunc(asked, func(s specs.Mount) bool { return harden.IsBind(s) && path.Clean(s.Destination) == m.Point })
		if m.Dev == root || strings.HasPrefix(m.Point, "/dev/") || !bound && strings.HasPrefix(m.Dev, "0:") {
			continue
		}
		major, minor, _ := strings.Cut(m.Dev, ":")
		x, err1 := strconv.ParseUint(major, 10, 12)
		y, err2 := strconv.ParseUint(minor, 10, 20)
		if d := jailmap.Device(uint32(x), uint32(y)); errors.Join(err1, err2) == nil && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// unregister undoes registerEBPF.
func (r *Runtime) unregister(j *state.Brief) error {
	data, err := os.ReadFile(filepath.Join(r.Store.Dir(j.Key), spaceFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(string(data), 10, 32)
	if err != nil {
		return nil // cut short by a crash, before anything was registered
	}
	return r.registry().Remove(uint32(number), j.Key)
}
