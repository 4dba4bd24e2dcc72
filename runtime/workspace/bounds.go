package workspace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/refusal"
)

// Bounds are those of all layers on disk of this machine: of views, homes and roots.
type Bounds struct {
	// Layers is how many of them jails can have at once: each takes a loop device; 0 sets no bound.
	Layers int
	// Free is what a new one leaves free of its disk, in bytes.
	Free int64
}

// A purpose is that of a layer, in refusals.
type purpose struct{ about, remedy string }

var (
	aView = purpose{"a view", "`agentjail workspace discard` views that are not needed, or policy: workspace.size"}
	aHome = purpose{"a home", "--home empty, or a smaller home.size in a preset of your own"}
	aRoot = purpose{"the root's layer", `policy: a smaller root.disk, or root.backing = "memory"`}
)

// room refuses a layer that the disk has no room for.
func (b Bounds) room(dir string, size int64, u purpose) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	free := int64(fs.Bavail) * fs.Bsize
	switch {
	case free < size:
		return u.noRoom(dir, size, free)
	case free-size < b.Free:
		return refusal.New(refusal.Workspace, "%s has %d MiB free, the layer takes %d MiB, and %d MiB are to stay free", dir, free>>20, size>>20, b.Free>>20).
			About("%s", u.about).WithRemedy("%s, or disk.free", u.remedy)
	}
	return nil
}

func (u purpose) noRoom(dir string, size, free int64) error {
	return refusal.New(refusal.Workspace, "%s has %d MiB free, and the layer takes %d MiB", dir, free>>20,
		size>>20).About("%s", u.about).
		WithRemedy("%s", u.remedy)
}

// admit refuses a new layer beyond the bounds. Until the result is closed, no other is admitted on
// this machine.
func (s Store) admit(size int64, u purpose) (*os.File, error) {
	lock, err := s.Bounds.device(u)
	if err != nil {
		return nil, err
	}
	if err := s.Bounds.room(s.Dir, size, u); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// Home refuses a home of a size in a directory that has no room for it.
func (b Bounds) Home(dir string, size int64) error { return b.room(dir, size, aHome) }

// device refuses one more loop device than jails may have. Until the result is closed, no other
// call of device on this machine returns.
func (b Bounds) device(u purpose) (*os.File, error) {
	if err := checkLoop(); err != nil {
		return nil, fmt.Errorf("%s: %w", u.about, err)
	}
	lock, err := os.Open(loopControl)
	if err != nil {
		return nil, err
	}
	err = flock.Wait(int(lock.Fd()), unix.LOCK_EX)
	var have Devices
	if err == nil && b.Layers > 0 {
		have, err = BoundDevices()
	}
	if err == nil && b.Layers > 0 && have.All >= b.Layers {
		err = refusal.New(refusal.Workspace, "jails of this machine have %d layers on disk, of at most %d", have.All, b.Layers).
			About("%s", u.about).WithRemedy("end jails that are not needed, or policy: disk.layers")
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// Devices are the loop devices of this machine that are bound to layers on disk.
type Devices struct {
	All, Roots int
	// RootBytes is the size of the layers of roots together.
	RootBytes int64
}

// BoundDevices counts them.
func BoundDevices() (d Devices, err error) {
	err = eachBound(func(device *os.File, info *unix.LoopInfo64) bool {
		name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
		switch string(name) {
		case rootName:
			d.Roots++
			if text, err := os.ReadFile("/sys/block/" + filepath.Base(device.Name()) + "/size"); err == nil {
				sectors, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 54)
				d.RootBytes += sectors * 512
			}
			d.All++
		case loopName:
			d.All++
		}
		return false
	})
	return d, err
}
