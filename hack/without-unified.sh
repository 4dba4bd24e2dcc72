#!/bin/sh
# Runs a command where no version 2 hierarchy of control groups with controllers lies beside those of version 1.
#
#   hack/without-unified.sh COMMAND [ARGUMENT...]
#
# crun does not run in that layout. On machines that have it, the version 1 hierarchies are mounted anew by themselves, in a
# mount namespace of the command's own. Put it behind hack/with-cgroups.sh.
set -eu

[ -n "$(cat /sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null)" ] || exec "$@"
# shellcheck disable=SC2016 # for the inner shell
exec unshare --mount --propagation private sh -euc '
	v1=$(awk "\$3 == \"cgroup\" && \$2 ~ \"^/sys/fs/cgroup/\" { n = split(\$4, o, \",\"); opts = \"\"
		for (i = 1; i <= n; i++) if (o[i] !~ /^(rw|ro|relatime|nosuid|nodev|noexec|xattr|release_agent=.*)$/) opts = opts \",\" o[i]
		if (opts ~ /name=/) opts = \",none\" opts
		print \$2, substr(opts, 2) }" /proc/mounts)
	umount --recursive --lazy /sys/fs/cgroup
	mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
	echo "$v1" | while read -r dir opts; do mkdir -p "$dir"; mount -t cgroup -o "$opts" cgroup "$dir"; done
	exec "$@"' sh "$@"
