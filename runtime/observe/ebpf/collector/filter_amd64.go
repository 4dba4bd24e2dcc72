package collector

import "golang.org/x/sys/unix"

// olderCalls are those that Go makes on this machine in place of later ones.
var olderCalls = []uint32{
	unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_RMDIR,
	unix.SYS_POLL,
}
