package ebpf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"agentjail.dev/runtime/observe/ebpf/jailmap"
)

// Pins is where programs stay pinned by default: what is below it acts until it is removed,
// whichever process loaded it.
const Pins = jailmap.Pins

// programPrefix begins the names of pinned programs, beside those of maps.
const programPrefix = "program-"

// generation is the directory of this build's programs, below the pins.
func generation() string {
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:6])
}

// reuse opens what an earlier collector of the same build has left pinned.
func (s *Set) reuse(dir string) bool {
	for _, n := range sharedMaps {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, n), nil)
		if err != nil {
			s.Close()
			s.maps, s.links = map[string]*ebpf.Map{}, map[string]link.Link{}
			return false
		}
		s.maps[n] = m
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), programPrefix)
		if !ok {
			continue
		}
		if l, err := link.LoadPinnedLink(filepath.Join(dir, e.Name()), nil); err == nil {
			s.links[name] = l
		}
	}
	return true
}

// pin keeps what is loaded, but for the fallback: every process of the machine pays for that, so it
// ends with its reader. Then it removes what other builds have pinned, so that there is no moment
// without.
func (s *Set) pin(pins, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("pinning the programs: %w (remedy: mount -t bpf bpf /sys/fs/bpf)", err)
	}
	for n, m := range s.maps {
		if err := pinOne(filepath.Join(dir, n), m.Pin); err != nil {
			return err
		}
	}
	for n, l := range s.links {
		if n == fallback {
			continue
		}
		if err := pinOne(filepath.Join(dir, programPrefix+n), l.Pin); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(pins)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != filepath.Base(dir) {
			if err := os.RemoveAll(filepath.Join(pins, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func pinOne(path string, pin func(string) error) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := pin(path); err != nil {
		return fmt.Errorf("pinning %s: %w", filepath.Base(path), err)
	}
	return nil
}

// Unload removes the pins below a directory: the programs have ended when it returns, unless a
// collector has them open.
func Unload(pins string) error {
	found, err := filepath.Glob(filepath.Join(pins, "*", programPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		// The last to close a link waits for its program's end; removing a name leaves that for
		// later.
		l, err := link.LoadPinnedLink(path, nil)
		if rerr := os.Remove(path); rerr != nil {
			return fmt.Errorf("removing the pinned programs: %w", rerr)
		}
		if err == nil {
			l.Close()
		}
	}
	if err := os.RemoveAll(pins); err != nil {
		return fmt.Errorf("removing the pinned programs: %w", err)
	}
	return nil
}
