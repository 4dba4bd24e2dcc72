#!/bin/sh
# Runs a command where agentjail's directory in /run is in memory, as all of /run is on every distribution.
#
#   hack/with-run.sh COMMAND [ARGUMENT...]
#
# On a machine whose /run lies on a disk, each of the small files that a start makes there would be measured as one on that disk.
# The directory is then mounted in a mount namespace of the command's own.
set -eu

[ "$(stat --file-system --format=%T /run)" != tmpfs ] || exec "$@"
# shellcheck disable=SC2016 # for the inner shell
exec unshare --mount --propagation private sh -euc '
	mkdir -p -m 711 /run/agentjail
	mount -t tmpfs -o mode=711,nosuid,nodev agentjail /run/agentjail
	exec "$@"' sh "$@"
