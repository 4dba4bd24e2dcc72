/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * Counts the system calls of jails while a profile is learned from them (runtime/observe/learn/record): of sys_enter every call, of sys_exit
 * those that failed. Others on the machine pay for one comparison.
 */
#include "kernel.h"
#include "syscall.h"

/* Go has the same (record.go). */
struct key {
	u32 number, error;
	u64 args[6];
	u32 jail, pad;
};

struct masks {
	u64 args[6];
};

/* By the number of a user namespace: as many filters as the jail's program has. With fewer it is the delegate or the init step. */
struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u32);
} watched SEC(".maps");

/* By the number of a call: the bits of its arguments by which calls are distinguished. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 512);
	__type(key, u32);
	__type(value, struct masks);
} masks SEC(".maps");

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 65536);
	__type(key, struct key);
	__type(value, u64);
} seen SEC(".maps");

/* How often there was no room in seen. */
struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

INLINE int count(void *regs, u32 error)
{
	struct task_struct *task = current_task();
	struct user_namespace *ns = task->cred->user_ns;
	struct key key = {};
	struct masks *mask;
	u32 *filters, zero = 0;
	u64 one = 1, *n;
	int i;

	if (ns->level == 0)
		return 0;
	key.jail = ns->ns.inum;
	filters = map_lookup(&watched, &key.jail);
	if (!filters || task->seccomp.filter_count.counter < *filters)
		return 0;
	key.error = error;
	read_call(regs, &key.number, key.args);
	mask = map_lookup(&masks, &key.number);
	if (!mask)
		return 0;
#pragma unroll
	for (i = 0; i < 6; i++)
		key.args[i] &= mask->args[i];
	n = map_lookup(&seen, &key);
	if (!n && map_update(&seen, &key, &one, UPDATE_ANY))
		n = map_lookup(&lost, &zero);
	if (n)
		__sync_fetch_and_add(n, 1);
	return 0;
}

SEC("tp_btf/sys_enter")
int sys_enter(u64 *ctx)
{
	return count((void *)ctx[0], 0);
}

SEC("tp_btf/sys_exit")
int sys_exit(u64 *ctx)
{
	s64 result = ctx[1];

	return result < 0 && result >= -4095 ? count((void *)ctx[0], -result) : 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
