#!/bin/sh
# Runs a command where cgroup controllers are mounted.
#
#   hack/with-cgroups.sh COMMAND [ARGUMENT...]
#
# On most machines they are, and the command simply runs. On a bare one (a container, a minimal virtual machine) they
# are mounted first, in a mount namespace that only the command sees: the machine stays as it is.
set -eu

usable() {
	# v2 with controllers, or at least the v1 controllers that Docker insists on.
	# The file's size is always 0: it has to be read.
	[ -n "$(cat /sys/fs/cgroup/cgroup.controllers 2>/dev/null)" ] ||
		{ [ -d /sys/fs/cgroup/pids ] && [ -d /sys/fs/cgroup/memory ] && [ -d /sys/fs/cgroup/devices ] && [ -e /sys/fs/cgroup/devices/tasks ]; }
}

if [ -z "${AGENTJAIL_PRIVATE_CGROUPS:-}" ]; then
	if usable; then exec "$@"; fi
	if [ "$(id -u)" != 0 ]; then
		echo "cgroups: no controllers are mounted on /sys/fs/cgroup, and mounting them needs root" >&2
		exit 1
	fi
	echo "cgroups: no controllers are mounted on /sys/fs/cgroup; mounting them for this command only" >&2
	AGENTJAIL_PRIVATE_CGROUPS=1 exec unshare --mount --propagation private "$0" "$@"
fi

# Inside the private mount namespace. Version 2 when the kernel has its controllers free for it, else version 1.
v1=$(awk '!/^#/ && $2 != 0 && $4 == 1 { print $1 }' /proc/cgroups)
mkdir -p /sys/fs/cgroup
if [ -z "$v1" ] && mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null && [ -n "$(cat /sys/fs/cgroup/cgroup.controllers)" ]; then
	# Processes may not sit beside controlled groups: this shell moves to a leaf ("no internal processes", cgroups(7)).
	mkdir -p /sys/fs/cgroup/init
	for p in $(cat /sys/fs/cgroup/cgroup.procs); do echo "$p" >/sys/fs/cgroup/init/cgroup.procs 2>/dev/null || true; done
	for c in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true; done
else
	umount /sys/fs/cgroup 2>/dev/null || true
	mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
	for c in cpuset cpu cpuacct blkio memory devices freezer pids; do
		mkdir -p "/sys/fs/cgroup/$c"
		mount -t cgroup -o "$c" cgroup "/sys/fs/cgroup/$c" 2>/dev/null || rmdir "/sys/fs/cgroup/$c"
	done
fi
if ! usable; then
	echo "cgroups: this kernel's controllers cannot be mounted; docker cannot limit anything and will not start" >&2
	exit 1
fi
unset AGENTJAIL_PRIVATE_CGROUPS
exec "$@"
