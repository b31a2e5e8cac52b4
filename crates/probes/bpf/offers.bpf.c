// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Programs that do nothing, one for each way of being called: which of them does this kernel take? */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

SEC("uprobe")
int try_uprobe(void *ctx)
{
	return 0;
}

SEC("uprobe.multi")
int try_uprobe_multi(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int try_tp_btf(void *ctx)
{
	return 0;
}

SEC("raw_tp/sched_switch")
int try_raw_tp(void *ctx)
{
	return 0;
}

SEC("tracepoint/sched/sched_switch")
int try_tracepoint(void *ctx)
{
	return 0;
}

SEC("fentry/vfs_read")
int try_fentry(void *ctx)
{
	return 0;
}

SEC("kprobe/vfs_read")
int try_kprobe(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
