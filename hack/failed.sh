#!/bin/sh
# Says what failed in the output of go test -v, for the end of a run that is too long to read, and exits with status 1: hack/failed.sh LOG.
# What the tests said comes first, and their names last.
set -eu
echo
echo "what failed in $1:"
awk -f "$(dirname "$0")/brief.awk" "$1" | grep -av -e '^ok[[:space:]]' -e '^?[[:space:]]' || true
echo
echo "failed:"
grep -a -e '^ *--- FAIL' -e '^panic: ' -e '^FAIL[[:space:]]' "$1" || tail -n 3 "$1"
exit 1
