package apply

import "golang.org/x/sys/unix"

// statCall is fstatat(2) of this machine.
const statCall = unix.SYS_FSTATAT
