/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Events of single calls, if the loader asks for them. */
#pragma once

/* Calls that have ended. Empty unless the loader asks for them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} calls SEC(".maps");

/* Known when the verifier looks: what is off costs nothing. */
const volatile struct settings settings SEC(".rodata.settings") = {};

/* Tells of the call at `place`, which has just ended. Waking the reader for each would cost more than
 * the rest: it looks by itself once in a while, and is woken when much has come. */
static __always_inline void tell(struct thread *t, __u32 place, const struct frame *used, bool is_left)
{
	const struct frame *frame = frame_at(t, place);
	__u64 whose = bpf_get_current_pid_tgid(), flags = BPF_RB_NO_WAKEUP;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct call *call;

	if (!cpu)
		return;
	call = bpf_ringbuf_reserve(&calls, sizeof(*call), 0);
	if (!call) {
		add(&cpu->lost, 1);
		return;
	}
	call->began = frame->began;
	call->ended = used->began;
	call->ran = used->ran;
	call->preempted = used->preempted;
	call->stepped = used->stepped;
	call->pid = whose >> 32;
	call->tid = (__u32)whose;
	call->section = frame->section;
	call->outer = place ? frame_at(t, place - 1)->section : NO_SECTION;
	call->depth = place;
	call->is_left = is_left;
	if (++cpu->told >= settings.wake_after) {
		cpu->told = 0;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(call, flags);
}
