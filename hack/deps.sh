#!/bin/sh
# Installs what building, testing and demonstrating agentjail needs, on Debian 12 or 13 with Go and git.
#
#   hack/deps.sh          install what is missing
#   hack/deps.sh --check  only print what is missing; exit status 1 when something is
#
# Runs as root or through sudo. It prints what it does, starts no service, and does nothing when nothing is missing.
set -eu

say() { echo "deps: $*"; }

# program that must be there : package that brings it
needs="
dockerd:docker.io
containerd:containerd
runc:runc
podman:podman
catatonit:catatonit
crun:crun
newuidmap:uidmap
slirp4netns:slirp4netns
docker-compose:docker-compose
debootstrap:debootstrap
ip:iproute2
iptables:iptables
gcc:gcc
make:make
pkg-config:pkg-config
strace:strace
bwrap:bubblewrap
systemd-nspawn:systemd-container
xz:xz-utils
ps:procps
curl:curl
wget:wget
ssh:openssh-client
sshd:openssh-server
rsync:rsync
openssl:openssl
psql:postgresql-client
redis-cli:redis-tools
perl:perl
ruby:ruby
sudo:sudo
php:php-cli
node:nodejs
vim:vim
nvim:neovim
zsh:zsh
fish:fish
direnv:direnv
tmux:tmux
gdb:gdb
musl-gcc:musl-tools
rpm:rpm
lintian:lintian
chromium-headless-shell:chromium-headless-shell
"
# Packages that are found by a file of theirs.
files="
/bin/busybox:busybox-static
/usr/lib/podman/netavark:netavark
/usr/lib/cni/bridge:containernetworking-plugins
/usr/include/seccomp.h:libseccomp-dev
/usr/include/stdio.h:libc6-dev
/usr/lib/python3/dist-packages/docker/__init__.py:python3-docker
/usr/lib/python3/dist-packages/requests/__init__.py:python3-requests
/usr/lib/python3/dist-packages/aiohttp/__init__.py:python3-aiohttp
/usr/lib/python3/dist-packages/websocket/__init__.py:python3-websocket
/usr/lib/python3/dist-packages/pip/__init__.py:python3-pip
/usr/share/perl5/IO/Socket/SSL.pm:libio-socket-ssl-perl
/etc/ssl/certs/ca-certificates.crt:ca-certificates
/usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring
"

PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin

# find_missing sets missing to the packages whose programs or files are not there.
find_missing() {
	missing=
	for n in $needs; do
		command -v "${n%%:*}" >/dev/null 2>&1 || missing="$missing ${n#*:}"
	done
	for f in $files; do
		[ -e "${f%%:*}" ] || missing="$missing ${f#*:}"
	done
	# A dynamically linked busybox does not run in an image without libraries.
	if [ -e /bin/busybox ] && [ -e /var/lib/dpkg/status ] && ! dpkg -s busybox-static >/dev/null 2>&1; then
		missing="$missing busybox-static"
	fi
	# Debian 13 has the docker command in a package of its own, Debian 12 inside docker.io.
	if ! command -v docker >/dev/null 2>&1; then
		if apt-cache show docker-cli >/dev/null 2>&1; then missing="$missing docker-cli"; else missing="$missing docker.io"; fi
	fi
	# The compiler that make lint holds what is committed against (hack/bpf.sh, hack/activator.sh), which only Debian 12 has.
	for p in clang-14 llvm-14 lld-14; do
		[ -e "/usr/share/doc/$p" ] || ! apt-cache show $p >/dev/null 2>&1 || missing="$missing $p"
	done
	# shellcheck disable=SC2086 # the list is meant to be split
	missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
	missing=${missing% }
	missing=${missing# }
}

for tool in go git; do
	command -v $tool >/dev/null 2>&1 || { say "$tool is not installed: install it first"; exit 1; }
done

find_missing
if [ -z "$missing" ]; then
	say "everything is there"
	exit 0
fi
say "missing: $missing"
[ "${1:-}" != --check ] || exit 1

if ! command -v apt-get >/dev/null 2>&1; then
	say "this is no Debian: install the equivalents of these packages by hand"
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null 2>&1 || { say "run this as root, or install sudo"; exit 1; }
	sudo=sudo
	say "asking sudo for the rights to install packages"
fi

# The packages must not start a Docker on this machine: the tests start their own. A policy-rc.d that answers 101 is
# Debian's way to express that (invoke-rc.d(8)); a file that is there already stays.
guard=/usr/sbin/policy-rc.d
if [ ! -e $guard ]; then
	say "keeping services from being started meanwhile ($guard)"
	trap '$sudo rm -f $guard' EXIT
	trap 'exit 130' INT TERM HUP
	printf '#!/bin/sh\nexit 101\n' | $sudo tee $guard >/dev/null
	$sudo chmod 755 $guard
fi
install() {
	say "installing: $missing"
	# shellcheck disable=SC2086 # the list is meant to be split
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
		-o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install $missing
}
if ! install; then
	say "refreshing the package lists and trying again"
	$sudo apt-get -q update || true # one list of several may be out of reach
	find_missing # fresh lists can tell which package has the docker command
	install
fi
find_missing
if [ -n "$missing" ]; then
	say "still missing: $missing"
	exit 1
fi
say "done"
