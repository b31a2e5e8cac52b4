/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A pair of probes that does nothing: the least that a call can cost. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

SEC("uprobe")
int nothing(struct pt_regs *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
