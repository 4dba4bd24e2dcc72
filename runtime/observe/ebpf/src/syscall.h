/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/* Which system call a process is in, by the registers that it entered with. */
#ifndef AGENTJAIL_SYSCALL_H
#define AGENTJAIL_SYSCALL_H

/* Set by the loader: the processor. */
const volatile u32 arm64 = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs___x86 {
	unsigned long di, si, dx, r10, r8, r9, ax, orig_ax;
};
struct pt_regs___arm64 {
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
};

#pragma clang attribute pop

INLINE void read_call(void *regs, u32 *number, u64 *args)
{
	if (arm64) {
		struct pt_regs___arm64 *r = regs;

		*number = r->syscallno;
		args[0] = r->orig_x0;
		args[1] = r->regs[1];
		args[2] = r->regs[2];
		args[3] = r->regs[3];
		args[4] = r->regs[4];
		args[5] = r->regs[5];
	} else {
		struct pt_regs___x86 *r = regs;

		*number = r->orig_ax;
		args[0] = r->di;
		args[1] = r->si;
		args[2] = r->dx;
		args[3] = r->r10;
		args[4] = r->r8;
		args[5] = r->r9;
	}
}

#endif
