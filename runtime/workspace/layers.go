package workspace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// Layers are a view's parts, to be read on the host.
type Layers struct {
	// Upper is what the jail wrote, in overlayfs's form.
	Upper *os.File
	// Lower is the directory.
	Lower *os.File
	// Live reports that a jail may have the view: Upper can change, and must not be changed.
	Live bool

	tree, lock *os.File
}

// OpenLayers opens the layers of a view, also while a jail has it: then Upper is the live one. The
// mount belongs to no mount namespace, and ends with the descriptors. Until Close no jail can begin
// with the view.
func (s Store) OpenLayers(r *Record) (_ *Layers, err error) {
	l := new(Layers)
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.lock, err = s.shared(r); err != nil {
		return nil, err
	}
	if l.Lower, err = openDirectory(r); err != nil {
		return nil, err
	}
	now, err := s.read(r.ID) // under the lock
	if err == nil {
		err = now.understood()
	}
	if err != nil {
		return nil, err
	}
	l.Live = now.State == Open
	if l.tree, err = mountImage(s.path(r.ID, imageFile), mountFlags); err != nil {
		return nil, err
	}
	if err = keep(l.tree); err != nil {
		return nil, err
	}
	if l.Upper, err = openUpper(l.tree); err != nil {
		return nil, fmt.Errorf("view %s: %w", r.ID, err)
	}
	return l, nil
}

// Close closes the layers.
func (l *Layers) Close() {
	for _, f := range []*os.File{l.Upper, l.Lower, l.tree, l.lock} {
		f.Close()
	}
}

// openDirectory opens the directory of a view, if its path still leads to it.
func openDirectory(r *Record) (*os.File, error) {
	dir, err := openat.File(unix.AT_FDCWD, r.Path, openat.NoLinks, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("opening %s, of which view %s is: %w (remedy: bring it back, or agentjail workspace discard %s)", r.Path, r.ID, err, r.ID)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return nil, err
	}
	if st.Dev != r.Dev || st.Ino != r.Ino {
		dir.Close()
		return nil, fmt.Errorf("%s is another directory than the one that view %s is of (remedy: move that one back)", r.Path, r.ID)
	}
	return dir, nil
}
