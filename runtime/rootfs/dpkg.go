package rootfs

import (
	"bytes"
	"errors"
	"fmt"
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

// setID are Debian's programs with a set-id bit or a group of their own, in packages that other
// packages depend on. No jail can set either, and dpkg fails on them, so that the packages could
// be neither installed nor upgraded. The bits have no effect in a jail anyway (no_new_privs).
var setID = []string{
	// login, passwd, util-linux, libpam-modules-bin: upgrades of packages that every image has.
	"/bin/mount", "/bin/su", "/bin/umount", "/sbin/unix_chkpwd", "/usr/bin/chage", "/usr/bin/chfn", "/usr/bin/chsh", "/usr/bin/expiry",
	"/usr/bin/gpasswd", "/usr/bin/mount", "/usr/bin/newgrp", "/usr/bin/passwd", "/usr/bin/su", "/usr/bin/umount", "/usr/sbin/unix_chkpwd",
	// openssh-client, which git recommends.
	"/usr/bin/ssh-agent", "/usr/lib/openssh/ssh-keysign",
	// dbus and polkit, which desktop libraries pull in.
	"/usr/bin/pkexec", "/usr/lib/dbus-1.0/dbus-daemon-launch-helper", "/usr/lib/polkit-1/polkit-agent-helper-1",
	"/usr/bin/crontab", "/usr/bin/fusermount3", "/usr/bin/ntfs-3g", "/usr/bin/ping", "/usr/bin/screen", "/usr/bin/sudo", "/usr/bin/wall", "/usr/bin/write.ul",
	"/usr/bin/plocate", "/usr/lib/chromium/chrome-sandbox", "/usr/lib/xorg/Xorg.wrap", "/usr/sbin/pam_extrausers_chkpwd",
	// man-db's cache belongs to its own user.
	"/var/cache/man",
}

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
	for _, path := range setID {
		if !slices.Contains(has, path) {
			fmt.Fprintf(&b, "root root 755 %s\n", path)
		}
	}
	return b.Bytes()
}
