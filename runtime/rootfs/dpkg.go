package rootfs

import (
	"bytes"
	_ "embed"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
)

// overrides is dpkg's list of modes and owners that override those of packages
// (dpkg-statoverride(1)).
const overrides = "var/lib/dpkg/statoverride"

// mostOverrides bounds the read of an image's own list.
const mostOverrides = 64 << 10

// setID is the list for Debian's programs with a set-id bit or a group of their own, in packages
// that other packages depend on. No jail can set either, and dpkg fails on them, so that the
// packages could be neither installed nor upgraded. The bits have no effect in a jail anyway
// (no_new_privs). Lines that begin with # are remarks.
//
//go:embed images/statoverride
var setID string

// overrideSetID adds the programs that dpkg is to install without set-id bits to dpkg's list, if
// the image has a list that belongs to container root. Existing entries for the same path stay.
func overrideSetID(root, uid int) error {
	fd, err := openFile(root, overrides, uid, unix.O_RDWR|unix.O_APPEND)
	if err != nil || fd == nil {
		return err
	}
	defer fd.Close()
	own, err := atomicfile.ReadAll(fd, mostOverrides)
	if errors.Is(err, atomicfile.ErrTooLong) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fd.Write(missingOverrides(own))
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil // dpkg then reports the missing file
	}
	return err
}

// missingOverrides returns the lines that a list lacks.
func missingOverrides(own []byte) []byte {
	var has []string
	for line := range strings.Lines(string(own)) {
		if f := strings.Fields(line); len(f) == 4 {
			has = append(has, f[3])
		}
	}
	var b bytes.Buffer
	if len(own) > 0 && own[len(own)-1] != '\n' {
		b.WriteByte('\n')
	}
	for line := range strings.Lines(setID) {
		if f := strings.Fields(line); f[0] != "#" && !slices.Contains(has, f[3]) {
			b.WriteString(line)
		}
	}
	return b.Bytes()
}
