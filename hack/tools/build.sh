#!/bin/sh
# Builds one of the programs that go.mod here fixes the versions of, and prints where it is.
#
#   hack/tools/build.sh runc     the newest runc; needs gcc, pkg-config and libseccomp's headers
#
# What was built is kept outside the checkout, in $AGENTJAIL_TOOLS or /var/cache/agentjail-tests/tools, under a name with
# the hash of everything it was made from; a second call only prints the path. A delegate has to lie where only root can
# write, so run this as root for one.
set -eu

cd "$(dirname "$0")"
tool=${1:?usage: hack/tools/build.sh NAME}
case $tool in
runc)
	package=github.com/opencontainers/runc
	# As runc's Makefile does, without libpathrs, which Debian 12 has not.
	tags='seccomp urfave_cli_no_docs'
	;;
*)
	echo "build.sh: no tool is called $tool" >&2
	exit 1
	;;
esac

cache=${AGENTJAIL_TOOLS:-/var/cache/agentjail-tests/tools}
sum=$( (cat go.mod go.sum build.sh; go version; pkg-config --modversion libseccomp) | sha256sum | cut -c1-16)
out=$cache/$tool-$sum/$tool
if [ ! -x "$out" ]; then
	echo "build.sh: building $tool, once" >&2
	umask 022
	mkdir -p "$cache"
	# Built beside its place and renamed: two callers at once do no harm, and a broken build leaves nothing to be found.
	tmp=$(mktemp -d "$cache/.$tool.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	CGO_ENABLED=1 nice go build -trimpath -buildmode=pie -tags "$tags" -ldflags '-s -w' -o "$tmp/$tool" "$package" >&2
	mv -T "$tmp" "$cache/$tool-$sum" 2>/dev/null || [ -x "$out" ]
fi
echo "$out"
