// SPDX-License-Identifier: Apache-2.0
//
// The activator stands in for a jail's network helper until the jail first uses its network: socket
// activation, as of inetd(8) and systemd.socket(5). It has the helper's process, sockets and
// privileges (none), and about 40 KiB of memory. It reads no byte from a jail: it only polls the
// sockets, and then executes the helper in its place.
//
// It is compiled without a C library and committed (hack/activator.sh). Package activator has the
// Go side; both must agree on the definitions below.

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

typedef unsigned int u32;
typedef unsigned long ulong;

// Descriptors, as in packages helper/child and names/internal/helperproto.
enum { STDERR = 2, SETUP = 3, READY = 4, ROOT = 6, CONTROL = 7, PROGRAM = 10, WORK = 11 };

// From the kernel's headers for user space. Headers that C libraries replace are not included.
enum {
	O_WRONLY = 1,
	FD_CLOEXEC = 1,
	F_SETFD = 2,
	SOCK_CLOEXEC = 02000000,
	SOCK_RAW = 3,
	SOL_SOCKET = 1,
	SO_TYPE = 3,
	SO_PEERCRED = 17,
	SCM_RIGHTS = 1,
	MSG_PEEK = 0x2,
	MSG_CTRUNC = 0x8,
	MSG_DONTWAIT = 0x40,
	MSG_NOSIGNAL = 0x4000,
	MSG_CMSG_CLOEXEC = 0x40000000,
	SHUT_WR = 1,
	POLLIN = 0x1,
	POLLERR = 0x8,
	POLLHUP = 0x10,
	POLLRDHUP = 0x2000,
	AT_FDCWD = -100,
	AT_EMPTY_PATH = 0x1000,
	EINTR = 4,
	EAGAIN = 11,
};

struct pollfd {
	int fd;
	short events, revents;
};

struct iovec {
	void *base;
	ulong len;
};

struct msghdr {
	void *name;
	u32 namelen;
	struct iovec *iov;
	ulong iovlen;
	void *control;
	ulong controllen;
	u32 flags;
};

struct cmsghdr {
	ulong len;
	int level, type;
};

struct ucred {
	int pid;
	u32 uid, gid;
};

#if defined(__x86_64__)
enum {
	SYS_read = 0, SYS_write = 1, SYS_close = 3, SYS_sendto = 44, SYS_recvfrom = 45, SYS_recvmsg = 47, SYS_shutdown = 48, SYS_getsockopt = 55, SYS_fcntl = 72,
	SYS_fchdir = 81, SYS_geteuid = 107, SYS_setgroups = 116, SYS_setresuid = 117, SYS_setresgid = 119, SYS_capset = 126, SYS_prctl = 157,
	SYS_chroot = 161, SYS_exit_group = 231, SYS_openat = 257, SYS_ppoll = 271, SYS_accept4 = 288, SYS_dup3 = 292, SYS_seccomp = 317,
	SYS_execveat = 322, SYS_close_range = 436,
};

static long call(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return ret;
}

// At the program's start the stack pointer points to argc, argv and envp.
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall activate\n");
#elif defined(__aarch64__)
enum {
	SYS_dup3 = 24, SYS_fcntl = 25, SYS_fchdir = 50, SYS_chroot = 51, SYS_openat = 56, SYS_close = 57, SYS_read = 63, SYS_write = 64,
	SYS_ppoll = 73, SYS_capset = 91, SYS_exit_group = 94, SYS_setresuid = 147, SYS_setresgid = 149, SYS_setgroups = 159, SYS_prctl = 167,
	SYS_geteuid = 175, SYS_sendto = 206, SYS_recvfrom = 207, SYS_getsockopt = 209, SYS_shutdown = 210, SYS_recvmsg = 212, SYS_accept4 = 242, SYS_seccomp = 277,
	SYS_execveat = 281, SYS_close_range = 436,
};

static long call(long nr, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}

__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n\tbl activate\n");
#else
#error "no system calls for this machine"
#endif

// What the starter writes to SETUP. The helper's own set-up follows.
static struct {
	u32 uid, gid;  // 0 keeps the process's ids
	u32 filters;   // how many instructions of the system call filter follow
	struct sock_filter filter[256];
} setup;

static char control[4096]; // for 253 descriptors (SCM_MAX_FD of the kernel's)
static struct pollfd watched[256];
static int ready; // the starter does not wait any more: an error is for `agentjail inspect`

__attribute__((noreturn)) static void quit(int status)
{
	for (;;)
		call(SYS_exit_group, status, 0, 0, 0, 0);
}

// fail reports the failed step and its errno, and exits.
static void fail(const char *step, long error)
{
	char text[64];
	int n = 0;

	while (*step && n < 40)
		text[n++] = *step++;
	for (const char *s = ": errno "; *s;)
		text[n++] = *s++;
	error = -error;
	for (long unit = 1000; unit; unit /= 10)
		if (error >= unit || unit == 1)
			text[n++] = '0' + error / unit % 10;
	text[n++] = '\n';
	call(SYS_write, ready ? STDERR : READY, (long)text, n, 0, 0);
	quit(1);
}

static void must(const char *step, long result)
{
	if (result < 0)
		fail(step, result);
}

// poll waits for one of some descriptors, without a time limit.
static void poll(struct pollfd *fds, int n)
{
	long got;

	do {
		got = call(SYS_ppoll, (long)fds, n, 0, 0, 0);
	} while (got == -EINTR);
	must("poll", got);
}

// fill reads a part of the set-up. The pipe does not block, as the starter's end of it does not.
static void fill(void *to, ulong size)
{
	for (ulong done = 0; done < size;) {
		struct pollfd p = {SETUP, POLLIN, 0};
		long n;

		poll(&p, 1);
		n = call(SYS_read, SETUP, (long)to + done, size - done, 0, 0);
		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0) // the starter does not want it any more
			quit(1);
		done += n;
	}
}

// confine drops the same rights as the helper (names/egress/confine.go), except for the helper's
// Landlock domain, resource limits and own filter, which are too narrow to start it.
static void confine(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {{0}};
	struct sock_fprog program = {setup.filters, setup.filter};
	long fd;

	fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/oom_score_adj", O_WRONLY, 0, 0);
	if (fd >= 0) {
		call(SYS_write, fd, (long)"500", 3, 0, 0);
		call(SYS_close, fd, 0, 0, 0, 0);
	}
	must("closing what was left open", call(SYS_close_range, PROGRAM + 1, ~0U, 0, 0, 0));
	must("fchdir", call(SYS_fchdir, ROOT, 0, 0, 0, 0));
	must("chroot", call(SYS_chroot, (long)".", 0, 0, 0, 0));
	must("close", call(SYS_close, ROOT, 0, 0, 0, 0));
	if (setup.uid) {
		must("setgroups", call(SYS_setgroups, 0, 0, 0, 0, 0));
		must("setresgid", call(SYS_setresgid, setup.gid, setup.gid, setup.gid, 0, 0));
		must("setresuid", call(SYS_setresuid, setup.uid, setup.uid, setup.uid, 0, 0));
	}
	must("capset", call(SYS_capset, (long)&header, (long)none, 0, 0, 0));
	must("no_new_privs", call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	must("dumpable", call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
	must("the program's descriptor", call(SYS_fcntl, PROGRAM, F_SETFD, FD_CLOEXEC, 0, 0));
	must("the system call filter", call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0));
}

// refuse answers and closes. It reads the request first: otherwise the caller would get a reset in
// place of the answer.
static void refuse(int conn)
{
	static const char text[] = "{\"error\":\"it waits for its work\"}";

	for (int i = 0; i < 1024; i++)
		if (call(SYS_recvfrom, conn, (long)control, sizeof(control), MSG_DONTWAIT, 0) <= 0)
			break;
	call(SYS_sendto, conn, (long)text, sizeof(text) - 1, MSG_NOSIGNAL, 0);
	call(SYS_close, conn, 0, 0, 0, 0);
}

// is_starters reports whether a connection comes from the user that started this process.
static int is_starters(int conn, u32 uid)
{
	struct ucred peer = {0, ~0U, ~0U};
	u32 size = sizeof(peer);

	return call(SYS_getsockopt, conn, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&size) == 0 && peer.uid == uid;
}

// peek gets copies of the descriptors that come with the work, and leaves the work itself for the
// helper. It returns their number.
static int peek(int conn, int **fds)
{
	char first;
	struct iovec iov = {&first, 1};
	struct msghdr m = {.iov = &iov, .iovlen = 1, .control = control, .controllen = sizeof(control)};
	struct cmsghdr *c = (struct cmsghdr *)control;

	if (call(SYS_recvmsg, conn, (long)&m, MSG_PEEK | MSG_CMSG_CLOEXEC, 0, 0) != 1)
		return 0;
	if (m.controllen < sizeof(*c) || c->level != SOL_SOCKET || c->type != SCM_RIGHTS)
		return 0;
	*fds = (int *)(c + 1);
	return m.flags & MSG_CTRUNC ? 0 : (c->len - sizeof(*c)) / sizeof(int);
}

// arrived waits until the whole work is there, and reports whether the starter is there, too.
static int arrived(int conn)
{
	struct pollfd p = {conn, POLLRDHUP, 0};

	poll(&p, 1);
	return !(p.revents & (POLLHUP | POLLERR));
}

// await waits for the work, and returns its connection. watched then has the jail's first process
// and after it the sockets that wake the helper.
static int await(u32 uid, int *n)
{
	for (;;) {
		struct pollfd p = {CONTROL, POLLIN, 0};
		int conn, count, *fds, type;
		u32 size;

		poll(&p, 1);
		conn = call(SYS_accept4, CONTROL, 0, 0, SOCK_CLOEXEC, 0);
		if (conn < 0)
			continue;
		if (!is_starters(conn, uid)) {
			call(SYS_close, conn, 0, 0, 0, 0);
			continue;
		}
		count = peek(conn, &fds);
		if (count > 1 && arrived(conn)) {
			watched[0] = (struct pollfd){fds[0], POLLIN, 0};
			watched[1] = (struct pollfd){CONTROL, POLLIN, 0};
			*n = 2;
			for (int i = 1; i < count; i++) {
				// Only sockets can be polled, and a raw socket gets packets for others.
				size = sizeof(type);
				if (call(SYS_getsockopt, fds[i], SOL_SOCKET, SO_TYPE, (long)&type, (long)&size) == 0 && type != SOCK_RAW)
					watched[(*n)++] = (struct pollfd){fds[i], POLLIN, 0};
			}
			return conn;
		}
		for (int i = 0; i < count; i++)
			call(SYS_close, fds[i], 0, 0, 0, 0);
		refuse(conn);
	}
}

__attribute__((noreturn, used)) void activate(long *stack)
{
	char **argv = (char **)(stack + 1), **envp = argv + stack[0] + 1;
	char *helper[] = {argv[0], "activated", 0};
	u32 uid = call(SYS_geteuid, 0, 0, 0, 0, 0);
	int conn, n;

	call(SYS_prctl, PR_SET_NAME, (long)argv[0], 0, 0, 0);
	fill(&setup, __builtin_offsetof(__typeof__(setup), filter));
	if (setup.filters > sizeof(setup.filter) / sizeof(setup.filter[0]))
		fail("the set-up", -7);
	fill(setup.filter, setup.filters * sizeof(setup.filter[0]));
	confine();
	if (call(SYS_write, READY, (long)"ready\n", 6, 0, 0) != 6)
		quit(1);
	call(SYS_close, READY, 0, 0, 0, 0);
	ready = 1;

	conn = await(uid, &n);
	// The starter may have been killed: then the jail is not started, and needs no helper.
	if (call(SYS_sendto, conn, (long)"{}", 2, MSG_NOSIGNAL, 0) != 2)
		quit(1);
	call(SYS_shutdown, conn, SHUT_WR, 0, 0, 0);

	poll(watched, n);
	if (watched[0].revents) // the jail has ended
		quit(0);
	must("handing on the work", call(SYS_dup3, conn, WORK, 0, 0, 0));
	must("executing the helper", call(SYS_execveat, PROGRAM, (long)"", (long)helper, (long)envp, AT_EMPTY_PATH));
	quit(1);
}
