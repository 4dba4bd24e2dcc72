#!/bin/sh
# Builds the root file system of the tests' "work" image: a small Debian with the tools an agent uses.
#
#   work.sh OUT.tar [PACKAGE...]
#
# OUT.tar.stock is the same Debian as debootstrap leaves it, without any of that.
# Runs as root; needs debootstrap and a Debian mirror (AGENTJAIL_DEBIAN_MIRROR, default: debootstrap's own).
# The caller keys its cache by the hash of this file and of the packages, so everything else that the image depends on is
# written here.
# OUT.tar appears only when it is complete.
set -eu

out=$1
shift
suite=bookworm
packages="bash coreutils findutils diffutils grep sed gawk file patch less procps
 git ca-certificates curl xz-utils zip unzip tar gzip bzip2
 python3 python3-venv python3-pytest sqlite3
 nodejs npm
 gcc libc6-dev make golang-go
 iproute2 strace"

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
DEBIAN_FRONTEND=noninteractive
export PATH LC_ALL DEBIAN_FRONTEND
umask 022

work=$(mktemp -d "${out}.build.XXXXXX")
root=$work/root
# One file system, so that a mount which could not be taken down is never walked into.
cleanup() {
	umount "$root/proc" 2>/dev/null || umount -l "$root/proc" 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

debootstrap --variant=minbase "$suite" "$root" ${AGENTJAIL_DEBIAN_MIRROR:-} >&2

tar -C "$root" --numeric-owner --one-file-system --exclude='./var/cache/apt/archives/*.deb' -cf "$work/stock.tar" .

# A chroot is not a booted system: nothing may start there.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"
chroot "$root" apt-get -q update >&2
# What is removed below is not unpacked in the first place, and nothing waits for the disk.
printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' 'path-exclude=/usr/share/locale/*' \
	'path-exclude=/usr/share/info/*' >"$root/etc/dpkg/dpkg.cfg.d/small"
# shellcheck disable=SC2086 # the list is meant to be split
chroot "$root" apt-get -q -y --no-install-recommends install $packages "$@" >&2
rm "$root/etc/dpkg/dpkg.cfg.d/small"
umount "$root/proc"

# The user that stands for a developer's own account.
echo 'app:x:1000:1000:app:/home/app:/bin/bash' >>"$root/etc/passwd"
echo 'app:x:1000:' >>"$root/etc/group"
mkdir -p "$root/home/app"
chown 1000:1000 "$root/home/app"

rm -rf "$root"/var/lib/postgresql/* "$root"/var/lib/mysql/* "$root/var/lib/apt/lists" "$root"/var/cache/apt/* "$root/usr/share/doc" "$root/usr/share/man" \
	"$root/usr/share/locale" "$root/usr/share/info" "$root/usr/sbin/policy-rc.d" "$root"/var/log/* \
	"$root"/usr/lib/go-*/pkg/*_dynlink "$root"/usr/lib/go-*/pkg/*_race "$root"/usr/share/go-*/test "$root"/usr/bin/*lto-dump*
: >"$root/etc/resolv.conf"
find "$root/usr/lib/python3" "$root/usr/lib/python3.11" -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

tar -C "$root" --numeric-owner --one-file-system -cf "$work/work.tar" .
mv "$work/stock.tar" "$out.stock"
mv "$work/work.tar" "$out"
