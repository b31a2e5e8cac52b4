/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Goroutines: what one has open goes with it from thread to thread.
 *
 * A thread's record holds the sections of the goroutine that it runs. When it leaves one that has any
 * A thread's record holds the sections of the goroutine that it runs. When it leaves one that has
 * any open, they are put aside (`goroutines`), and taken up again by the thread that resumes it. It
 * is left before Go's runtime lets other threads have it, so that none can come too early.
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
	__u64 guards[2];
	__u64 panics;
	__u64 defers;
	__u64 m; /* the thread that runs it */
};

/* And of a thread: what it runs on for the runtime itself, and for signals. */
struct m {
	__u64 g0;
	__u64 others[8];
	__u64 gsignal[2]; /* the first since Go 1.25, the second before; the other one points to no `g` */
};

/* No stack of a goroutine is as long. What runs on a thread's own stacks runs for the goroutine whose
 * sections are open, deeper than all that is on its stack: it is that much lower. */
#define ON_G0 (1ULL << 40)
#define ON_GSIGNAL (2ULL << 40)

/* `runtime.gobuf`, where a goroutine goes on. */
struct gobuf {
	__u64 sp;
};

struct goroutine {
	__u64 g;
	__u32 tgid;
	__u32 pad;
};

/* The end of `struct thread`. `ran`, `preempted` and `stepped` of frames are those since they began. */
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
	/* Room made beforehand: what is made on the way runs out where thousands are put aside at once.
	 * The loader makes it one where no Go is watched. */
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

/* Is `g` no goroutine but one of a thread's own stacks? By how much that is lower. */
static __always_inline __u64 is_on_own(__u64 g)
{
	__u64 m = 0;
	struct m of = {};

	bpf_probe_read_user(&m, sizeof(m), &((struct g *)g)->m);
	if (!m || bpf_probe_read_user(&of, sizeof(of), (void *)m))
		return 0;
	if (of.g0 == g)
		return ON_G0;
	return of.gsignal[0] == g || of.gsignal[1] == g ? ON_GSIGNAL : 0;
}

/* Leaves what is open on the thread's own stacks, from which it goes on without a return. */
static __always_inline void leave_own(struct thread *t)
{
	__u64 sp = t->depth ? node_sp(t) : 0;

	if (sp <= -ON_G0 && sp > -4 * ON_G0)
		drop_left(t, -ON_G0, false);
}

static __always_inline void put_aside(struct thread *t, __u32 tgid)
{
	struct goroutine key = {.g = t->g, .tgid = tgid};
	__u32 depth;

	leave_own(t);
	/* It ran no goroutine: no goroutine resumes what is open. */
	if (!t->g)
		drop_left(t, ~0ULL, false);
	depth = t->depth;
	if (!depth)
		return;
	/* Do this first: a program that interrupts us must not find a stack that is half put aside. */
	t->depth = 0;
	t->aside = depth;
	for (__u32 i = 0; i < DEPTH && i < depth; i++) {
		struct frame *frame = frame_at(t, i);

		frame->ran = t->ran - frame->ran;
		frame->preempted = t->preempted - frame->preempted;
		frame->stepped = t->stepped - frame->stepped;
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
		frame->stepped = t->stepped - frame->stepped;
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

/* Where on its stack a function of Go's is that is entered or left by a thread; 0 if that cannot be
 * told. The goroutine is followed to here. */
static __always_inline __u64 follow(struct thread *t, __u32 tgid, __u64 g, __u64 sp, __u64 now)
{
	__u64 lower = t->g == g ? 0 : is_on_own(g);

	if (!lower)
		runs_goroutine(t, tgid, g, now);
	sp = place_in_go(g, sp);
	return sp ? sp - lower : 0;
}

SEC("uprobe")
int go_leaves(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns(), g = REGS_AX(ctx);
	struct thread *t = record_of(task, now);

	on_own_stack(ctx);
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

	on_own_stack(ctx);
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

	on_own_stack(ctx);
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
