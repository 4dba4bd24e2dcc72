#!/bin/sh
# Builds one of the programs that go.mod here fixes the versions of, and prints where it is.
#
#   hack/tools/build.sh runc             the newest runc; needs gcc, pkg-config and libseccomp's headers
#   hack/tools/build.sh runc-vulnerable  one with known holes (vulnerable/go.mod), and without its protection of itself
#   hack/tools/build.sh containerd       the newest containerd (containerd/go.mod), with ctr and its own shim beside it
#   hack/tools/build.sh dockerd          Docker 29 (dockerd/go.mod), with docker-proxy beside it; takes two minutes of processor time
#   hack/tools/build.sh runsc            gVisor's (gvisor/go.mod), to compare with; takes minutes
#   hack/tools/build.sh kubernetes       a cluster's programs in one (kubernetes/main.go); takes seven minutes of processor time
#   hack/tools/build.sh crio             CRI-O (crio/go.mod), with pinns beside it; takes two and a half minutes of processor time
#   hack/tools/build.sh nfpm             writes packages (hack/release)
#   hack/tools/build.sh CLIENT           a container client of tests/clients: act, docker-compose, nerdctl (a go.mod each),
#                                        testcontainers (a program of ours over the module), devcontainer (npm's)
#
# What was built is kept outside the checkout, in $AGENTJAIL_TOOLS or /var/cache/agentjail-tests/tools, under a name with
# the hash of everything it was made from; a second call only prints the path. A delegate has to lie where only root can
# write, so run this as root for one.
set -eu

cd "$(dirname "$0")"
script=$PWD/build.sh
tool=${1:?usage: hack/tools/build.sh NAME}
own= npm= # our own files that it is made from; whether npm installs it
flags=    # for go build, as GOFLAGS has them
case $tool in
runc)
	package=github.com/opencontainers/runc
	# As runc's Makefile does, without libpathrs, which Debian 12 has not.
	tags='seccomp urfave_cli_no_docs'
	mode=pie link=
	sources=
	also= cgo=1
	;;
runc-vulnerable)
	cd vulnerable
	package=github.com/opencontainers/runc
	# Static, as its makers' own releases: an exploit has it run in an image without libraries.
	tags='seccomp urfave_cli_no_docs netgo osusergo'
	mode=exe link='-extldflags -static'
	sources=cloned_binary.c
	also= cgo=1
	;;
containerd)
	cd containerd
	package=github.com/containerd/containerd/v2/cmd/containerd
	# Without the snapshotters that need C libraries; with CRI.
	tags='no_btrfs no_devmapper no_zfs urfave_cli_no_docs netgo osusergo'
	mode=exe link=
	sources=
	also='ctr containerd-shim-runc-v2' cgo=0
	;;
dockerd)
	cd dockerd
	package=github.com/moby/moby/v2/cmd/dockerd
	# The module's own number is not the engine's, by which clients and we decide what it can do.
	link='-X github.com/moby/moby/v2/dockerversion.Version=29.9.3'
	tags='netgo osusergo' mode=exe
	sources=
	also=docker-proxy cgo=0
	;;
crio)
	cd crio
	package=github.com/cri-o/cri-o/cmd/crio
	# Without the storage drivers and the signatures that need C libraries, and as little of the compiler's work as kubernetes below.
	tags='containers_image_openpgp containers_image_ostree_stub exclude_graphdriver_btrfs exclude_graphdriver_zfs btrfs_noversion netgo osusergo'
	flags="'-gcflags=all=-l -dwarf=false'"
	mode=exe link= sources= also= cgo=0
	;;
runsc)
	cd gvisor
	package=gvisor.dev/gvisor/runsc
	# The day of the release, which the module's own number has, too: check compares it with the pin.
	link='-X gvisor.dev/gvisor/runsc/version.version=release-20260905.0'
	tags=
	mode=exe
	sources=
	also= cgo=0
	;;
act)
	cd act
	package=github.com/nektos/act
	tags= mode=exe link= sources= also= cgo=0
	;;
docker-compose)
	cd compose
	package=github.com/docker/compose/v2/cmd
	tags= mode=exe link= sources= also= cgo=0
	;;
nerdctl)
	cd nerdctl
	package=github.com/containerd/nerdctl/v2/cmd/nerdctl
	tags= mode=exe link= sources= also= cgo=0
	;;
nfpm)
	cd nfpm
	package=github.com/goreleaser/nfpm/v2/cmd/nfpm
	tags= mode=exe link= sources= also= cgo=0
	;;
testcontainers)
	cd testcontainers
	package=agentjail.dev/hack/tools/testcontainers
	own=main.go
	tags= mode=exe link= sources= also= cgo=0
	;;
kubernetes)
	cd kubernetes
	package=agentjail.dev/hack/tools/kubernetes
	own=main.go
	# Components that do not know their version refuse each other.
	k8s=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
	minor=${k8s#v1.}
	link="-X k8s.io/component-base/version.gitVersion=$k8s -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"
	# Without inlining and debugging information it compiles in two thirds of the time. A cluster of one node waits for other things.
	flags="'-gcflags=all=-l -dwarf=false'"
	tags= mode=exe sources= also= cgo=0
	;;
devcontainer)
	cd devcontainer
	npm=yes own='package.json package-lock.json'
	sources=
	;;
*)
	echo "build.sh: no tool is called $tool" >&2
	exit 1
	;;
esac

cache=${AGENTJAIL_TOOLS:-/var/cache/agentjail-tests/tools}
if [ -n "$npm" ]; then modules='' toolchain=node\ --version; else modules='go.mod go.sum' toolchain=go\ version; fi
# What links a C library depends on it.
linked() { [ "${cgo:-0}" = 0 ] || pkg-config --modversion libseccomp; }
# recipe is how it is made. What another tool has in this script is no reason to build this one again.
recipe() { echo "$tool ${package:-} ${tags:-} ${mode:-} ${link:-} ${also:-} ${cgo:-}${flags:+ $flags}"; sed -n '/^build_go() {/,/^}/p; /^install_npm() {/,/^}/p' "$script"; [ "$tool" != crio ] || sed -n '/^build_pinns() {/,/^}/p' "$script"; }
# shellcheck disable=SC2086 # lists of names
sum=$( (cat $modules $sources $own; recipe; $toolchain; linked) | sha256sum | cut -c1-16)
# build_go compiles the program, and those beside it, into $tmp.
build_go() {
	version=$(go list -f '{{.Module.Version}}' "$package")
	set -- # further flags
	if [ "$tool" = kubernetes ]; then
		# Three gigabytes that nothing else has a use for. What a build that was cut short has done is not lost.
		GOCACHE=$cache/.kubernetes-objects
		export GOCACHE
	fi
	if [ -n "$sources" ]; then
		# Go builds a changed module only from a directory of its own.
		go mod download "$package"
		cp -r "$(go list -m -f '{{.Dir}}' "$package")" "$tmp/src"
		chmod -R u+w "$tmp/src"
		for f in $sources; do cp "$f" "$(find "$tmp/src" -name "$f")"; done
		cp go.mod "$tmp/alt.mod"
		cp go.sum "$tmp/alt.sum"
		go mod edit -replace="$package=$tmp/src" "$tmp/alt.mod"
		set -- -modfile="$tmp/alt.mod"
	fi
	for name in "$tool" $also; do
		p=$package
		[ "$name" = "$tool" ] || p=${package%/*}/$name
		CGO_ENABLED=$cgo nice go build "$@" -trimpath -buildmode="$mode" -tags "$tags" -ldflags "-s -w -X main.version=${version#v} $link" -o "$tmp/$name" "$p" >&2
	done
	rm -rf "$tmp/src" "$tmp"/alt.*
	[ "$tool" != kubernetes ] || rm -rf "$GOCACHE"
}

# build_pinns compiles what CRI-O has make the namespaces of pods, a program in C.
build_pinns() {
	src=$(go list -m -f '{{.Dir}}' github.com/cri-o/cri-o)/pinns/src
	gcc -std=c99 -Os -Wall -static -s -o "$tmp/pinns" "$src"/*.c
}

# install_npm installs the package that package-lock.json fixes into $tmp, and links the program.
install_npm() {
	cp package.json package-lock.json "$tmp"
	npm ci --prefix "$tmp" --no-audit --no-fund --ignore-scripts >&2
	ln -s "node_modules/.bin/$tool" "$tmp/$tool"
}

out=$cache/$tool-$sum/$tool
if [ ! -x "$out" ]; then
	umask 022
	mkdir -p "$cache"
	# A second caller waits for the first, and finds what that has built.
	exec 9>"$cache/.$tool.lock"
	flock 9
fi
if [ ! -x "$out" ]; then
	echo "build.sh: building $tool, once" >&2
	# Built beside its place and renamed: a broken build leaves nothing to be found.
	[ -z "$flags" ] || export GOFLAGS="$(go env GOFLAGS) $flags"
	tmp=$(mktemp -d "$cache/.$tool.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	chmod 755 "$tmp"
	if [ -n "$npm" ]; then install_npm; else build_go; fi
	[ "$tool" != crio ] || build_pinns
	mv -T "$tmp" "$cache/$tool-$sum" 2>/dev/null || [ -x "$out" ]
fi
echo "$out"
