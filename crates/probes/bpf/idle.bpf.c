// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* How often each CPU has come back from each idle state: the tracepoint power:cpu_idle, which says a state's
 * number on the way in, and all ones on the way out. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

#define STATES 16
#define AWAKE 0xffffffff

struct idle {
	__u64 left[STATES];
	__u32 state;
	__u32 rests;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct idle);
} idle SEC(".maps");

SEC("tp_btf/cpu_idle")
int on_idle(__u64 *ctx)
{
	__u32 state = (__u32)ctx[0], zero = 0;
	struct idle *it = bpf_map_lookup_elem(&idle, &zero);

	if (!it)
		return 0;
	if (state != AWAKE) {
		it->state = state;
		it->rests = 1;
	} else if (it->rests) {
		/* One that rested when we came is not known. */
		it->left[it->state & (STATES - 1)] += 1;
		it->rests = 0;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
