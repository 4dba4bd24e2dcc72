package bindsource

import (
	"errors"

	"golang.org/x/sys/unix"
)

// volumeData is the directory of an engine's volume that containers get: Docker's
// (moby, volume/local), Podman's and nerdctl's alike.
const volumeData = "_data"

// newMode is the mode with which all three make it.
const newMode = 0o755

// NewVolume reports whether an open directory is as an engine makes it for a new volume: empty,
// and with the engine's mode. Files of an image at the volume's place, or a person's chown or
// chmod, show as another mode or owner. st are the directory's attributes.
func NewVolume(fd int, st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o7777 == newMode && empty(fd)
}

// empty reports whether a directory holds nothing. One that cannot be read does.
func empty(fd int) bool {
	dir, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	var buf [4096]byte
	for {
		n, err := unix.Getdents(dir, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false
		case n == 0:
			return true
		}
		if _, _, names := unix.ParseDirent(buf[:n], -1, nil); len(names) > 0 {
			return false // ParseDirent leaves out "." and ".."
		}
	}
}
