#!/bin/sh
# Run a test program as an ordinary user: go test -exec hack/as-user.sh ./...
#
# go leaves the program in a directory that only its own user enters, so a copy is run.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
cp "$1" "$dir/"
program=$dir/$(basename "$1")
shift
mkdir -m 1777 "$dir/tmp"
GOFLAGS="${GOFLAGS:-} -buildvcs=false" TMPDIR=$dir/tmp HOME=$dir/tmp setpriv --reuid=12345 --regid=12345 --clear-groups --inh-caps=-all -- "$program" "$@"
