#!/bin/sh
# Run a test program as an ordinary user, in a copy of the source tree: for hack/quick.sh, which makes what is needed here in
# the directory $AGENTJAIL_AS_USER.
#
# go leaves the program in a directory that only its own user enters, so a copy is run.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd -P)
here=$(pwd -P)
dir=$(mktemp -d -p "$AGENTJAIL_AS_USER")
trap 'rm -rf "$dir" || true' EXIT
chmod 755 "$dir"
program=$dir/$(basename "$1")
install -m 755 "$1" "$program"
shift
mkdir -m 1777 "$dir/tmp"
cd "$AGENTJAIL_AS_USER/src${here#"$top"}"
export TMPDIR="$dir/tmp" HOME="$dir/tmp" AGENTJAIL_TEST_PROGRAMS="$AGENTJAIL_AS_USER/programs"
setpriv --reuid=12345 --regid=12345 --clear-groups --inh-caps=-all -- "$program" "$@"
