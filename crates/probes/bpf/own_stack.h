/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Since 6.13 kernels give a program with 64 bytes of variables or more one stack per CPU, which is sound
 * where it cannot be interrupted by itself. A uprobe can: the thread is preempted, and the next one on
 * the same CPU writes over its variables (7.3 dies of it). A program that could call another one in its
 * place keeps its variables on the thread's own stack; ours could, and never does. */
#pragma once

/* Programs to call. We never add one. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} none SEC(".maps");

/* We never set it, which the compiler does not know. */
const volatile __u32 never = 0;

/* For every program that is attached as a uprobe. */
static __always_inline void on_own_stack(void *ctx)
{
	if (never)
		bpf_tail_call(ctx, &none, 0);
}
