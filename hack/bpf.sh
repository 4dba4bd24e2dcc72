#!/bin/sh
# Compiles the eBPF programs (runtime/observe/ebpf/src) to runtime/observe/ebpf/programs.o, which is committed: no other build needs a compiler for them.
#
#   hack/bpf.sh          compile
#   hack/bpf.sh --check  compile elsewhere, and fail if the committed file is another; without a clang of this version, only report that
#
# The same version gives the same bytes: Debian 12's packages clang-14 and llvm-14.
set -eu
version=14

dir=$(cd "$(dirname "$0")/../runtime/observe/ebpf" && pwd)
if ! command -v clang-$version >/dev/null 2>&1 || ! command -v llvm-strip-$version >/dev/null 2>&1; then
	echo "bpf: no clang-$version and llvm-$version here (Debian 12 has them)"
	[ "${1:-}" = --check ] && exit 0
	exit 1
fi
out=$dir/programs.o
if [ "${1:-}" = --check ]; then
	out=$(mktemp)
	trap 'rm -f "$out"' EXIT
fi
# From the directory itself, so that no path of this machine is in the object.
cd "$dir"
clang-$version -target bpfel -mcpu=v3 -O2 -g -Wall -Werror -fno-ident -ffile-prefix-map="$dir=." -c src/programs.c -o "$out"
llvm-strip-$version -g "$out"
if [ "${1:-}" = --check ]; then
	cmp "$out" programs.o || { echo "bpf: runtime/observe/ebpf/programs.o is not what runtime/observe/ebpf/src compiles to (remedy: make bpf)"; exit 1; }
	echo "bpf: runtime/observe/ebpf/programs.o is what its source compiles to"
fi
