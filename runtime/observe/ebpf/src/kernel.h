/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The little that the programs know of the kernel: its types by name, whose places are looked up in the kernel's BTF when a program is
 * loaded, and the helpers by number. vmlinux.h would be 2.8 MB, and make the objects four times as large.
 */
#ifndef AGENTJAIL_KERNEL_H
#define AGENTJAIL_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define NOINLINE __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))

/* Maps, as libraries read them from BTF. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_RINGBUF = 27,
	UPDATE_ANY = 0,
	UPDATE_NOEXIST = 1,
};

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*get_pid_tgid)(void) = (void *)14;
static u64 (*get_uid_gid)(void) = (void *)15;
static long (*get_comm)(void *buf, u32 size) = (void *)16;
static long (*read_user)(void *dst, u32 size, const void *unsafe) = (void *)112;
static long (*read_kernel)(void *dst, u32 size, const void *unsafe) = (void *)113;
static long (*read_kernel_str)(void *dst, u32 size, const void *unsafe) = (void *)115;
static u64 (*ktime_boot)(void) = (void *)125;
static void *(*ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ringbuf_submit)(void *data, u64 flags) = (void *)132;
struct task_struct;
static struct task_struct *(*current_task)(void) = (void *)158;
static void *(*task_pt_regs)(struct task_struct *task) = (void *)175;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct uid_gid_extent {
	u32 first, lower_first, count;
};

struct uid_gid_map {
	union {
		struct {
			struct uid_gid_extent extent[5];
			u32 nr_extents;
		};
	};
};

struct ns_common {
	u32 inum;
};

typedef struct {
	u32 val;
} kuid_t;

struct user_namespace {
	struct uid_gid_map uid_map;
	struct user_namespace *parent;
	int level;
	kuid_t owner;
	struct ns_common ns;
};

typedef struct {
	u64 val;
} kernel_cap_t;

typedef struct {
	u32 cap[2];
} kernel_cap_t___before63;

struct cred {
	kuid_t uid;
	kernel_cap_t cap_permitted;
	struct user_namespace *user_ns;
};

struct cred___before63 {
	kernel_cap_t___before63 cap_permitted;
};

struct qstr {
	u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root, pwd;
};

struct mm_struct {
	unsigned long arg_start, arg_end;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct seccomp {
	struct {
		int counter;
	} filter_count;
};

struct task_struct {
	const struct cred *cred;
	const struct cred *real_cred;
	struct task_struct *real_parent;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct seccomp seccomp;
	s32 tgid;
	char comm[16];
};

struct super_block {
	u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
};

/* The time of an inode's last change has moved: before 6.6, to 6.10, since 6.11. */
struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};
struct inode___before66 {
	struct timespec64 i_ctime;
};
struct inode___before611 {
	struct timespec64 __i_ctime;
};
struct inode___since611 {
	s64 i_ctime_sec;
	u32 i_ctime_nsec;
};

struct file {
	struct inode *f_inode;
};

struct linux_binprm {
	struct file *file;
	char buf[256]; /* the file's first bytes */
	const char *interp; /* what is executed: the requested file, and behind a script its interpreter */
};

struct proto_ops {
	int family;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	struct sock *sk;
	const struct proto_ops *ops;
};

struct sockaddr_un {
	char sun_path[108];
};

struct unix_address {
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
};

#pragma clang attribute pop

#define field_exists(field) __builtin_preserve_field_info(field, 2)
#define field_offset(field) __builtin_preserve_field_info(field, 0)

/* READ follows a pointer of which the verifier knows nothing. What cannot be read is zero. */
#define READ(pointer, field)                                          \
	({                                                                \
		typeof((pointer)->field) read_ = 0;                           \
		read_kernel(&read_, sizeof(read_), &(pointer)->field);        \
		read_;                                                        \
	})

#endif
