/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The eBPF programs behind the system call filters. A program on security_X (fmod_ret) refuses what a jail requests, before any security
 * module is called; one on the kernel's seccomp entry, or on the exit of system calls, sees what the jail's filters refused.
 *
 * Each program is small and can be missing. Others on the machine pay for one comparison: the user namespace of level 0 is no jail's.
 */
#include "kernel.h"
#include "syscall.h"

/* Hooks, in bits of a verdict. Go has the same list (hooks.go). */
enum {
	HOOK_SOCKET,
	HOOK_IO_URING,
	HOOK_USERFAULTFD,
	HOOK_USERNS,
	HOOK_KEY,
	HOOK_BPF,
	HOOK_PERF,
	HOOK_MOUNT,
	HOOK_PTRACE,
	HOOK_MODULE,
	HOOK_EXEC,
	HOOK_SYSCALL,
	HOOK_TRACE,
	HOOK_CONNECT,
	HOOK_BIND,
	HOOK_OOM,
	HOOK_UNIX,
};

/* What a delegate does itself while it makes a jail or enters one, with capabilities there that no program of the jail has. */
#define SETUP (1u << HOOK_KEY | 1u << HOOK_MOUNT | 1u << HOOK_MODULE | 1u << HOOK_EXEC)

enum {
	POOLS = 8,
	PARENTS = 4,
	DEVICES = 8,
	OVERFLOW_ID = 65534,
	BLOCK = 1 << 16,
	RATE_LOUD = 0,    /* refused here */
	RATE_OTHER = 1,
	/* A socket that no program requests: AF_UNIX has no protocols. Only outside jails, it shows whether the programs act. */
	PROBE_PROTOCOL = 0x616a61,
	PROBE_ERRNO = 55, /* ENOANO */
};

#define SECOND 1000000000LL /* in nanoseconds */

struct pool {
	u32 first, count;
};

struct config {
	u32 verdict;
	u32 pools;
	u32 rate[2]; /* events of a jail a second */
	struct pool pool[POOLS];
};

/*
 * What agentjail registers of a user namespace, by its number: that it is a jail's though its host ids are not the pool's, and what policy
 * refuses there beyond config.verdict. Numbers of namespaces are given anew at once, so namespace_end removes the entry before that; and
 * the owner and the level must be those of the namespace that was registered.
 */
struct registration {
	u64 born; /* nanoseconds since 1970, by the clock of file systems: a file that was changed since was written in the jail */
	u64 store;
	u32 owner;
	u32 block;
	u32 devices;
	u32 allow; /* what of config.verdict is not refused there */
	u32 device[DEVICES]; /* of directories that are mounted from outside, which are not the jail's */
};

/* What is counted of a jail: by its first host id, shifted by 32, or by the number of its registered namespace. */
struct jail {
	u64 second;
	u32 count[2];
	u64 refused, seen, dropped, lost;
};

struct event {
	u64 time, jail;
	u32 hook, pid, uid, refused;
	s32 result;
	u32 number;
	u64 args[6];
	u32 mounts; /* the number of the process's mount namespace: which of a pod's jails it is in */
	u32 parent;
	char comm[16];
	char text[64];
};

enum {
	ARGV = 512,
	CWD = 512,
	NAME = 256,  /* of a file, with its end */
	DEPTH = 32,  /* directories and mounts between the working directory and the root */
	CWD_CUT = 1, /* the root was not reached */
};

/* What is reported of a program that is executed, and of nothing else. */
struct exec_event {
	struct event e;
	char parent[16];
	u32 argv_size; /* of all of them, which may be more than is here */
	u32 cwd_size, cwd_flags;
	u32 pad;
	char argv[ARGV]; /* each with its end */
	char cwd[CWD];   /* the names of the directories, each with its end, the last one first */
};

struct totals {
	u64 seen, dropped, lost, unknown;
};

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct config);
} config SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct jail);
} jails SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct registration);
} registered SEC(".maps");

struct {
	__uint(type, MAP_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct totals);
} totals SEC(".maps");

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, 1 << 21);
} events SEC(".maps");

/* Set by the loader: whether the kernel's memory may be read (lockdown=confidentiality forbids it). */
const volatile u32 reads = 1;

/* who is the jail that the current process is in. */
struct who {
	u64 key;
	u32 space; /* the number of the jail's user namespace */
	u32 block; /* what is refused to this jail beyond config.verdict */
	u32 setup; /* a delegate at work */
	u32 allow; /* what of config.verdict this jail may */
};

/* what is requested. */
struct what {
	u64 args[4];
	const char *text; /* in the kernel; may be null */
};

INLINE struct user_namespace *own_namespace(void)
{
	return current_task()->cred->user_ns;
}

INLINE u32 first_id(struct user_namespace *ns)
{
	u32 first = ns->uid_map.extent[0].lower_first;

	/* More than five lines are kept elsewhere, and are no map of the pool's. */
	if (ns->uid_map.nr_extents > 5)
		return 0;
	/* Container root may be the host's overflow user. */
	if (first == OVERFLOW_ID && ns->uid_map.nr_extents > 1)
		first = ns->uid_map.extent[1].lower_first;
	return first;
}

INLINE struct registration *registration_of(u32 inum, u32 owner, int level)
{
	struct registration *r = map_lookup(&registered, &inum);

	return r && level == 1 && r->owner == owner ? r : 0;
}

/* recognise reports whether the user namespace is a jail's own. */
static NOINLINE int recognise(struct who *w, u32 first, u32 inum, u32 owner, int level)
{
	u32 zero = 0, i;
	struct config *c = map_lookup(&config, &zero);
	struct registration *r = registration_of(inum, owner, level);

	if (!c)
		return 0;
	w->space = inum;
	w->key = r ? inum : 0;
	w->block = r ? r->block : 0;
	w->allow = r ? r->allow : 0;
	for (i = 0; i < POOLS; i++)
		if (i < c->pools && first - c->pool[i].first < c->pool[i].count)
			w->key = (u64)(first & ~(BLOCK - 1)) << 32;
	return w->key != 0;
}

INLINE u32 has_capabilities(const struct cred *cred)
{
	if (field_exists(cred->cap_permitted.val))
		return cred->cap_permitted.val != 0;
	const struct cred___before63 *old = (const void *)cred;
	return (old->cap_permitted.cap[0] | old->cap_permitted.cap[1]) != 0;
}

static NOINLINE int jail_of(struct who *w, const struct cred *cred)
{
	struct user_namespace *ns = cred->user_ns;
	int depth;

	for (depth = 0; depth <= PARENTS; depth++) {
		if (!ns || ns->level == 0)
			return 0;
		if (recognise(w, first_id(ns), ns->ns.inum, ns->owner.val, ns->level)) {
			w->setup = depth == 0 && has_capabilities(cred);
			return 1;
		}
		ns = ns->parent;
	}
	return 0;
}

/* entry_of is the jail's entry, made at its first event if it was not registered. */
static NOINLINE struct jail *entry_of(u64 key)
{
	struct jail *j = map_lookup(&jails, &key);

	if (!j) {
		struct jail fresh = {};

		map_update(&jails, &key, &fresh, UPDATE_NOEXIST);
		j = map_lookup(&jails, &key);
	}
	return j;
}

INLINE struct totals *all(void)
{
	u32 zero = 0;

	return map_lookup(&totals, &zero);
}

/* mounts_of is the number of a process's mount namespace; one that ends has none. */
INLINE u32 mounts_of(struct task_struct *task)
{
	return task->nsproxy->mnt_ns->ns.inum;
}

/* new_event is an event of that size that is filled in but for what its hook knows, or null where the jail has had its share. */
INLINE struct event *new_event(u64 key, struct jail *j, u32 hook, u32 refused, u64 size)
{
	u32 zero = 0, rate = refused ? RATE_LOUD : RATE_OTHER;
	struct config *c = map_lookup(&config, &zero);
	struct totals *t = all();
	u64 now = ktime_boot(), second = now >> 30;
	struct event *e;
	u64 ids;
	int i;

	if (!c || !t)
		return 0;
	t->seen++;
	__sync_fetch_and_add(&j->seen, 1);
	if (refused)
		__sync_fetch_and_add(&j->refused, 1);
	if (j->second != second) {
		j->second = second;
		j->count[RATE_LOUD] = 0;
		j->count[RATE_OTHER] = 0;
	}
	if (j->count[rate] >= c->rate[rate]) {
		t->dropped++;
		__sync_fetch_and_add(&j->dropped, 1);
		return 0;
	}
	__sync_fetch_and_add(&j->count[rate], 1);
	e = ringbuf_reserve(&events, size, 0);
	if (!e) {
		t->lost++;
		__sync_fetch_and_add(&j->lost, 1);
		return 0;
	}
	e->time = now;
	e->jail = key;
	e->hook = hook;
	e->refused = refused;
	e->pid = get_pid_tgid() >> 32;
	ids = get_uid_gid();
	e->uid = (u32)ids;
	e->result = 0;
	e->number = 0;
	for (i = 0; i < 6; i++)
		e->args[i] = 0;
	e->mounts = mounts_of(current_task());
	e->parent = current_task()->real_parent->tgid;
	get_comm(e->comm, sizeof(e->comm));
	__builtin_memset(e->text, 0, sizeof(e->text));
	return e;
}

/* working_directory fills in the names of the directories from the working directory to the process's root. */
INLINE void working_directory(struct exec_event *x)
{
	struct fs_struct *fs = current_task()->fs;
	struct dentry *dentry = READ(fs, pwd.dentry), *root = READ(fs, root.dentry);
	struct vfsmount *mnt = READ(fs, pwd.mnt), *top = READ(fs, root.mnt);
	struct mount *mount, *below;
	const unsigned char *name;
	u64 at = 0;
	long n;
	int i;

	x->cwd_flags = 0;
#pragma clang loop unroll(disable)
	for (i = 0; i < DEPTH; i++) {
		if (dentry == root && mnt == top)
			break;
		if (dentry == READ(mnt, mnt_root)) {
			mount = (void *)mnt - field_offset(mount->mnt);
			below = READ(mount, mnt_parent);
			if (below == mount) {
				i = DEPTH; /* a mount that was taken away */
				break;
			}
			dentry = READ(mount, mnt_mountpoint);
			mnt = &below->mnt;
			continue;
		}
		name = READ(dentry, d_name.name);
		if (at > CWD - NAME) {
			i = DEPTH;
			break;
		}
		n = read_kernel_str(x->cwd + at, NAME, name);
		if (n <= 0) {
			i = DEPTH;
			break;
		}
		at += n;
		dentry = READ(dentry, d_parent);
	}
	if (i == DEPTH)
		x->cwd_flags = CWD_CUT;
	x->cwd_size = at;
}

/* arguments fills in those of the program that has just taken the process over, which no process could change yet. */
INLINE void arguments(struct exec_event *x)
{
	struct mm_struct *mm = current_task()->mm;
	u64 from = mm->arg_start, size = mm->arg_end - from, some = size;

	if (some > ARGV)
		some = ARGV;
	asm volatile("" : "+r"(some)); /* the verifier is to see the comparison */
	if (some > ARGV)
		return;
	if (read_user(x->argv, some, (void *)from) == 0)
		x->argv_size = size;
}

/* describe_exec fills in what is known of a program that is executed, and, once it was, its arguments. */
INLINE void describe_exec(struct exec_event *x, int done)
{
	struct task_struct *parent = current_task()->real_parent;
	int i;

#pragma unroll
	for (i = 0; i < sizeof(x->parent); i++)
		x->parent[i] = parent->comm[i];
	x->argv_size = x->cwd_size = x->pad = 0;
	x->cwd_flags = CWD_CUT;
	if (done)
		arguments(x);
	if (reads)
		working_directory(x);
}

enum { OTHER, EXEC, EXEC_DONE }; /* kinds of reports */

INLINE int judge_as(struct who *w, u32 hook, struct what *what, int kind, int silent)
{
	u32 zero = 0, bit = 1u << (hook & 31), refused, i;
	struct config *c = map_lookup(&config, &zero);
	struct jail *j = entry_of(w->key);
	struct event *e;

	if (!c || (w->setup && SETUP & bit))
		return 0;
	refused = (((c->verdict & ~w->allow) | w->block) & bit) != 0;
	if (kind == EXEC && silent && !refused)
		return 0;
	if (!j) {
		/* No room to count: the verdict holds all the same. */
		struct totals *t = all();

		if (t)
			t->unknown++;
		return refused;
	}
	e = new_event(w->key, j, hook, refused, kind == OTHER ? sizeof(struct event) : sizeof(struct exec_event));
	if (e) {
		for (i = 0; i < 4; i++)
			e->args[i] = what->args[i];
		if (reads && what->text)
			read_kernel_str(e->text, sizeof(e->text), what->text);
		if (kind != OTHER)
			describe_exec((void *)e, kind == EXEC_DONE);
		ringbuf_submit(e, 0);
	}
	return refused;
}

/* judge reports whether the jail is refused this, and reports it. */
static NOINLINE int judge(struct who *w, u32 hook, struct what *what)
{
	return judge_as(w, hook, what, OTHER, 0);
}

/* judge_exec is judge of a program that is about to be executed; silent is one that is reported when it was. */
static NOINLINE int judge_exec(struct who *w, struct what *what, int silent)
{
	return judge_as(w, HOOK_EXEC, what, EXEC, silent);
}

/* report_exec reports a program that was executed. */
static NOINLINE int report_exec(struct who *w, struct what *what)
{
	return judge_as(w, HOOK_EXEC, what, EXEC_DONE, 0);
}

/* The verifier wants to see the number. */
INLINE int answer(int refused)
{
	int r = 0;

	if (refused)
		asm volatile("%0 = -1" : "=r"(r));
	return r;
}

/* ask_about is the verdict on the current process's request. Outside jails it is one comparison. */
INLINE int ask_about(u32 hook, struct what *what)
{
	struct who w = {};

	if (own_namespace()->level == 0 || !jail_of(&w, current_task()->cred))
		return 0;
	return answer(judge(&w, hook, what));
}

INLINE int ask(u32 hook, u64 a, u64 b, const char *text)
{
	struct what what = {{a, b}, text};

	return ask_about(hook, &what);
}

/* Programs that only report that they were called. */
#define ASKS(name, function, hook, a, b) \
	SEC("fmod_ret/" function) int name(u64 *ctx) { return ask(hook, a, b, 0); }

enum {
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	AF_NETLINK = 16,
	SOCK_STREAM = 1,
	SOCK_DGRAM = 2,
	SOCK_RAW = 3,
	PROTO_TCP = 6,
	PROTO_UDP = 17,
};

/* What ring 0 lets through (seccomp: rule socket), and Go's MPTCP, to which it has an answer of its own. */
INLINE int usual(int family, int type, int protocol)
{
	if (family == AF_UNIX)
		return 1;
	if (family == AF_INET || family == AF_INET6)
		return (type == SOCK_STREAM && (protocol == 0 || protocol == PROTO_TCP)) ||
		       (type == SOCK_DGRAM && (protocol == 0 || protocol == PROTO_UDP));
	return family == AF_NETLINK && protocol == 0;
}

SEC("fmod_ret/security_socket_create")
int socket_create(u64 *ctx)
{
	int family = ctx[0], type = ctx[1], protocol = ctx[2], kernel = ctx[3];
	int r = 0;

	if (usual(family, type, protocol) && protocol != PROBE_PROTOCOL)
		return 0;
	if (own_namespace()->level == 0) {
		if (family == AF_UNIX && protocol == PROBE_PROTOCOL)
			asm volatile("%0 = -55" : "=r"(r));
		return r;
	}
	if (kernel || family == AF_UNIX)
		return 0;
	return ask(HOOK_SOCKET, (u64)(u32)family << 32 | (u32)type, (u32)protocol, 0);
}

/* Each of the kernel's own files that are checked has a name: where a name cannot be read, its length has to do. */
INLINE int is_name(const struct qstr *q, const char *name, u32 len)
{
	char have[16] = {};
	u32 i;

	if (q->len != len)
		return 0;
	if (!reads)
		return 1;
	if (read_kernel_str(have, sizeof(have), q->name) < 0)
		return 1;
	for (i = 0; i < len; i++)
		if (have[i] != name[i])
			return 0;
	return 1;
}

SEC("fmod_ret/security_inode_init_security_anon")
int anon_inode(u64 *ctx)
{
	const struct qstr *q = (void *)ctx[1];

	if (own_namespace()->level == 0)
		return 0;
	if (is_name(q, "[io_uring]", 10))
		return ask(HOOK_IO_URING, 0, 0, 0);
	if (is_name(q, "[userfaultfd]", 13))
		return ask(HOOK_USERFAULTFD, 0, 0, 0);
	return 0;
}

ASKS(uring_allowed, "security_uring_allowed", HOOK_IO_URING, 0, 0)
ASKS(create_user_ns, "security_create_user_ns", HOOK_USERNS, 0, 0)
ASKS(key_alloc, "security_key_alloc", HOOK_KEY, 0, 0)
/* Keys that are there already, such as the session keyring that the delegate made. */
ASKS(key_permission, "security_key_permission", HOOK_KEY, 0, 1)
ASKS(bpf_call, "security_bpf", HOOK_BPF, (u32)ctx[0], 0)
ASKS(perf_event_open, "security_perf_event_open", HOOK_PERF, 0, 0)
ASKS(sb_mount, "security_sb_mount", HOOK_MOUNT, ctx[3], 0)
ASKS(move_mount, "security_move_mount", HOOK_MOUNT, 0, 1)

enum { PTRACE_MODE_ATTACH = 2 };

/* Tracing in its own jail is for the filter to decide, and for policy. */
SEC("fmod_ret/security_ptrace_access_check")
int ptrace_access(u64 *ctx)
{
	struct task_struct *child = (void *)ctx[0];
	struct user_namespace *own = own_namespace(), *ns;
	u32 mode = ctx[1];
	int depth;

	if (own->level == 0 || !(mode & PTRACE_MODE_ATTACH))
		return 0;
	ns = child->real_cred->user_ns;
	for (depth = 0; depth <= PARENTS; depth++) {
		if (!ns)
			break;
		if (ns->ns.inum == own->ns.inum)
			return ask(HOOK_TRACE, mode, child->tgid, 0);
		ns = ns->parent;
	}
	return ask(HOOK_PTRACE, mode, 0, 0);
}

SEC("fmod_ret/security_kernel_module_request")
int module_request(u64 *ctx)
{
	return ask(HOOK_MODULE, 0, 0, (const char *)ctx[0]);
}

/* change_time is when an inode last changed, in nanoseconds since 1970. */
INLINE u64 change_time(struct inode *inode)
{
	struct inode___since611 *now = (void *)inode;
	struct inode___before611 *mid = (void *)inode;
	struct inode___before66 *old = (void *)inode;

	if (field_exists(now->i_ctime_sec))
		return now->i_ctime_sec * SECOND + now->i_ctime_nsec;
	if (field_exists(mid->__i_ctime))
		return mid->__i_ctime.tv_sec * SECOND + mid->__i_ctime.tv_nsec;
	return old->i_ctime.tv_sec * SECOND + old->i_ctime.tv_nsec;
}

/* written reports whether a file was written in the jail: changed since that was made, in no directory that is mounted from outside. */
static NOINLINE int written(u32 space, u64 changed, u32 device)
{
	struct registration *r = map_lookup(&registered, &space);
	u32 i;

	if (!r || changed < r->born)
		return 0;
	for (i = 0; i < DEVICES; i++)
		if (i < r->devices && r->device[i] == device)
			return 0;
	return 1;
}

/* executed is the file that is executed, and by when it changed and where it is, whether the jail wrote it. */
INLINE void executed(struct what *what, struct linux_binprm *b)
{
	struct inode *inode = b->file->f_inode;

	what->args[0] = change_time(inode);
	what->args[1] = inode->i_sb->s_dev;
	what->text = b->interp;
}

/* A program for the processor is the one that takes the process over: exec_done reports it. A script's interpreter does, in its place. */
INLINE int is_elf(struct linux_binprm *b)
{
	return b->buf[0] == 0x7f && b->buf[1] == 'E' && b->buf[2] == 'L' && b->buf[3] == 'F';
}

SEC("fmod_ret/security_bprm_check")
int bprm_check(u64 *ctx)
{
	struct what what = {};
	struct who w = {};

	if (own_namespace()->level == 0 || !jail_of(&w, current_task()->cred))
		return 0;
	executed(&what, (void *)ctx[0]);
	if (w.block & 1u << HOOK_EXEC && !written(w.space, what.args[0], (u32)what.args[1]))
		w.block &= ~(1u << HOOK_EXEC);
	return answer(judge_exec(&w, &what, is_elf((void *)ctx[0])));
}

/* The program has taken the process over: its arguments are where they stay, and it has not run yet. */
SEC("tp_btf/sched_process_exec")
int exec_done(u64 *ctx)
{
	struct what what = {};
	struct who w = {};

	if (own_namespace()->level == 0 || !jail_of(&w, current_task()->cred))
		return 0;
	executed(&what, (void *)ctx[2]);
	w.block = 0;
	report_exec(&w, &what);
	return 0;
}

/* Addresses, as far as the two families have them: family, port and 16 bytes. */
struct address {
	u16 family, port;
	u8 ip4[4];
	u8 ip6[16];
};

INLINE int ask_address(u32 hook, struct socket *sock, const void *address, int size)
{
	struct address a = {};
	struct what what = {};
	int family;

	if (own_namespace()->level == 0)
		return 0;
	family = sock->ops->family;
	if (family != AF_INET && family != AF_INET6)
		return 0;
	what.args[0] = (u64)(u32)family << 32;
	if (reads && size >= 8) {
		read_kernel(&a, size < (int)sizeof(a) ? 8 : sizeof(a), address);
		what.args[0] = (u64)a.family << 32 | __builtin_bswap16(a.port);
		if (a.family == AF_INET6)
			__builtin_memcpy(&what.args[1], a.ip6, sizeof(a.ip6));
		else
			__builtin_memcpy(&what.args[1], a.ip4, sizeof(a.ip4));
	}
	return ask_about(hook, &what);
}

SEC("fmod_ret/security_socket_connect")
int socket_connect(u64 *ctx)
{
	return ask_address(HOOK_CONNECT, (void *)ctx[0], (void *)ctx[1], ctx[2]);
}

SEC("fmod_ret/security_socket_bind")
int socket_bind(u64 *ctx)
{
	return ask_address(HOOK_BIND, (void *)ctx[0], (void *)ctx[1], ctx[2]);
}

/*
 * A Unix socket at a path is reached through any mount that has the path. One of another network namespace is not the jail's. What was
 * connected outside and came along has both ends in one namespace.
 */
INLINE int ask_peer(struct sock *own, struct sock *peer)
{
	struct unix_address *name;
	struct what what = {};

	if (own_namespace()->level == 0 || own->__sk_common.skc_net.net == peer->__sk_common.skc_net.net)
		return 0;
	if (reads) {
		name = READ((struct unix_sock *)peer, addr);
		if (name)
			what.text = name->name[0].sun_path;
	}
	return ask_about(HOOK_UNIX, &what);
}

SEC("fmod_ret/security_unix_stream_connect")
int unix_connect(u64 *ctx)
{
	return ask_peer((void *)ctx[0], (void *)ctx[1]);
}

SEC("fmod_ret/security_unix_may_send")
int unix_send(u64 *ctx)
{
	return ask_peer(((struct socket *)ctx[0])->sk, ((struct socket *)ctx[1])->sk);
}

/* The kernel chose a process to kill for want of memory. It runs in whatever process requested some. */
SEC("tp_btf/mark_victim")
int oom_victim(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	const struct cred *cred = task->real_cred;
	struct who w = {};
	struct jail *j;
	struct event *e;
	int i;

	if (cred->user_ns->level == 0 || !jail_of(&w, cred))
		return 0;
	j = entry_of(w.key);
	e = j ? new_event(w.key, j, HOOK_OOM, 0, sizeof(*e)) : 0;
	if (!e)
		return 0;
	e->pid = task->tgid;
	e->uid = cred->uid.val;
	e->mounts = mounts_of(task);
	e->parent = task->real_parent->tgid;
#pragma unroll
	for (i = 0; i < sizeof(e->comm); i++)
		e->comm[i] = task->comm[i];
	ringbuf_submit(e, 0);
	return 0;
}

/* A user namespace ends: its number can be another's from now on. */
SEC("fentry/retire_userns_sysctls")
int namespace_end(u64 *ctx)
{
	struct user_namespace *ns = (void *)ctx[0];
	u32 inum = ns->ns.inum;
	u64 key = inum;

	map_delete(&registered, &inum);
	map_delete(&jails, &key);
	return 0;
}

INLINE s64 result_of(void *regs)
{
	if (arm64)
		return ((struct pt_regs___arm64 *)regs)->regs[0];
	return ((struct pt_regs___x86 *)regs)->ax;
}

/* refused_call reports a system call that was refused with an errno. */
static NOINLINE int refused_call(void *regs, s64 result)
{
	struct who w = {};
	struct jail *j;
	struct event *e;

	if (!jail_of(&w, current_task()->cred) || w.setup)
		return 0;
	j = entry_of(w.key);
	e = j ? new_event(w.key, j, HOOK_SYSCALL, 0, sizeof(*e)) : 0;
	if (!e)
		return 0;
	e->result = result;
	read_call(regs, &e->number, e->args);
	ringbuf_submit(e, 0);
	return 0;
}

INLINE int seccomp_said(int no)
{
	void *regs;

	if (!no || own_namespace()->level == 0)
		return 0;
	regs = task_pt_regs(current_task());
	return refused_call(regs, result_of(regs));
}

/* The filter refused: its result is set already. The function lost its argument in 6.16: its result was the second value, and is the first. */
SEC("fexit/__secure_computing")
int seccomp_none(u64 *ctx)
{
	return seccomp_said((int)ctx[0] != 0);
}

SEC("fexit/__secure_computing")
int seccomp_one(u64 *ctx)
{
	return seccomp_said((int)ctx[1] != 0);
}

enum { EPERM_ = 1, ENOSYS_ = 38, EPROTONOSUPPORT_ = 93, EAFNOSUPPORT_ = 97 };

/* Where no trampolines can be had: every system call of the machine passes here, and who refused is not known. */
SEC("tp_btf/sys_exit")
int syscall_exit(u64 *ctx)
{
	s64 result = ctx[1];

	if (own_namespace()->level == 0)
		return 0;
	if (result != -ENOSYS_ && result != -EPERM_ && result != -EAFNOSUPPORT_ && result != -EPROTONOSUPPORT_)
		return 0;
	return refused_call((void *)ctx[0], result);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
