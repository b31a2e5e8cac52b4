/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* When threads ran, piece by piece: for sections that programs mark themselves, of which the kernel
 * knows nothing. Part of `sections.bpf.c`; what `src/runs.rs` reads. */
#pragma once

enum {
	THEN_RUNS,      /* it runs on */
	THEN_PREEMPTED, /* it was taken off its CPU, though it was ready to go on */
	THEN_WAITS,     /* it waits for something */
	THEN_GONE,      /* it ended, or becomes another program */
};

struct run {
	__u64 begin; /* ns */
	__u64 end;
	__u64 ran; /* of that; the rest a hypervisor took */
	__u32 tgid;
	__u32 pid;
	__u32 then;
	__u32 unused;
};

/* One page long unless the loader asks for them. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} runs SEC(".maps");

struct wanted {
	__u64 runs; /* 1: report them */
	__u64 lost; /* not reported: the ring was full */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wanted);
} wanted SEC(".maps");

static __always_inline __u32 then_of(struct task_struct *task, bool was_preempted)
{
	if (task->__state & TASK_DEAD)
		return THEN_GONE;
	return was_preempted ? THEN_PREEMPTED : THEN_WAITS;
}

/* What it ran unseen before `begin` it ran just before. */
static __always_inline void tell_run(struct task_struct *task, __u64 begin, __u64 end, __u64 ran,
				     __u32 then)
{
	__u32 first = 0;
	struct wanted *wants = bpf_map_lookup_elem(&wanted, &first);
	struct run *run;

	if (!wants || !wants->runs)
		return;
	run = bpf_ringbuf_reserve(&runs, sizeof(*run), 0);
	if (!run) {
		__sync_fetch_and_add(&wants->lost, 1);
		return;
	}
	run->begin = end - begin < ran ? end - ran : begin;
	run->end = end;
	run->ran = ran;
	run->tgid = task->tgid;
	run->pid = task->pid;
	run->then = then;
	run->unused = 0;
	/* Do not wake the reader: it polls. */
	bpf_ringbuf_submit(run, BPF_RB_NO_WAKEUP);
}
