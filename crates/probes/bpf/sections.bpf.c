// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Sections of code: when a thread is in them, and for how long it ran there.
 *
 * A section begins and ends at probes in user programs. What a thread has open is a stack, and each
 * stack of sections that occurs is a node of a tree; node 0 is "in no section". The time for which a
 * thread ran is added to the node it was in, per CPU. So sums over nodes are times of CPUs: nothing
 * is counted twice, whatever is nested.
 *
 * A thread's record is touched by the thread itself (probes), by the scheduler (`on_switch`) and by
 * `flush`, which may each interrupt the one before. They share one rule: the program that counts a
 * stretch of time sets `since` to its end first, atomically.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "own_stack.h"
#include "sections.h"

struct frame {
	__u64 began;     /* ns */
	__u64 sp;        /* stack pointer at the beginning */
	__u64 ran;       /* what the thread had run when it began, ns */
	__u64 preempted; /* what it had been kept from running, ns */
	__u64 stepped;   /* what the kernel had stepped for it, ns */
	__u32 section;
	__u32 node;
};

struct thread {
	__u64 since;     /* up to here its running time is counted, ns */
	__u64 ran;       /* running time so far, ns */
	__u64 preempted; /* time for which it wanted to run and did not, ns */
	__u64 stepped;   /* of `ran`, what the kernel needed to single-step behind probes, ns */
	__u64 left;      /* when it was taken off its CPU, ns */
	__u64 robbed;    /* what a hypervisor took and is in no node yet, ns */
	__u64 booked;    /* running time when it left, by the scheduler's account, ns */
	__u64 ran_then;  /* and by our account */
	__u32 node_then; /* where it was then */
	__u32 unseen;    /* it came since, and no event reported it */
	__u32 depth;
	__u32 runs;          /* on a CPU now */
	__u32 was_preempted; /* it wanted to go on running when it was taken off */
	__u64 g;             /* the goroutine it runs */
	__u64 since_g;       /* and since when, ns */
	__u32 aside;         /* see `struct aside` */
	__u32 beyond;        /* functions entered when there was no room, and not yet left */
	struct frame frames[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Processes that are watched: 1; 2 where only its children are. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, __u8);
} watched SEC(".maps");

/* (parent << 32 | section) -> node. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NODES);
	__type(key, __u64);
	__type(value, __u32);
} tree SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NODES);
	__type(key, __u32);
	__type(value, __u64);
} node_time SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SECTIONS);
	__type(key, __u32);
	__type(value, struct section);
} sections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

#include "runs.h"

/* How many nodes there are; node 0 always is. */
__u32 nodes = 1;
/* Set by the loader before anything is attached. */
__u32 watch_all = 0;

static const __u32 zero = 0;

static __always_inline void add(__u64 *sum, __u64 much)
{
	__sync_fetch_and_add(sum, much);
}

/* The mask changes no number that can occur; it shows the verifier that none leaves the array. The
 * compiler must not know the number: it would find the mask needless, and older verifiers do not. */
static __always_inline struct frame *frame_at(struct thread *t, __u32 place)
{
	barrier_var(place);
	return &t->frames[place & (DEPTH - 1)];
}

/* The stack pointer of the innermost section. */
static __always_inline __u64 node_sp(struct thread *t)
{
	return frame_at(t, t->depth - 1)->sp;
}

static __always_inline __u32 node_of(struct thread *t)
{
	return t->depth == 0 ? 0 : frame_at(t, t->depth - 1)->node;
}

/* Gives the time since the last call, less what a hypervisor has taken of it, to the node the thread
 * is in. */
static __always_inline void account(struct thread *t, __u64 now, __u64 robbed)
{
	__u32 node = node_of(t);
	__u64 *time, since;

	/* A program that interrupted us has been faster; likewise below. */
	if (now <= t->since)
		return;
	since = __sync_lock_test_and_set(&t->since, now);
	if (now <= since) {
		t->since = since;
		return;
	}
	/* If there were several sections since the thread came here, it is unknown in which one it was. */
	robbed += t->robbed;
	t->robbed = 0;
	if (robbed > now - since) {
		t->robbed = robbed - (now - since);
		robbed = now - since;
	}
	add(&t->ran, now - since - robbed);
	add(&t->preempted, robbed);
	time = bpf_map_lookup_elem(&node_time, &node);
	if (time)
		add(time, now - since - robbed);
}

/* A thread's account at one moment: `since`, `ran`, `preempted` and `stepped` that belong together,
 * though the thread may be taken off its CPU between any two instructions of ours. */
static __always_inline void read_books(const struct thread *t, struct frame *books)
{
	for (int i = 0; i < 4; i++) {
		books->began = *(volatile const __u64 *)&t->since;
		books->ran = *(volatile const __u64 *)&t->ran;
		books->preempted = *(volatile const __u64 *)&t->preempted;
		books->stepped = *(volatile const __u64 *)&t->stepped;
		if (books->began == *(volatile const __u64 *)&t->since)
			return;
	}
}

/* It runs from now on, and did not before. */
static __always_inline void comes(struct thread *t, __u64 now)
{
	t->runs = 1;
	/* It may have been taken off its CPU in a step that is counted already. */
	if (now > t->since)
		t->since = now;
	if (t->was_preempted)
		t->preempted += now - t->left;
}

/* It is here, so it has come, perhaps without an event (see `repair`). */
static __always_inline void is_here(struct thread *t, __u64 now)
{
	if (t->runs)
		return;
	t->unseen = 1;
	comes(t, now);
}

/* The node below `parent`. Node 0 where there is no room for one more. */
static __always_inline __u32 child(__u32 parent, __u32 section)
{
	__u64 key = (__u64)parent << 32 | section;
	__u32 *known = bpf_map_lookup_elem(&tree, &key);
	__u32 node;

	if (known)
		return *known;
	/* One more than there is room for tells that there was none. */
	if (nodes > NODES)
		return 0;
	node = __sync_fetch_and_add(&nodes, 1);
	if (node >= NODES)
		return 0;
	/* Of two CPUs that come here at once one loses, and its number stays unused. */
	bpf_map_update_elem(&tree, &key, &node, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&tree, &key);
	return known ? *known : 0;
}

static __always_inline bool is_watched(__u32 tgid)
{
	__u8 *how;

	if (watch_all)
		return true;
	how = bpf_map_lookup_elem(&watched, &tgid);
	return how && *how == 1;
}

/* The record of a thread that runs from now on or does already; NULL if its process is not watched. */
static __always_inline struct thread *record_of(struct task_struct *task, __u64 now)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t) {
		is_here(t, now);
		return t;
	}
	if (!is_watched(task->tgid))
		return NULL;
	t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t)
		comes(t, now);
	return t;
}

/* Which band of lengths: sixteen to each doubling. */
static __always_inline __u32 band(__u64 length)
{
	__u64 v = length;
	__u32 log = 0, found;

	if (length < 16)
		return length;
	if (v >> 32) {
		log += 32;
		v >>= 32;
	}
	if (v >> 16) {
		log += 16;
		v >>= 16;
	}
	if (v >> 8) {
		log += 8;
		v >>= 8;
	}
	if (v >> 4) {
		log += 4;
		v >>= 4;
	}
	if (v >> 2) {
		log += 2;
		v >>= 2;
	}
	log += v >> 1;
	found = (log - 3) * 16 + ((length >> (log - 4)) & 15);
	return found < BANDS ? found : BANDS - 1;
}

#include "calls.h"

/* The instruction behind this probe is single-stepped, which costs its thread time that is not the
 * section's: it counts as in no section, and in no call's length. It is skipped before it passes. */
static __always_inline void skip_step(struct thread *t, __u64 cookie, __u64 now)
{
	__u64 *outside = bpf_map_lookup_elem(&node_time, &zero), step = settings.step_ns;

	/* Two sections may begin or end at the same instruction: it is stepped once. */
	if (!(cookie & STEPPED) || !step || !outside || t->since > now + step / 2)
		return;
	add(&t->since, step);
	add(&t->ran, step);
	add(&t->stepped, step);
	add(outside, step);
}

/* What the thread has used since `frame` began; `began` becomes the present. */
static __always_inline void used_since(const struct thread *t, const struct frame *frame,
				       struct frame *used)
{
	read_books(t, used);
	used->stepped -= frame->stepped;
	used->ran -= frame->ran;
	used->ran = used->ran > used->stepped ? used->ran - used->stepped : 0;
	/* What was taken for preemption may have turned out to be running. */
	used->preempted = used->preempted > frame->preempted ? used->preempted - frame->preempted : 0;
}

/* Frames below `sp` are of functions that were left by another way: longjmp, an exception. So is one
 * at `sp`, unless the function that is entered there is its last call and returns for both. */
static __always_inline void drop_left(struct thread *t, __u64 sp, bool keeps_last)
{
	for (int i = 0; i < DEPTH; i++) {
		__u32 depth = t->depth, section;
		struct section *s;
		__u64 top;

		if (depth == 0)
			return;
		top = frame_at(t, depth - 1)->sp;
		if (top > sp || (top == sp && keeps_last))
			return;
		section = frame_at(t, depth - 1)->section;
		s = bpf_map_lookup_elem(&sections, &section);
		if (s)
			add(&s->unended, 1);
		if (settings.tell_calls) {
			struct frame used = {};

			used_since(t, frame_at(t, depth - 1), &used);
			tell(t, depth - 1, &used, true);
		}
		t->depth = depth - 1;
	}
}

#include "goroutines.h"

/* Is a function entered as the last thing that another one does, which is watched too? Then it will
 * return to where the kernel lets the other one return to. */
static __always_inline bool is_last_call(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	__u64 to = 0;

	return area && !RETURNS_TO(ctx, &to) && to == BPF_CORE_READ(area, vaddr);
}

/* The thread enters section `s`. */
static __always_inline void enter(struct thread *t, struct section *s, __u64 cookie, __u64 sp,
				  struct pt_regs *ctx)
{
	__u32 section = (__u32)cookie, top;
	struct frame *frame;

	if (cookie & IS_FUNCTION && t->depth && node_sp(t) <= sp)
		drop_left(t, sp, is_last_call(ctx));
	top = t->depth;
	if (top >= DEPTH) {
		add(&s->too_deep, 1);
		if (cookie & IS_FUNCTION)
			t->beyond++;
		return;
	}
	t->beyond = 0;
	add(&s->begun, 1);
	frame = frame_at(t, top);
	read_books(t, frame);
	/* A section that is no function has no place on the stack: nothing drops it. */
	frame->sp = cookie & IS_FUNCTION ? sp : ~0ULL;
	frame->section = section;
	frame->node = child(node_of(t), section);
	t->depth = top + 1;
}

SEC("uprobe")
int begin(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	__u32 section = (__u32)cookie;
	struct section *s = bpf_map_lookup_elem(&sections, &section);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = record_of(task, now);
	__u64 sp = REGS_SP(ctx);

	on_own_stack(ctx);
	if (!t || !s)
		return 0;
	account(t, now, 0);
	if (!(cookie & IN_GO) || (sp = follow(t, task->tgid, REGS_G(ctx), sp, now)))
		enter(t, s, cookie, sp, ctx);
	skip_step(t, cookie, now);
	return 0;
}

/* The call at `place` has ended. */
static __always_inline void count(struct section *s, struct thread *t, __u32 place)
{
	struct frame *frame = frame_at(t, place), used = {};
	__u64 length;

	used_since(t, frame, &used);
	length = used.began - frame->began;
	length = length > used.stepped ? length - used.stepped : 0;
	add(&s->calls, 1);
	add(&s->length, length);
	add(&s->ran, used.ran);
	add(&s->preempted, used.preempted);
	__sync_fetch_and_add(&s->bands[band(length)], 1);
	if (settings.tell_calls)
		tell(t, place, &used, false);
}

/* Takes the frame at `place` out; those above it now lie in other nodes. */
static __always_inline void take_out(struct thread *t, __u32 place)
{
	__u32 parent = place ? frame_at(t, place - 1)->node : 0;

	for (int i = 0; i < DEPTH && place + 1 < t->depth; i++, place++) {
		struct frame *frame = frame_at(t, place);

		*frame = *frame_at(t, place + 1);
		frame->node = child(parent, frame->section);
		parent = frame->node;
	}
	t->depth--;
}

/* The thread leaves section `s`. */
static __always_inline void leave(struct thread *t, struct section *s, __u64 cookie, __u64 sp)
{
	__u32 section = (__u32)cookie, place;

	if (!(cookie & IS_FUNCTION))
		sp = ~0ULL;
	else if (!(cookie & AT_RETURN))
		sp -= RETURN_ADDRESS;
	if (cookie & IS_FUNCTION)
		drop_left(t, sp, true);
	/* It was entered when there was no room: what is open is further up the stack. */
	if (cookie & IS_FUNCTION && t->beyond && t->depth && node_sp(t) > sp) {
		t->beyond--;
		return;
	}
	place = t->depth;
	for (int i = 0; i < DEPTH && place; i++) {
		place--;
		/* A call ends where it began. */
		if (frame_at(t, place)->section != section || frame_at(t, place)->sp != sp)
			continue;
		count(s, t, place);
		take_out(t, place);
		return;
	}
	add(&s->unbegun, 1);
}

SEC("uprobe")
int end(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	__u32 section = (__u32)cookie;
	__u64 sp = REGS_SP(ctx);
	struct section *s = bpf_map_lookup_elem(&sections, &section);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = record_of(task, now);

	on_own_stack(ctx);
	if (!t || !s)
		return 0;
	account(t, now, 0);
	if (!(cookie & IN_GO) || (sp = follow(t, task->tgid, REGS_G(ctx), sp, now)))
		leave(t, s, cookie, sp);
	skip_step(t, cookie, now);
	return 0;
}

/* A kernel may hide switches from us: that of our test machine reports no switch away from a thread of its
 * process 1, so that we do not see the next thread come. The time such a thread ran before we saw it is
 * the difference between the scheduler's account, exact at the moment at which it leaves, and ours. It ran
 * where it was when it left last, since it hit no probe in between. */
static __always_inline void repair(struct thread *t, __u64 booked)
{
	__u64 theirs = booked - t->booked, ours = t->ran - t->ran_then;
	__u64 *time = bpf_map_lookup_elem(&node_time, &t->node_then);

	if (!t->unseen || theirs <= ours || !time)
		return;
	add(&t->ran, theirs - ours);
	add(time, theirs - ours);
	/* Sections that began or came with a goroutine since are none of those in which it ran that. */
	for (__u32 i = 0; i < DEPTH && i < t->depth; i++) {
		struct frame *frame = frame_at(t, i);

		if (frame->began > t->left || t->since_g > t->left)
			frame->ran += theirs - ours;
	}
	if (t->was_preempted && t->preempted >= theirs - ours)
		add(&t->preempted, ours - theirs);
}

static __always_inline void account_cpu(struct cpu *cpu, bool was_idle, __u64 now, __u64 robbed)
{
	__u64 since = __sync_lock_test_and_set(&cpu->since, now);

	if (!since || now <= since)
		return;
	if (robbed > now - since)
		robbed = now - since;
	add(&cpu->stolen, robbed);
	add(was_idle ? &cpu->idle : &cpu->busy, now - since - robbed);
}

/* What a hypervisor took away while the task that leaves was here. The scheduler keeps it out of its
 * books, which are up to date at this moment; it is told to us in no other way. */
static __always_inline __u64 robbed_of(struct cpu *cpu, struct task_struct *prev, __u64 now)
{
	__u64 ran = prev->se.sum_exec_runtime - cpu->ran, here = now - cpu->came;

	return prev->pid && cpu->pid == prev->pid && here > ran ? here - ran : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns(), robbed, since, ran;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct thread *t;

	if (!cpu)
		return 0;
	robbed = robbed_of(cpu, prev, now);
	account_cpu(cpu, prev->pid == 0, now, robbed);
	cpu->came = now;
	cpu->ran = next->se.sum_exec_runtime;
	cpu->pid = next->pid;
	t = bpf_task_storage_get(&threads, prev, 0, 0);
	if (t) {
		is_here(t, now);
		since = t->since;
		ran = t->ran;
		account(t, now, robbed);
		repair(t, prev->se.sum_exec_runtime);
		t->booked = prev->se.sum_exec_runtime;
		t->ran_then = t->ran;
		t->node_then = node_of(t);
		t->unseen = 0;
		t->runs = 0;
		t->left = now;
		t->was_preempted = preempt || prev->__state == 0;
		tell_run(prev, since, now, t->ran - ran, then_of(prev, t->was_preempted));
	}
	if (next->pid == 0)
		return 0;
	t = record_of(next, now);
	if (t)
		t->unseen = 0;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child_task)
{
	__u32 tgid = parent->tgid, child_tgid = child_task->tgid;
	__u8 one = 1;

	/* A thread has its process's number and is watched with it. */
	if (child_tgid != tgid && bpf_map_lookup_elem(&watched, &tgid))
		bpf_map_update_elem(&watched, &child_tgid, &one, BPF_ANY);
	return 0;
}

/* No stack is above the highest address: whatever is open is left. */
static __always_inline void drop_all(struct task_struct *task)
{
	struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);
	__u64 now = bpf_ktime_get_ns(), since, ran;

	if (!t)
		return;
	is_here(t, now);
	since = t->since;
	ran = t->ran;
	account(t, now, 0);
	drop_left(t, ~0ULL, false);
	tell_run(task, since, now, t->ran - ran, THEN_GONE);
	t->g = 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *binprm)
{
	drop_all(task);
	drop_goroutines(task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	drop_all(task);
	/* The last of its threads: another process may soon get the number. */
	if (task->signal->live.counter != 0)
		return 0;
	bpf_map_delete_elem(&watched, &tgid);
	drop_goroutines(tgid);
	return 0;
}

/* Run on each CPU by the loader: brings the sums up to the present for whatever runs there. */
SEC("raw_tp")
int flush(void *ctx)
{
	__u64 now = bpf_ktime_get_ns(), since, ran;
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct thread *t;

	if (cpu)
		account_cpu(cpu, task->pid == 0, now, 0);
	/* Perhaps we did not see it come. A task that is about to wait is left to the event of its
	 * wake-up. */
	if (task->pid && task->__state == 0)
		t = record_of(task, now);
	else
		t = bpf_task_storage_get(&threads, task, 0, 0);
	if (t && t->runs) {
		since = t->since;
		ran = t->ran;
		account(t, now, 0);
		tell_run(task, since, now, t->ran - ran, THEN_RUNS);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
