#!/bin/sh
# Compiles the eBPF programs (runtime/observe/ebpf/src) to files that are committed: no other build needs a compiler for them.
#
#   hack/bpf.sh          compile
#   hack/bpf.sh --check  compile elsewhere, and fail if a committed file is another; without a clang of this version, only report that
#
# The same version gives the same bytes: Debian 12's packages clang-14 and llvm-14.
set -eu
version=14

cd "$(dirname "$0")/.."
if ! command -v clang-$version >/dev/null 2>&1 || ! command -v llvm-strip-$version >/dev/null 2>&1; then
	echo "bpf: no clang-$version and llvm-$version here (Debian 12 has them)"
	[ "${1:-}" = --check ] && exit 0
	exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# put FILE TO: the compiled FILE is that of the project at TO.
put() {
	if [ "$check" ]; then
		cmp "$tmp/$1" "$2" || { echo "bpf: $2 is not what runtime/observe/ebpf/src compiles to (remedy: make bpf)"; exit 1; }
	else
		cp "$tmp/$1" "$2"
	fi
}
check=${1:-}
src=runtime/observe/ebpf/src

for name in programs calls lookup; do
	# From the directory itself, so that no path of this machine is in the object.
	(cd "$src/.." && clang-$version -target bpfel -mcpu=v3 -O2 -g -Wall -Werror -fno-ident -ffile-prefix-map="$PWD=." -c "src/$name.c" -o "$tmp/$name.o")
	llvm-strip-$version -g "$tmp/$name.o"
done
put programs.o $src/../programs.o
put calls.o runtime/observe/learn/record/calls.o
for name in range ports; do
	llvm-objcopy-$version -O binary --only-section=sk_lookup/$name "$tmp/lookup.o" "$tmp/$name.bpf"
	put $name.bpf runtime/network/names/internal/jailsock/$name.bpf
done
[ -z "$check" ] || echo "bpf: the committed programs are what their source compiles to"
