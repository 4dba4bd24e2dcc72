#!/bin/sh
# Runs a command in which the tests give agentjail a certain delegate.
#
#   hack/with-delegate.sh NAME COMMAND [ARGUMENT...]
#
# NAME is runc (the distribution's), runc-new (the one that hack/tools builds), crun, runsc (hack/tools'), an absolute path, or
# auto: then agentjail chooses. Put it behind hack/with-cgroups.sh. What lies in the tests' own policies goes before.
#
# crun runs without the hierarchy that it refuses (hack/without-unified.sh).
set -eu

name=${1:?usage: hack/with-delegate.sh NAME COMMAND...}
here=$(dirname "$0")
PATH=$PATH:/usr/sbin:/sbin
case $name in
auto) path= ;;
runc | crun) path=$(command -v "$name") || { echo "with-delegate: $name is not installed" >&2; exit 1; } ;;
runc-new) path=$("$here/tools/build.sh" runc) ;;
runsc) path=$("$here/tools/build.sh" runsc) ;;
/*) path=$name ;;
*) echo "with-delegate: no delegate is called $name" >&2; exit 1 ;;
esac
shift
[ "${name##*/}" != crun ] || set -- "$here/without-unified.sh" "$@"
AGENTJAIL_DELEGATE=$path exec "$@"
