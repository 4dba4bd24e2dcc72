#!/bin/sh
# Runs a command, and in the background, as root, another that takes long, with about a tenth of the processor time where others want it:
# with none at all, on a machine with other work, it would never end.
#
#   hack/background.sh NAME OTHER COMMAND [ARGUMENT...]
#
# OTHER is a shell's command line. Its output is in NAME.log, and is shown when the command has ended. While the command runs, there is a
# file NAME.running. When the command fails, the other is stopped; when it succeeds, the other goes on, and the exit status
# is its.
#
# With BUDGET (hack/testlane) the other is stopped when those minutes are over, which is reported, and listed in dist/left-out. It has failed then
# if a line of its log reports it ("ends with status 1").
set -eu

if [ "${1:-}" = --other ]; then
	# In a session of its own. The kernel weighs sessions against each other, and processes only within one (sched(7), autogroups).
	trap 'trap "" TERM; kill 0; wait; exit 143' TERM
	[ ! -w /proc/self/autogroup ] || echo 10 >/proc/self/autogroup
	nice -n 10 sh -c "$2" &
	wait $! && exit 0 || exit $?
fi

name=$1 other=$2
shift 2
mkdir -p "$(dirname "$name")"
as_root=
if [ "$(id -u)" != 0 ]; then as_root="sudo env PATH=$PATH GOPROXY=$(go env GOPROXY)"; fi
: >"$name.running"
# shellcheck disable=SC2086 # the words of a command
$as_root setsid --wait "$0" --other "$other" >"$name.log" 2>&1 </dev/null &
background=$!
# stop stops the background command, and waits for its end.
stop() {
	rm -f "$name.running"
	kill "$background" 2>/dev/null || true
	wait "$background" || true
}
trap 'stop; exit 1' HUP INT TERM
status=0
"$@" || status=$?
if [ "$status" != 0 ]; then
	echo "background: failed, with status $status: $*" >&2
	stop
	echo "background: stopped; its output is in $name.log: $other" >&2
	exit "$status"
fi
rm -f "$name.running"
echo "background: the rest is in $name.log: $other"
if [ -n "${BUDGET:-}" ]; then
	over=$((BEGAN + BUDGET * 60 - $(date +%s)))
	[ "$over" -gt 0 ] || over=1
	timeout "$over" tail --pid="$background" -n +1 -f "$name.log" || true
	if kill -0 "$background" 2>/dev/null; then
		stop
		echo "LEFT OUT, since $BUDGET minutes are over: what has not ended in $name.log of: $other" | tee -a dist/left-out
		! grep -a 'ends with status [1-9]' "$name.log" || status=1
		exit "$status"
	fi
else
	tail --pid="$background" -n +1 -f "$name.log"
fi
also=0
wait "$background" || also=$?
[ "$also" = 0 ] || echo "background: failed, with status $also; its output is in $name.log: $other" >&2
exit "$also"
