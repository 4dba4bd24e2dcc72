#!/bin/sh
# Runs a command whose agentjail is alone on the machine: with records, ledgers, settings, journals, named network namespaces,
# pinned programs and host ids of its own. What other jails leave, sweep or reclaim meanwhile is not the command's, and what the command's jails do is not theirs.
#
#   hack/alone.sh [--disk] COMMAND [ARGUMENT...]
#
# All of it is in memory; with --disk what a host has on disk is on disk, for measurements.
#
# It first ends and removes what runs left that were killed: jails, empty control groups, directories of an hour ago. Nothing is removed
# while another run lives.
#
# Put it behind hack/with-cgroups.sh. An ordinary user has directories of their own as it is.
set -eu

disk=
if [ "$1" = --disk ]; then
	disk=yes
	shift
fi
[ "$(id -u)" = 0 ] || exec "$@"
# The run of ids before agentjail's default pool, which systemd's list has as unused, too (UIDS-GIDS.md). Each run has a part of it, in
# blocks as jails have, and a lock on that part while it lives.
first=1879048192 block=65536 blocks=2048
locks=/run/lock/agentjail-alone
mkdir -p "$locks"

# take takes part $1, of $3 blocks from $2 on, unless another run has it. With no -n it waits for that.
take() {
	exec 9>"$locks/$1"
	flock ${4-} 9 || return 1
	part=$1
	export AGENTJAIL_POOL=$((first + $2 * block)):$(($3 * block))
}

take 1 0 1024 -n || take 2 1024 512 -n || take 3 1536 512 -n || {
	echo "alone: waiting: three other runs live" >&2
	take 1 0 1024
}

# lives reports whether another run does.
lives() {
	for other in 1 2 3; do
		[ $other = "$part" ] || flock -n "$locks/$other" true || return 0
	done
	return 1
}

# reclaim removes what is left where no run lives.
reclaim() {
	! lives || return 0
	for process in $(ps -eo pid=,uid= | awk -v first="$first" -v end="$((first + blocks * block))" '$2 >= first && $2 < end { print $1 }'); do
		echo "alone: killing process $process, which a killed run left: $(ps -o args= -p "$process")" >&2
		kill -KILL "$process" 2>/dev/null || true
	done
	find /sys/fs/cgroup -depth -type d \( -name 'agentjail-*' ! -name 'agentjail-egress-*' -o -name 'agentjail-egress-*-agentjail-*' \) -exec rmdir {} + 2>/dev/null || true
	# What engines left is theirs to sweep (tests/engine).
	find /tmp /var/tmp -mindepth 1 -maxdepth 1 -type d -user root -name 'agentjail-*' -mmin +60 \
		! -name 'agentjail-test-*' ! -name 'agentjail-vm-*' -exec rm -rf --one-file-system {} + || true
}

reclaim
# Where mounts are shared (systemd makes them so), those of the command are, too, but with no one else.
shared=
! grep -q '^[^ ]* [^ ]* [^ ]* / / .* shared:' /proc/self/mountinfo || shared=yes
if [ -n "$disk" ]; then
	disk=$(mktemp -d /var/tmp/agentjail-alone-XXXXXX)
	trap 'rm -rf --one-file-system "$disk"' EXIT
fi
# shellcheck disable=SC2016 # for the inner shell
unshare --mount --propagation private sh -euc '
	while read -r dir mode; do
		mkdir -p -m "$mode" "$dir"
		case $2$dir in
		/var/tmp/*/var/*)
			mkdir -p -m "$mode" "$2$dir"
			mount --bind "$2$dir" "$dir"
			;;
		*) mount -t tmpfs -o "mode=$mode,nosuid,nodev" agentjail "$dir" ;;
		esac
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
	shift 2
	exec "$@"' sh "$shared" "$disk" "$@" 9>&-
