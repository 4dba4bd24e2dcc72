#!/bin/sh
# Runs a command whose agentjail is alone on the machine: with records, ledgers, settings, journals, named network namespaces,
# pinned programs and host ids of its own. What other jails leave, sweep or reclaim meanwhile is not the command's, and what the command's jails do is not theirs.
#
#   hack/alone.sh COMMAND [ARGUMENT...]
#
# Put it behind hack/with-cgroups.sh. An ordinary user has directories of their own as it is.
set -eu

[ "$(id -u)" = 0 ] || exec "$@"
# The run of ids before agentjail's default pool, which systemd's list has as unused, too (UIDS-GIDS.md).
export AGENTJAIL_POOL=1879048192:134217728
# Where mounts are shared (systemd makes them so), those of the command are, too, but with no one else.
shared=
! grep -q '^[^ ]* [^ ]* [^ ]* / / .* shared:' /proc/self/mountinfo || shared=yes
# shellcheck disable=SC2016 # for the inner shell
exec unshare --mount --propagation private sh -euc '
	while read -r dir mode; do
		mkdir -p -m "$mode" "$dir"
		mount -t tmpfs -o "mode=$mode,nosuid,nodev" agentjail "$dir"
	done <<-END
	/run/agentjail 711
	/run/agentjail-journal 755
	/var/lib/agentjail 700
	/var/log/agentjail 700
	/etc/agentjail 755
	/run/netns 755
	END
	if mountpoint -q /sys/fs/bpf; then mount -t bpf -o mode=700 bpf /sys/fs/bpf; fi
	[ -z "$1" ] || mount --make-rshared /
	shift
	exec "$@"' sh "$shared" "$@"
