#!/bin/sh
# Compiles the program that stands in for a network helper until it is needed (runtime/network/names/internal/activator/src), for both machines.
# The results are committed: no other build needs a compiler for them.
#
#   hack/activator.sh          compile
#   hack/activator.sh --check  compile elsewhere, and fail if a committed file is another; without a clang of this version, only report that
#
# The same version gives the same bytes: Debian 12's packages clang-14, lld-14 and llvm-14.
set -eu
version=14

dir=$(cd "$(dirname "$0")/../runtime/network/names/internal/activator" && pwd)
for tool in clang-$version ld.lld-$version llvm-objcopy-$version; do
	command -v $tool >/dev/null 2>&1 && continue
	echo "activator: no $tool here (Debian 12 has it, in clang-$version, lld-$version or llvm-$version)"
	[ "${1:-}" = --check ] && exit 0
	exit 1
done
out=$dir
if [ "${1:-}" = --check ]; then
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
fi
# From the directory itself, so that no path of this machine is in the result.
cd "$dir"
for machine in amd64:x86_64 arm64:aarch64; do
	file=activator.${machine%%:*}
	clang-$version --target="${machine#*:}"-linux-gnu -Os -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-stack-protector \
		-fno-asynchronous-unwind-tables -fno-ident -idirafter "/usr/include/$(uname -m)-linux-gnu" -nostdlib -static --ld-path="$(command -v ld.lld-$version)" \
		-Wl,--build-id=none,-z,noseparate-code,-z,norelro,-s -o "$out/$file" src/activator.c
	llvm-objcopy-$version --remove-section=.comment "$out/$file"
	[ "${1:-}" != --check ] || cmp "$out/$file" "$file" ||
		{ echo "activator: $dir/$file is not what its source compiles to (remedy: make activator)"; exit 1; }
done
[ "${1:-}" != --check ] || echo "activator: the committed programs are what their source compiles to"
