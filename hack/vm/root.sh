#!/bin/bash
# Makes the guest of the virtual-machine lane: a Debian 13 root file system with container engines, its kernel, and a
# small initial RAM disk.
#
#   hack/vm/root.sh DIR
#
# DIR, which must not exist, gets root.img (ext4, sparse), vmlinuz, initrd and versions. Everything is put into
# DIR.partial first, so that DIR is there whole or not at all. Takes two to four minutes. Needs root, debootstrap, mkfs.ext4.
#
# The tests, and the program that runs them inside, are not in here: they come on a second disk, so that this is made
# once. hack/vm keeps it under the hash of this file, guest/early and
# guest/agentjail.cil.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin

out=${1:?usage: root.sh DIR}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=trixie
# The engines, in Debian 13's versions: Docker 26, containerd 1.7, runc 1.1, crun, podman 5.
engines=(docker.io docker-cli docker-compose containerd containernetworking-plugins runc crun podman netavark aardvark-dns uidmap slirp4netns passt fuse-overlayfs)
# What they and the tests call. procps: docker top runs the host's ps. e2fsprogs: views have ext4 layers.
# systemd, which is not this machine's init, is there to make control groups (the systemd driver).
tools=(systemd dbus apparmor e2fsprogs iproute2 iptables nftables kmod busybox-static python3-minimal git procps strace socat)
# The policy is refpolicy's, with its container module.
selinux=(selinux-policy-default selinux-utils policycoreutils libsepol2)
kernel=(linux-image-cloud-amd64)
# What a cloud image has besides.
cloud=(cloud-init openssh-server systemd-sysv)
# What hack/cloud/user-data.yaml has a cloud image install that is not in here: served from /srv/debian, since the guest has no network.
served=(auditd unattended-upgrades)
# The size of the root disk; what the tests write goes there as well.
size=12G

say() { echo "root: $*"; }

# mirror prints where this machine takes Debian from, so that proxies and local mirrors serve here too.
mirror() {
	# shellcheck disable=SC2016 # the names are apt's
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' 2>/dev/null |
		awk '$2 == "bookworm" || $2 == "trixie" { print $1; exit }'
}

[ "$(id -u)" = 0 ] || { say "run this as root"; exit 1; }
[ ! -e "$out" ] || { say "$out is there already"; exit 1; }
mirror=${AGENTJAIL_VM_MIRROR:-$(mirror)}
[ -n "$mirror" ] || { say "cannot tell which mirror this machine uses: set AGENTJAIL_VM_MIRROR"; exit 1; }

part=$out.partial
root=$part/root
rm -rf --one-file-system "$part"
mkdir -p "$root"
# Never leave a mount behind: a later rm -rf would go through it.
trap 'umount -q -R "$root/proc" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM HUP

say "unpacking Debian ($suite) from $mirror"
nice -n 10 debootstrap --variant=minbase --merged-usr "$suite" "$root" "$mirror" >"$part/debootstrap.log" 2>&1 ||
	{ tail -n 20 "$part/debootstrap.log"; exit 1; }

# Only what runs: no manuals, no translations, no services started from package scripts, no initrd made (ours is below).
cat >"$root/etc/dpkg/dpkg.cfg.d/small" <<'END'
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/info/*
force-unsafe-io
END
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root/etc/initramfs-tools"
echo 'update_initramfs=no' >"$root/etc/initramfs-tools/update-initramfs.conf"
mount -t proc proc "$root/proc"

install() {
	nice -n 10 chroot "$root" apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 \
		-o Dpkg::Options::=--force-confold install "$@" >>"$part/apt.log" 2>&1 || { tail -n 20 "$part/apt.log"; exit 1; }
}
say "installing the engines and the kernel"
install "${engines[@]}" "${tools[@]}" "${selinux[@]}" "${kernel[@]}" "${cloud[@]}"

say "fetching what the guest's own apt is to install"
chroot "$root" apt-get clean
install --download-only "${served[@]}"
mkdir -p "$root/srv/debian"
mv "$root"/var/cache/apt/archives/*.deb "$root/srv/debian/"
for deb in "$root"/srv/debian/*.deb; do
	dpkg-deb --field "$deb"
	echo "Filename: ./$(basename "$deb")"
	echo "Size: $(stat -c %s "$deb")"
	echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"
	echo
done >"$root/srv/debian/Packages"
chroot "$root" apt-get clean
umount "$root/proc"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/{apt,debconf}/* "$root"/usr/share/{doc,man,locale,info}/*
rm -f "$root/usr/sbin/policy-rc.d" "$root"/boot/initrd*
mkdir -p "$root/work" "$root/etc/docker"
echo agentjail-vm >"$root/etc/hostname"
printf '127.0.0.1 localhost agentjail-vm\n::1 localhost\n' >"$root/etc/hosts"

version=$(basename "$root"/lib/modules/*)
say "making the initial RAM disk for Linux $version"
cp "$root/boot/vmlinuz-$version" "$part/vmlinuz"
rm -f "$root"/boot/*
# Kernel modules for hardware that a virtual machine has not.
rm -rf "$root/usr/lib/modules/$version"/kernel/{sound,drivers/{gpu,infiniband,media,usb,scsi,hv,xen,nvme}}
chroot "$root" depmod "$version"

ram=$part/ram
mkdir -p "$ram"/{bin,lib/modules,proc,sys,dev,root}
cp "$root/bin/busybox" "$ram/bin/busybox"
# The modules in the order in which they have to be loaded; modprobe knows (what is built in is left out).
: >"$ram/lib/modules/list"
for m in virtio_pci virtio_blk ext4; do
	chroot "$root" modprobe -S "$version" --show-depends "$m" 2>/dev/null | awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
	name=$(basename "$file")
	case $name in
	*.xz) xz -dc "$root/$file" >"$ram/lib/modules/${name%.xz}"; name=${name%.xz} ;;
	*.zst) zstd -dc "$root/$file" >"$ram/lib/modules/${name%.zst}"; name=${name%.zst} ;;
	*) cp "$root/$file" "$ram/lib/modules/$name" ;;
	esac
	echo "$name" >>"$ram/lib/modules/list"
done
cp "$here/guest/early" "$ram/init"
chmod 755 "$ram/init"
(cd "$ram" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$part/initrd"

say "adding agentjail's SELinux module"
cp "$here/guest/agentjail.cil" "$root/tmp/agentjail.cil"
mount -t proc proc "$root/proc"
chroot "$root" semodule -n -i /tmp/agentjail.cil >>"$part/apt.log" 2>&1 || { tail -n 20 "$part/apt.log"; exit 1; }
umount "$root/proc"
rm "$root/tmp/agentjail.cil"

# Labels for lsm=selinux. Setting them needs no SELinux on this machine: without it security.* is any xattr.
say "labelling for SELinux"
chroot "$root" setfiles -F -e /proc -e /sys -e /dev /etc/selinux/default/contexts/files/file_contexts / 2>>"$part/apt.log"

chroot "$root" dpkg-query -W -f '${Package} ${Version}\n' docker.io containerd runc crun podman apparmor \
	selinux-policy-default "linux-image-$version" >"$part/versions"

say "writing the disk"
truncate -s "$size" "$part/root.img"
nice -n 10 mkfs.ext4 -q -F -L vmroot -m 0 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$part/root.img"
rm -rf --one-file-system "$root" "$ram"
mv "$part" "$out"
say "done: $(tr '\n' ',' <"$out/versions" | sed 's/,$//; s/,/, /g')"
