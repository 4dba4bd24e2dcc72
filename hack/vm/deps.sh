#!/bin/sh
# Installs what the virtual-machine lane needs on Debian 12 or 13: QEMU 10, debootstrap, ext4 tools.
#
#   hack/vm/deps.sh          install what is missing
#   hack/vm/deps.sh --check  only print what is missing; exit status 1 when something is
#
# QEMU must be 10 or newer: 7.2, Debian 12's own, loses Linux 6.12 under emulation (it gets cmpxchg16b wrong). On
# Debian 12 it comes from bookworm-backports; that source is added when it is not there, and only for this.
set -eu

say() { echo "vm: $*"; }
PATH=$PATH:/usr/sbin:/sbin

# major prints the major version of the QEMU that is installed, or 0.
major() {
	v=$(qemu-system-x86_64 --version 2>/dev/null | sed -n '1s/.*version \([0-9]*\).*/\1/p')
	echo "${v:-0}"
}

missing=
command -v debootstrap >/dev/null 2>&1 || missing="$missing debootstrap"
command -v mkfs.ext4 >/dev/null 2>&1 || missing="$missing e2fsprogs"
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
qemu=
[ "$(major)" -ge 10 ] || qemu="qemu-system-x86 qemu-utils"
command -v qemu-img >/dev/null 2>&1 || qemu="qemu-system-x86 qemu-utils"

[ -n "$missing$qemu" ] || exit 0
say "missing: $missing $qemu"
[ "${1:-}" != --check ] || exit 1
[ "$(id -u)" = 0 ] || { say "run this as root"; exit 1; }
command -v apt-get >/dev/null 2>&1 || { say "this is no Debian: install QEMU 10 or newer, debootstrap and e2fsprogs by hand"; exit 1; }

apt() {
	nice -n 10 env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 \
		-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

# candidate prints the major version of the QEMU that apt would install from release $1, or nothing.
candidate() {
	apt-cache madison qemu-system-x86 2>/dev/null | awk -F '|' -v r="$1" 'index($3, r) { split($2, v, /[:.+]/); print v[2]; exit }' | tr -d ' '
}

release=
if [ -n "$qemu" ]; then
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	if [ "$codename" = bookworm ]; then
		release=bookworm-backports
		if [ -z "$(candidate $release)" ]; then
			# The mirror that this machine takes Debian from already.
			# shellcheck disable=SC2016 # the names are apt's
			mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Release: bookworm' 2>/dev/null | head -n 1)
			[ -n "$mirror" ] || { say "cannot tell which mirror this machine uses"; exit 1; }
			say "adding $release from $mirror"
			echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" \
				>/etc/apt/sources.list.d/agentjail-backports.list
			apt update
		fi
	fi
fi

# shellcheck disable=SC2086 # the lists are meant to be split
{
	[ -z "$missing" ] || apt install $missing
	[ -z "$qemu" ] || apt install ${release:+-t $release} $qemu
}
[ "$(major)" -ge 10 ] || { say "QEMU is still version $(major): 10 or newer is needed"; exit 1; }
say "done"
