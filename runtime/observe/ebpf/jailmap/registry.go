// Package jailmap registers jails with the eBPF programs that the programs do not know by
// themselves: jails whose host ids an engine chose, and jails whose policy blocks more than the
// default. The key is the number of the jail's user namespace. The files of the registry are beside
// the jails' records, so that a collector that starts later finds them; the entries of the pinned
// map follow from them. The package loads no program.
package jailmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/spec/lists"
)

// Pins is where programs and maps stay pinned by default, in a directory of each build's.
const Pins = "/sys/fs/bpf/agentjail"

// maxDevices is how many devices an entry names.
const maxDevices = 8

// An Entry is what is registered of one jail.
type Entry struct {
	// Owner is the owner of the user namespace, as the machine's own namespace has it
	// (NS_GET_OWNER_UID).
	Owner uint32 `json:"owner"`
	// Born is when the jail was made, in nanoseconds since 1970 by the clock of file systems (Now):
	// files that were changed since were written in it.
	Born int64 `json:"born"`
	// Block has a bit for each hook that is refused beyond the default.
	Block uint32 `json:"block,omitempty"`
	// Allow has a bit for each hook of the default that is not refused.
	Allow uint32 `json:"allow,omitempty"`
	// Devices are those of mounted directories, whose files are not the jail's, as the kernel
	// numbers them.
	Devices []uint32 `json:"devices,omitempty"`
}

// now is the time as the kernel sets it on files that change: that of the last tick, so that no
// change comes before it.
func now() (int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t); err != nil {
		return 0, fmt.Errorf("the time of files: %w", err)
	}
	return t.Nano(), nil
}

// bits are the hooks that policy can have blocked, as src/programs.c numbers them.
var bits = map[string]uint32{"exec": 10, "trace": 12, "connect": 13, "bind": 14}

// allowUnix is the bit of the hook that refuses Unix sockets of other network namespaces.
const allowUnix = 1 << 16

// Bits are Entry.Block of policy's names of hooks.
func Bits(names []string) (uint32, error) {
	var out uint32
	for _, name := range names {
		bit, ok := bits[name]
		if !ok {
			return 0, fmt.Errorf("no eBPF program blocks %q", name)
		}
		out |= 1 << bit
	}
	return out, nil
}

// A Space is a user namespace with what its jails' entries come to.
type Space struct {
	Number uint32 `json:"number"`
	Store  uint64 `json:"store"`
	Entry
}

// Registry is that of the jails of one state directory.
type Registry struct {
	Root string
	// Pins is where maps are pinned; "" is Pins.
	Pins string
}

// prefix begins the directories of user namespaces, beside those of blocks of host ids. A
// directory's files are the entries of its jails, by their keys.
const prefix = "userns."

// maxEntry bounds what is read of an entry.
const maxEntry = 4096

// Dir is the directory of the jails that are registered in a user namespace.
func (r Registry) Dir(number uint32) string {
	return filepath.Join(r.Root, "ids", prefix+strconv.FormatUint(uint64(number), 10))
}

func (r Registry) store() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Root))
	return h.Sum64()
}

// add registers a jail in the user namespace of that number. An error of the map is errUnseen: the
// jail is in the registry all the same.
func (r Registry) add(number uint32, key string, e Entry) error {
	if len(e.Devices) > maxDevices {
		return fmt.Errorf("directories of %d file systems are mounted, and the eBPF programs know %d", len(e.Devices), maxDevices)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	maps, err := r.open()
	if err != nil {
		return err
	}
	defer maps.close()
	dir := r.Dir(number)
	if err = os.Mkdir(dir, 0o700); err == nil || errors.Is(err, os.ErrExist) {
		err = os.WriteFile(filepath.Join(dir, key), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("registering the jail with the eBPF programs: %w", err)
	}
	space, err := r.space(number)
	if err != nil {
		return err
	}
	return maps.put(space)
}

// remove takes a jail out of the registry: with its last one, a user namespace is the overflow
// user's.
func (r Registry) remove(number uint32, key string) error {
	maps, err := r.open()
	if err != nil {
		return err
	}
	defer maps.close()
	dir := r.Dir(number)
	if err := os.Remove(filepath.Join(dir, key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch err := unix.Rmdir(dir); err {
	case nil, unix.ENOENT:
		return maps.remove(number, r.store())
	case unix.ENOTEMPTY, unix.EEXIST:
		space, err := r.space(number)
		if err != nil {
			return err
		}
		return maps.put(space)
	default:
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
}

// Sweep removes entries of the maps that no jail of this registry has any more.
func (r Registry) Sweep() error {
	maps, err := r.open()
	if errors.Is(err, os.ErrNotExist) {
		return nil // there has been no jail yet
	}
	if err != nil {
		return err
	}
	defer maps.close()
	return maps.sweep(r.store(), func(number uint32) bool {
		_, err := os.Lstat(r.Dir(number))
		return errors.Is(err, os.ErrNotExist)
	})
}

// All is every user namespace that is registered.
func (r Registry) All() ([]Space, error) {
	maps, err := r.open()
	if err != nil {
		return nil, err
	}
	defer maps.close()
	dirs, err := filepath.Glob(filepath.Join(r.Root, "ids", prefix+"*"))
	if err != nil {
		return nil, err
	}
	var out []Space
	for _, d := range dirs {
		n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(d), prefix), 10, 32)
		if err != nil {
			continue
		}
		if s, err := r.space(uint32(n)); err == nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// space is what the entries of a user namespace's jails come to: what one of them is refused, all
// are, and the youngest reports what was written.
func (r Registry) space(number uint32) (Space, error) {
	s := Space{Number: number, Store: r.store()}
	entries, err := os.ReadDir(r.Dir(number))
	if err != nil {
		return s, err
	}
	found := false
	for _, f := range entries {
		data, err := atomicfile.Read(filepath.Join(r.Dir(number), f.Name()), maxEntry)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var e Entry
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		if err != nil {
			return s, fmt.Errorf("the registry of the eBPF programs: %s: %w", f.Name(), err)
		}
		if found {
			e.Allow &= s.Allow
		}
		found, s.Allow = true, e.Allow
		s.Owner, s.Born, s.Block = e.Owner, max(s.Born, e.Born), s.Block|e.Block
		s.Devices = lists.Union(s.Devices, e.Devices...)
	}
	if !found {
		return s, os.ErrNotExist
	}
	return s, nil
}

// open opens the maps, and has a lock against others who change entries of this registry until they
// are closed.
func (r Registry) open() (*maps, error) {
	pins := r.Pins
	if pins == "" {
		pins = Pins
	}
	fd, err := unix.Open(filepath.Join(r.Root, "ids"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the registry of the eBPF programs: %w", err)
	}
	if err := flock.Wait(fd, unix.LOCK_EX); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("the registry of the eBPF programs: %w", err)
	}
	m := openMaps(pins)
	m.lock = fd
	return m, nil
}
