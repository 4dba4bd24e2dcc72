#!/bin/sh
# Runs a command that is a part of the tests, unless the time for all of them is nearly over (make test BUDGET=MINUTES): a run that is killed
# from outside says nothing of what it has found.
#
#   hack/within.sh NAME COMMAND [ARGUMENT...]
#
# What is left out is printed, and listed in dist/left-out. BEGAN is when the tests began, and BUDGET how many minutes they may take; none is as
# long as they need. A part is begun in the first nine tenths of them.
set -eu
name=$1
shift
if [ -n "${BUDGET:-}" ] && [ $(($(date +%s) - BEGAN)) -gt $((BUDGET * 54)) ]; then
	echo "LEFT OUT, since nine tenths of $BUDGET minutes are over: $name (run it by itself: make $name)" | tee -a dist/left-out
	exit 0
fi
exec "$@"
