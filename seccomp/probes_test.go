package seccomp

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// probeSource makes one call per line of the table and prints what the kernel
// answered: an errno, "ok", or the signal that ended the process.
const probeSource = `#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRY(name, expr) do { fflush(stdout); pid_t p = fork(); if (p == 0) { errno = 0; long r = (expr); printf("%s: %s\n", name, r == -1 ? strerrorname_np(errno) : "ok"); fflush(stdout); _exit(0); } int st; waitpid(p, &st, 0); if (WIFSIGNALED(st)) printf("%s: %s\n", name, sigabbrev_np(WTERMSIG(st))); } while (0)
static long int80(long nr, long a, long b, long c) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11"); if (r < 0) { errno = -r; return -1; } return r; }
int main(void) {
	int s[2]; char b[64] = {0}, prog[64] = {0};
	TRY("AF_UNIX", syscall(SYS_socket, 1, 1, 0));
	TRY("AF_INET", syscall(SYS_socket, 2, 1, 6));
	TRY("AF_INET with high bits", syscall(SYS_socket, 2L | 7L << 40, 1, 6));
	TRY("netlink route", syscall(SYS_socket, 16, 3, 0));
	TRY("AF_ALG", syscall(SYS_socket, 38, 5, 0));
	TRY("AF_VSOCK", syscall(SYS_socket, 40, 1, 0));
	TRY("AF_VSOCK with a high bit", syscall(SYS_socket, 40L | 1L << 32, 1, 0));
	TRY("AF_PACKET", syscall(SYS_socket, 17, 3, 0));
	TRY("raw ICMP", syscall(SYS_socket, 2, 3, 1));
	TRY("MPTCP", syscall(SYS_socket, 2, 1, 262));
	TRY("netlink netfilter", syscall(SYS_socket, 16, 3, 12));
	TRY("netlink audit", syscall(SYS_socket, 16, 3, 9));
	TRY("new user namespace by clone", syscall(SYS_clone, 0x10000000L | SIGCHLD, 0, 0, 0, 0));
	TRY("new net namespace by unshare", syscall(SYS_unshare, 0x40000000L));
	TRY("clone3", syscall(SYS_clone3, b, 64));
	TRY("setns", syscall(SYS_setns, 0, 0));
	TRY("mount", syscall(SYS_mount, 0, 0, 0, 0, 0));
	TRY("io_uring_setup", syscall(SYS_io_uring_setup, 1, b));
	TRY("bpf", syscall(SYS_bpf, 0, b, 48));
	TRY("perf_event_open", syscall(SYS_perf_event_open, b, 0, -1, -1, 0));
	TRY("userfaultfd", syscall(SYS_userfaultfd, 1));
	TRY("keyctl", syscall(SYS_keyctl, 0, -3, 0));
	TRY("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0));
	TRY("TIOCSTI", syscall(SYS_ioctl, 0, 0x5412, "x"));
	TRY("TIOCSTI with high bits", syscall(SYS_ioctl, 0, 0x5412L | 1L << 33, "x"));
	TRY("TIOCLINUX", syscall(SYS_ioctl, 0, 0x541c, "x"));
	TRY("set-uid bit", (close(syscall(SYS_openat, -100, "/tmp/f", 0102, 0600)), syscall(SYS_fchmodat, -100, "/tmp/f", 04755)));
	TRY("set-gid bit on creating", syscall(SYS_openat, -100, "/tmp/g", 0102, 02755));
	TRY("mode without creating", syscall(SYS_openat, -100, "/tmp/f", 0, 06777));
	TRY("device node", syscall(SYS_mknodat, -100, "/tmp/d", 020666, 0));
	TRY("kTLS", (socketpair(1, 1, 0, s), syscall(SYS_setsockopt, s[0], 6, 31, "tls", 4)));
	TRY("MSG_OOB", (socketpair(1, 1, 0, s), syscall(SYS_sendto, s[0], "x", 1, 1, 0, 0)));
	TRY("splice", (pipe(s), syscall(SYS_splice, s[0], 0, s[1], 0, 1, 2)));
	TRY("sendfile", syscall(SYS_sendfile, 1, 0, 0, 0));
	TRY("PR_SET_MM", syscall(SYS_prctl, 35, 8, 0, 0, 0));
	TRY("personality", syscall(SYS_personality, 8));
	TRY("persona looked at", syscall(SYS_personality, 0xffffffffL));
	TRY("locked memory", syscall(SYS_mlock, b, sizeof b));
	TRY("locked memory later", syscall(SYS_mlock2, b, sizeof b, 1));
	TRY("advice on a file", syscall(SYS_fadvise64, 0, 0, 0, 4));
	TRY("sync of a file system", syscall(SYS_syncfs, 0));
	TRY("message queue", syscall(SYS_msgget, 0, 01600));
	TRY("hops of IPv6 multicast", syscall(SYS_setsockopt, syscall(SYS_socket, 10, 2, 0), 41, 18, &(int){1}, 4));
	TRY("interface of multicast", syscall(SYS_setsockopt, syscall(SYS_socket, 2, 2, 0), 0, 32, &(int){0}, 4));
	TRY("multicast group", syscall(SYS_setsockopt, syscall(SYS_socket, 2, 2, 0), 0, 35, &(int[3]){0xfb0000e0, 0x0100007f, 1}, 12));
	TRY("shmget", syscall(SYS_shmget, 0, 4096, 01600));
	TRY("an unknown call", syscall(999));
	TRY("a further filter", (memcpy(prog, "\6\0\0\0\0\0\377\177", 8), syscall(SYS_prctl, 38, 1, 0, 0, 0), syscall(SYS_seccomp, 1, 0, &(struct { unsigned short n; void *p; }){1, prog})));
	TRY("core limit", syscall(SYS_prlimit64, 0, 4, 8L, 0));
	TRY("huge pages", syscall(SYS_mmap, 0, 2L << 20, 3, 0x40022, -1, 0));
	TRY("FUTEX_CMP_REQUEUE_PI", syscall(SYS_futex, b, 12 | 128, 1, 0, b + 4, 0));
	TRY("timer on processor time", syscall(SYS_timer_create, 3, 0, b));
	TRY("attribute of an open file", syscall(SYS_fsetxattr, syscall(SYS_openat, -100, "/tmp/f", 0102, 0600), "user.a", "x", 1, 0));
#ifdef __x86_64__
	TRY("int 0x80", int80(20, 0, 0, 0));
	TRY("x32", syscall(0x40000000L | SYS_getpid));
#endif
	return 0;
}
`

// probeWant is what a program in the jail must see, with violations refused and
// with violations killing.
const probeWant = `AF_UNIX: ok | ok
AF_INET: ok | ok
AF_INET with high bits: ok | ok
netlink route: ok | ok
AF_ALG: EAFNOSUPPORT | SYS
AF_VSOCK: EAFNOSUPPORT | SYS
AF_VSOCK with a high bit: EAFNOSUPPORT | SYS
AF_PACKET: EAFNOSUPPORT | SYS
raw ICMP: EPERM | SYS
MPTCP: EPROTONOSUPPORT | EPROTONOSUPPORT
netlink netfilter: EAFNOSUPPORT | SYS
netlink audit: EPROTONOSUPPORT | EPROTONOSUPPORT
new user namespace by clone: EPERM | SYS
new net namespace by unshare: ENOSYS | SYS
clone3: ENOSYS | ENOSYS
setns: ENOSYS | SYS
mount: ENOSYS | SYS
io_uring_setup: ENOSYS | ENOSYS
bpf: ENOSYS | SYS
perf_event_open: ENOSYS | SYS
userfaultfd: ENOSYS | SYS
keyctl: ENOSYS | SYS
ptrace: ENOSYS | SYS
TIOCSTI: ENOTTY | ENOTTY
TIOCSTI with high bits: ENOTTY | ENOTTY
TIOCLINUX: ENOTTY | ENOTTY
set-uid bit: EPERM | SYS
set-gid bit on creating: EPERM | SYS
mode without creating: ok | ok
device node: EPERM | SYS
kTLS: ENOPROTOOPT | ENOPROTOOPT
MSG_OOB: EOPNOTSUPP | SYS
splice: EINVAL | EINVAL
sendfile: EINVAL | EINVAL
PR_SET_MM: EINVAL | EINVAL
personality: EINVAL | EINVAL
persona looked at: ok | ok
locked memory: ok | ok
locked memory later: ENOSYS | SYS
advice on a file: ok | ok
sync of a file system: ENOSYS | ENOSYS
message queue: ENOSYS | SYS
hops of IPv6 multicast: ok | ok
interface of multicast: ok | ok
multicast group: ENOPROTOOPT | ENOPROTOOPT
shmget: ENOSYS | SYS
an unknown call: ENOSYS | ENOSYS
a further filter: ENOSYS | ENOSYS
core limit: ok | ok
huge pages: ENOMEM | ENOMEM
FUTEX_CMP_REQUEUE_PI: ENOSYS | ENOSYS
timer on processor time: EOPNOTSUPP | EOPNOTSUPP
attribute of an open file: EOPNOTSUPP | EOPNOTSUPP
int 0x80: SYS | SYS
x32: SYS | SYS
`

// TestProbes queries the kernel itself, through a filter that runc compiled and
// loaded. The same probes without a filter must answer otherwise.
func TestProbes(t *testing.T) {
	runc := needRunc(t)
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs gcc on amd64: ", err)
	}
	dir := t.TempDir()
	script := "cat > p.c <<'EOF'\n" + probeSource + "EOF\ngcc -O1 -w -o p p.c && ./p < /dev/null"
	bare, err := startIn(runc, dir, script, nil)
	if err != nil {
		t.Fatalf("without a filter: %v\n%s", err, bare)
	}
	expected := probeWant
	if strings.Contains(bare, "int 0x80: SEGV\n") {
		t.Log("this machine has no 32-bit entry (ia32_emulation=off, or its hypervisor's): nothing to filter")
		expected = strings.Replace(expected, "int 0x80: SYS | SYS", "int 0x80: SEGV | SEGV", 1)
	}
	for i, kill := range []bool{false, true} {
		f, err := OCI(Options{Arch: runtime.GOARCH, Kill: kill})
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for line := range strings.Lines(expected) {
			name, answers, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			fmt.Fprintf(&want, "%s: %s\n", name, strings.Split(answers, " | ")[i])
		}
		got, err := startIn(runc, dir, script, f)
		if err != nil || got != want.String() {
			t.Errorf("kill %v: %v\n%s", kill, err, strings.NewReplacer("without", "want", "with", "got").Replace(diffLines(want.String(), got)))
		}
		if got == bare {
			t.Error("the filter changes nothing")
		}
	}
}
