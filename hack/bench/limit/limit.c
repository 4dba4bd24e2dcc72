// The least that a jail costs the kernel: the same control group, user and other namespaces, id-mapped image, overlay on
// tmpfs, mounts, masks and two filters as the hardened bundle requires, made by straight system calls of a small program,
// which then runs /bin/true. It proves nothing, looks at nothing and cleans up nothing that the kernel does not: what any
// runtime adds to this is its own.
//
// jail.h, which package main of hack/bench writes from a hardened bundle, has what to make.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

// sys/mount.h and linux/mount.h do not go together.
extern int mount(const char *, const char *, const char *, unsigned long, const void *);
extern int umount2(const char *, int);
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define MNT_DETACH 2

struct a_mount {
	const char *source, *target, *type;
	unsigned long flags;
	const char *data;
	int is_file;
};
struct a_value {
	const char *file, *value;
};
struct a_node {
	const char *path;
	unsigned major, minor;
};

#include "jail.h"

static void check(long r, const char *what) {
	if (r < 0) {
		fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
		_exit(1);
	}
}

static void put(const char *file, const char *value) {
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	check(fd, file);
	check(write(fd, value, strlen(value)), file);
	close(fd);
}

// point makes a mount point below the root, which is the working directory, with the directories on its way.
static void point(const char *target, int is_file) {
	char path[512];
	snprintf(path, sizeof path, ".%s", target);
	for (char *p = path + 2; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(path, 0755);
		*p = '/';
	}
	if (is_file)
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	else
		mkdir(path, 0755);
}

static void mounts(void) {
	char at[512];
	for (unsigned i = 0; i < sizeof jail_mounts / sizeof *jail_mounts; i++) {
		const struct a_mount *m = jail_mounts + i;
		point(m->target, m->is_file);
		snprintf(at, sizeof at, ".%s", m->target);
		check(mount(m->source, at, m->type, m->flags, m->data), m->target);
		if (m->flags & MS_BIND)
			check(mount(0, at, 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, 0), m->target);
	}
	// In a user namespace nodes are the host's, bound over files.
	for (unsigned i = 0; i < sizeof jail_nodes / sizeof *jail_nodes; i++) {
		point(jail_nodes[i], 1);
		snprintf(at, sizeof at, ".%s", jail_nodes[i]);
		check(mount(jail_nodes[i], at, 0, MS_BIND, 0), at);
	}
}

static void masks(void) {
	for (unsigned i = 0; i < sizeof jail_masks / sizeof *jail_masks; i++) {
		struct stat st;
		if (stat(jail_masks[i], &st))
			continue;
		if (S_ISDIR(st.st_mode))
			check(mount("tmpfs", jail_masks[i], "tmpfs", MS_RDONLY, "size=0k,nr_inodes=2"), jail_masks[i]);
		else
			check(mount("/dev/null", jail_masks[i], 0, MS_BIND, 0), jail_masks[i]);
	}
	for (unsigned i = 0; i < sizeof jail_readonly / sizeof *jail_readonly; i++) {
		if (access(jail_readonly[i], F_OK))
			continue;
		check(mount(jail_readonly[i], jail_readonly[i], 0, MS_BIND | MS_REC, 0), jail_readonly[i]);
		check(mount(0, jail_readonly[i], 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, 0), jail_readonly[i]);
	}
}

static void filter(const unsigned long long *insns, unsigned n) {
	struct sock_fprog prog = {n, (struct sock_filter *)insns};
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0), "PR_SET_SECCOMP");
}

// inside is the program's process, the first of its PID namespace.
static void inside(void) {
	check(mount(0, "/", 0, MS_REC | MS_PRIVATE, 0), "private");
	check(chdir(ROOT), ROOT);
	check(mount(".", ".", 0, MS_BIND | MS_REC, 0), "root");
	check(chdir(ROOT), ROOT);
	mounts();
	check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	check(umount2(".", MNT_DETACH), "umount");
	check(chdir("/"), "/");
	masks();
	check(sethostname("limit", 5), "sethostname");
	check(syscall(SYS_setgroups, 0, 0), "setgroups");
	struct rlimit none = {0, 0};
	check(setrlimit(RLIMIT_CORE, &none), "RLIMIT_CORE");
	for (int c = 0; c <= LAST_CAP; c++)
		check(prctl(PR_CAPBSET_DROP, c, 0, 0, 0), "PR_CAPBSET_DROP");
	unsigned head[2] = {0x20080522, 0}, sets[6] = {0};
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	check(syscall(SYS_capset, head, sets), "capset");
	filter(jail_outer, sizeof jail_outer / sizeof *jail_outer);
	filter(jail_inner, sizeof jail_inner / sizeof *jail_inner);
	char *argv[] = {"/bin/true", 0}, *env[] = {"PATH=/bin", 0};
	execve(argv[0], argv, env);
	check(-1, argv[0]);
}

// wait_for waits for a child that must have succeeded.
static void wait_for(pid_t pid) {
	int st;
	check(waitpid(pid, &st, 0), "waitpid");
	if (st) {
		fprintf(stderr, "limit: a child ended with status %#x\n", st);
		_exit(1);
	}
}

// middle is the first process of the user namespace, which makes the others.
static void middle(int ready, int go) {
	char c = 0;
	check(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG");
	check(write(ready, &c, 1), "pipe");
	if (read(go, &c, 1) != 1)
		_exit(1);
	check(setgid(0), "setgid");
	check(setuid(0), "setuid");
	check(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME), "unshare");
	pid_t pid = fork();
	check(pid, "fork");
	if (!pid)
		inside();
	wait_for(pid);
	_exit(0);
}

// image mounts the image with the jail's ids below an overlay on a tmpfs.
static void image(int userns) {
	char options[256];
	int lower = syscall(SYS_open_tree, -1, LOWER, OPEN_TREE_CLONE | O_CLOEXEC);
	check(lower, LOWER);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = userns};
	check(syscall(SYS_mount_setattr, lower, "", AT_EMPTY_PATH, &attr, sizeof attr), "mount_setattr");
	check(mount("tmpfs", TMP, "tmpfs", MS_NOSUID | MS_NODEV, "size=1g,nr_inodes=100k,mode=755"), TMP);
	check(mkdir(TMP "/lower", 0755), "lower");
	check(mkdir(TMP "/upper", 0755), "upper");
	check(mkdir(TMP "/work", 0755), "work");
	check(mkdir(TMP "/merged", 0755), "merged");
	check(chown(TMP "/upper", HOST_ID, HOST_ID), "upper");
	check(syscall(SYS_move_mount, lower, "", -1, TMP "/lower", MOVE_MOUNT_F_EMPTY_PATH), "move_mount");
	snprintf(options, sizeof options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", TMP, TMP, TMP);
	check(mount("overlay", ROOT, "overlay", MS_NOSUID | MS_NODEV, options), "overlay");
}

int main(void) {
	char file[128], text[64], c = 0;
	int ready[2], go[2];
	check(pipe2(ready, O_CLOEXEC), "pipe");
	check(pipe2(go, O_CLOEXEC), "pipe");
	for (unsigned i = 0; i < sizeof jail_groups / sizeof *jail_groups; i++)
		check(mkdir(jail_groups[i], 0755) && errno != EEXIST ? -1 : 0, jail_groups[i]);
	for (unsigned i = 0; i < sizeof jail_limits / sizeof *jail_limits; i++)
		put(jail_limits[i].file, jail_limits[i].value);
	check(unshare(CLONE_NEWNS), "unshare");
	check(mount(0, "/", 0, MS_REC | MS_PRIVATE, 0), "private");
	pid_t pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	check(pid, "clone");
	if (!pid) {
		close(go[1]);
		middle(ready[1], go[0]);
	}
	close(ready[1]); // so that reading ends where the child does
	if (read(ready[0], &c, 1) != 1)
		return 1;
	snprintf(text, sizeof text, "0 %u 65536", HOST_ID);
	snprintf(file, sizeof file, "/proc/%d/uid_map", pid);
	put(file, text);
	snprintf(file, sizeof file, "/proc/%d/gid_map", pid);
	put(file, text);
	snprintf(file, sizeof file, "/proc/%d/ns/user", pid);
	int userns = open(file, O_RDONLY | O_CLOEXEC);
	check(userns, file);
	image(userns);
	snprintf(text, sizeof text, "%d", pid);
	for (unsigned i = 0; i < sizeof jail_groups / sizeof *jail_groups; i++) {
		snprintf(file, sizeof file, "%s/cgroup.procs", jail_groups[i]);
		put(file, text);
	}
	check(write(go[1], &c, 1), "pipe");
	wait_for(pid);
	for (unsigned i = 0; i < sizeof jail_groups / sizeof *jail_groups; i++)
		check(rmdir(jail_groups[i]), jail_groups[i]);
	return 0;
}
