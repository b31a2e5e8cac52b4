/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Goroutines: what one has open goes with it from thread to thread.
 *
 * A thread's record holds the sections of the goroutine that it runs. When it leaves one that has any
 * open, they are put aside (`goroutines`), and taken up again by whichever thread goes on with it. It is
 * left before Go's runtime lets others have it, so that nobody can come too early.
 *
 * Goroutines' stacks are copied when they grow. What stays is how far from its upper end a frame is; so
 * in place of a stack pointer stands its distance from there, below zero. That is more than any address
 * of a user program's, and falls as stack pointers do.
 */
#pragma once

/* What Go's runtime has of a goroutine: `runtime.g` begins with its stack's bounds. */
struct g {
	__u64 stack_lo;
	__u64 stack_hi;
};

/* `runtime.gobuf`, where a goroutine goes on. */
struct gobuf {
	__u64 sp;
};

struct goroutine {
	__u64 g;
	__u32 tgid;
	__u32 pad;
};

/* The end of `struct thread`. `ran` and `preempted` of frames are those since they began. */
struct aside {
	__u32 depth;
	__u32 beyond;
	struct frame frames[DEPTH];
};
_Static_assert(sizeof(struct thread) ==
		       __builtin_offsetof(struct thread, aside) + sizeof(struct aside),
	       "what is put aside is the end of a thread's record");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GOROUTINES);
	__type(key, struct goroutine);
	__type(value, struct aside);
} goroutines SEC(".maps");

/* How many are in it. */
__u64 aside;

/* The place of a stack pointer on the stack of goroutine `g`; 0 if that cannot be read. */
static __always_inline __u64 place_in_go(__u64 g, __u64 sp)
{
	__u64 hi = 0;

	bpf_probe_read_user(&hi, sizeof(hi), &((struct g *)g)->stack_hi);
	return hi ? sp - hi : 0;
}

static __always_inline void put_aside(struct thread *t, __u32 tgid)
{
	struct goroutine key = {.g = t->g, .tgid = tgid};
	__u32 depth = t->depth;

	if (!depth)
		return;
	/* First of all: whoever interrupts us is to find none that are half put aside. */
	t->depth = 0;
	t->aside = depth;
	for (__u32 i = 0; i < DEPTH && i < depth; i++) {
		struct frame *frame = frame_at(t, i);

		frame->ran = t->ran - frame->ran;
		frame->preempted = t->preempted - frame->preempted;
	}
	if (!bpf_map_update_elem(&goroutines, &key, &t->aside, BPF_NOEXIST)) {
		add(&aside, 1);
		return;
	}
	/* No room: their ends will have no beginning. */
	t->depth = depth;
	drop_left(t, ~0ULL, false);
}

static __always_inline void take_up(struct thread *t, __u32 tgid)
{
	struct goroutine key = {.g = t->g, .tgid = tgid};
	struct aside *from = bpf_map_lookup_elem(&goroutines, &key);

	if (!from)
		return;
	for (__u32 i = 0; i < DEPTH && i < from->depth; i++) {
		struct frame *frame = frame_at(t, i);

		*frame = from->frames[i];
		frame->ran = t->ran - frame->ran;
		frame->preempted = t->preempted - frame->preempted;
	}
	t->beyond = from->beyond;
	t->depth = from->depth <= DEPTH ? from->depth : 0;
	bpf_map_delete_elem(&goroutines, &key);
	add(&aside, -1);
}

/* The thread runs goroutine `g` from now on, if it did not already. */
static __always_inline void runs_goroutine(struct thread *t, __u32 tgid, __u64 g, __u64 now)
{
	if (t->g == g)
		return;
	put_aside(t, tgid);
	t->g = g;
	t->since_g = now;
	if (g)
		take_up(t, tgid);
}

SEC("uprobe")
int go_leaves(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns(), g = REGS_AX(ctx);
	struct thread *t = record_of(task, now);

	own_stack(ctx);
	if (!t || t->g != g)
		return 0;
	account(t, now, 0);
	runs_goroutine(t, task->tgid, 0, now);
	return 0;
}

SEC("uprobe")
int go_comes(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns(), g = REGS_DX(ctx), sp = 0;
	struct thread *t = record_of(task, now);

	own_stack(ctx);
	if (!t)
		return 0;
	account(t, now, 0);
	runs_goroutine(t, task->tgid, g, now);
	if (!t->depth)
		return 0;
	/* After a panic that was caught it goes on further up its stack. */
	bpf_probe_read_user(&sp, sizeof(sp), &((struct gobuf *)REGS_BX(ctx))->sp);
	sp = place_in_go(g, sp);
	if (sp)
		drop_left(t, sp, true);
	return 0;
}

SEC("uprobe")
int go_ends(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct thread *t = record_of(bpf_get_current_task_btf(), now);

	own_stack(ctx);
	if (!t)
		return 0;
	account(t, now, 0);
	drop_left(t, ~0ULL, false);
	return 0;
}

static long drop_aside(void *map, struct goroutine *key, struct aside *value, __u32 *tgid)
{
	if (key->tgid != *tgid)
		return 0;
	for (__u32 i = 0; i < DEPTH && i < value->depth; i++) {
		__u32 section = value->frames[i].section;
		struct section *s = bpf_map_lookup_elem(&sections, &section);

		if (s)
			add(&s->unended, 1);
	}
	bpf_map_delete_elem(map, key);
	add(&aside, -1);
	return 0;
}

/* Goroutines of a process that is over or becomes another program. */
static __always_inline void drop_goroutines(__u32 tgid)
{
	if (aside)
		bpf_for_each_map_elem(&goroutines, drop_aside, &tgid, 0);
}
