package jailmap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/observe/ebpf/status"
	"agentjail.dev/runtime/refusal"
)

// spaceFile holds the number of the user namespace of a jail that the eBPF programs know, in the
// jail's directory.
const spaceFile = "userns"

// Register makes the waiting jail with this first process known to the programs, and has them block
// what policy blocks beyond their default. dir is the jail's directory. devices are those of
// directories that are mounted from outside. Without programs a jail runs all the same, unless
// policy requires them. sockets reports that policy leaves some of the host's to the jail. The
// calling thread is in the host's mount namespace.
func (r Registry) Register(dir, key string, pid int, block []string, sockets bool, devices []uint32) error {
	bits, err := Bits(block)
	if err != nil {
		return err
	}
	if err := checkBlockable(block); err != nil {
		return err
	}
	ns, err := namespace.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return fmt.Errorf("opening the jail's user namespace: %w", err)
	}
	defer ns.Close()
	number, owner, err := About(ns)
	if err != nil {
		return err
	}
	e := Entry{Owner: owner, Block: bits}
	if sockets {
		e.Allow = allowUnix
	}
	// The time is taken now rather than when create began: files staged since then are not the
	// jail's, and nothing of the image has run.
	if e.Born, err = now(); err != nil {
		return err
	}
	if slices.Contains(block, "exec") {
		e.Devices = devices
	}
	if err := atomicfile.WriteNew(filepath.Join(dir, spaceFile), []byte(strconv.FormatUint(uint64(number), 10)), 0o600); err != nil {
		return err
	}
	err = r.add(number, key, e)
	switch {
	case !errors.Is(err, errUnseen):
		return err
	case len(block) == 0:
		return nil // inspect reports it
	}
	// The pinned programs of a dead collector may still run although their map can no longer be
	// opened.
	return errNotBlocking(strings.Join(block, ", ")).WithRemedy("systemctl restart agentjail-journal; `agentjail check` lists what this kernel supports")
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

// MountedDevices returns the device numbers of the directories that are mounted from outside: at
// the places of the bundle's bind mounts, and, since a mount may be requested behind a link of the
// image, all that are on a disk. Below /dev, engines mount memory for the jail alone.
func MountedDevices(bound []string, mounts []mountinfo.Mount) []uint32 {
	var out []uint32
	var root string
	for _, m := range mounts {
		if m.Point == "/" {
			root = m.Dev
		}
	}
	for _, m := range mounts {
		if m.Dev == root || strings.HasPrefix(m.Point, "/dev/") || !slices.Contains(bound, m.Point) && strings.HasPrefix(m.Dev, "0:") {
			continue
		}
		major, minor, _ := strings.Cut(m.Dev, ":")
		x, err1 := strconv.ParseUint(major, 10, 12)
		y, err2 := strconv.ParseUint(minor, 10, 20)
		if d := device(uint32(x), uint32(y)); errors.Join(err1, err2) == nil && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// Unregister undoes Register.
func (r Registry) Unregister(dir, key string) error {
	data, err := os.ReadFile(filepath.Join(dir, spaceFile))
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
	return r.remove(uint32(number), key)
}
