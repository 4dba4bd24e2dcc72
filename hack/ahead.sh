#!/bin/sh
# Runs a command, and beside it what makes ahead what the command's tests would wait for (hack/ahead), with about a tenth of the
# processor time where others want it: none at all, on a machine with other work, would have tests wait for what never ends.
#
#   hack/ahead.sh LOG COMMAND [ARGUMENT...]
#
# The exit status is the command's. When it ends, so does the other.
set -eu

if [ "${1:-}" = --make ]; then
	# In a session of its own. The kernel weighs sessions against each other, and processes only within one (sched(7), autogroups).
	trap 'trap - TERM; kill 0' TERM
	[ ! -w /proc/self/autogroup ] || echo 10 >/proc/self/autogroup
	nice -n 10 "$2" &
	wait $!
	exit
fi

log=$1
shift
mkdir -p "$(dirname "$log")"
program=$(dirname "$log")/ahead
CGO_ENABLED=0 go build -trimpath -o "$program" ./hack/ahead
as_root=
if [ "$(id -u)" != 0 ]; then as_root="sudo env PATH=$PATH GOPROXY=$(go env GOPROXY)"; fi
# shellcheck disable=SC2086 # the words of a command
$as_root setsid --wait "$0" --make "$program" >"$log" 2>&1 </dev/null &
ahead=$!
trap 'kill "$ahead" 2>/dev/null; exit 1' HUP INT TERM
"$@" && status=0 || status=$?
kill "$ahead" 2>/dev/null || true
wait "$ahead" || true
exit "$status"
