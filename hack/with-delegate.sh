#!/bin/sh
# Runs a command in which the tests give agentjail a certain delegate.
#
#   hack/with-delegate.sh NAME COMMAND [ARGUMENT...]
#
# NAME is runc (the distribution's), runc-new (the one that hack/tools builds), crun, an absolute path, or auto: then
# agentjail chooses. Put it behind hack/with-cgroups.sh. What lies in the tests' own policies goes before.
#
# crun does not run beside a version 2 hierarchy that has controllers while version 1 has the others: the latter are mounted
# anew without it, in a mount namespace of the command's own.
set -eu

name=${1:?usage: hack/with-delegate.sh NAME COMMAND...}
here=$(dirname "$0")
PATH=$PATH:/usr/sbin:/sbin
case $name in
auto) path= ;;
runc | crun) path=$(command -v "$name") || { echo "with-delegate: $name is not installed" >&2; exit 1; } ;;
runc-new) path=$("$here/tools/build.sh" runc) ;;
/*) path=$name ;;
*) echo "with-delegate: no delegate is called $name" >&2; exit 1 ;;
esac
if [ "$name" = crun ] && [ -n "$(cat /sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null)" ]; then
	shift
	# shellcheck disable=SC2016 # for the inner shell
	AGENTJAIL_DELEGATE=$path exec unshare --mount --propagation private sh -euc '
		v1=$(awk "\$3 == \"cgroup\" && \$2 ~ \"^/sys/fs/cgroup/\" { n = split(\$4, o, \",\"); opts = \"\"
			for (i = 1; i <= n; i++) if (o[i] !~ /^(rw|ro|relatime|nosuid|nodev|noexec|xattr|release_agent=.*)$/) opts = opts \",\" o[i]
			if (opts ~ /name=/) opts = \",none\" opts
			print \$2, substr(opts, 2) }" /proc/mounts)
		umount --recursive --lazy /sys/fs/cgroup
		mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
		echo "$v1" | while read -r dir opts; do mkdir -p "$dir"; mount -t cgroup -o "$opts" cgroup "$dir"; done
		exec "$@"' sh "$@"
fi
shift
AGENTJAIL_DELEGATE=$path exec "$@"
