#!/bin/sh
# The unit tests as an ordinary user, run by root: hack/quick.sh [FLAGS] PACKAGE...
#
# The clone and Go's caches may lie where that user cannot read (a clone with umask 077, root's home). So root compiles, and the
# user gets a directory with the test programs (hack/as-user.sh), a copy of the source tree to run them in, and the programs of
# the module that tests start.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$top"
umask 022
AGENTJAIL_AS_USER=$(mktemp -d)
export AGENTJAIL_AS_USER
trap 'rm -rf "$AGENTJAIL_AS_USER"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$AGENTJAIL_AS_USER"
mkdir "$AGENTJAIL_AS_USER/src"
setpriv --reuid=12345 --regid=12345 --clear-groups test -r "$AGENTJAIL_AS_USER/src" ||
	{ echo "$0: an ordinary user cannot read ${TMPDIR:-/tmp} (remedy: another TMPDIR)" >&2; exit 1; }

export CGO_ENABLED=0
"${GO:-go}" build -buildvcs=false -trimpath -tags=urfave_cli_no_docs '-ldflags=-s -w' -o "$AGENTJAIL_AS_USER/programs/" ./cmd/...
tar -cf "$AGENTJAIL_AS_USER/src.tar" --exclude=./.git --exclude=./bin --exclude=./dist --mode=a+rX .
tar -xf "$AGENTJAIL_AS_USER/src.tar" -C "$AGENTJAIL_AS_USER/src" --no-same-owner
rm "$AGENTJAIL_AS_USER/src.tar"
"${GO:-go}" test -exec "$top/hack/as-user.sh" "$@"
