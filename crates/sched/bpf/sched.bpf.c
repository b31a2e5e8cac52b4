// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler by operations per joule (Singh 2014, chapter 5), as a sched_ext class.
 *
 * Each CPU has a queue of its own, ordered by OPJ. At the end of a quantum the task gets the OPJ of that quantum, and
 * the task with the highest OPJ runs next. Every n quanta, with n tasks, one of a random rank is promoted. With a bound,
 * the task that has waited longest runs as soon as it and all behind it are just in time. The rules are those of
 * `nightwatt_corun::pure::run_queue`, and a test replays decisions of this program through it.
 *
 * Only tasks of the policy SCHED_EXT are ours. */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MILLISECOND 1000000ULL
/* The OPJ of a new task: above all others. */
#define NEW (1ULL << 52)
#define HIGHEST (NEW - 1)
#define NO_RANK 0xffffffffU

enum policy { PUBLISHED, RELATIVE, BOUNDED };
enum counted { GIVEN, COUNTED };

/* Set before loading. */
const volatile struct {
	u64 quantum_ns;
	u64 bound_quanta;
	u32 policy;
	u32 counted;
	u32 traces;
	u32 pad;
} settings = { 4 * MILLISECOND, 50, BOUNDED, GIVEN, 0, 0 };

struct cpu {
	/* The number of the quantum. */
	u64 now;
	/* Quanta since the last promotion. */
	u64 since_promotion;
	u64 arrivals;
	/* Statistics. */
	u64 picks;
	u64 promotions;
	u64 overdue;
	u64 stolen;
	/* The task that was chosen had left the queue. */
	u64 missed;
	/* The longest wait, in quanta. */
	u64 longest_wait;
	/* Events of the trace, and those that had no room. */
	u64 events;
	u64 lost;
	/* The most tasks that wanted to run. */
	u64 most_tasks;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* Milliwatts of the machine. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} power SEC(".maps");

/* A counter of operations for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} counters SEC(".maps");

/* What a launcher hands over of a process, by its number. */
struct wanted {
	/* Its OPJ, where none is counted. */
	u64 opj;
	/* Its OPJ when it runs alone. */
	u64 alone;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct wanted);
} nw_wanted SEC(".maps");

struct task {
	u64 opj;
	/* The number of the quantum in which it began to wait, and that of its arrival among all of its CPU. */
	u64 since;
	u64 arrival;
	/* What its launcher handed over, or that of its parent. */
	struct wanted wanted;
	/* Of the quantum that is not over. */
	u64 operations;
	u64 nanoseconds;
	/* Where it began to run. */
	u64 began_ns;
	u64 began_count;
	u32 runs;
	/* In the queue of a CPU. */
	u32 waits;
	u32 cpu;
	u32 is_promoted;
	/* Its end of quantum is in the trace. */
	u32 is_ranked;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

enum kind { ADD = 1, PICK, REMOVE, STEAL, END };

struct event {
	u64 now;
	u64 opj;
	u32 kind;
	u32 cpu;
	u32 pid;
	/* The rank that was drawn for a promotion, from 0. */
	u32 rank;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

/* Why the kernel ended the scheduler. */
struct ending {
	u64 code;
	u32 kind;
	u32 is_over;
	char reason[128];
	char message[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ending);
} ending SEC(".maps");

static struct cpu *cpu_of(u32 number)
{
	return bpf_map_lookup_elem(&cpus, &number);
}

static void trace(struct cpu *cpu, u32 number, u32 kind, u32 pid, u64 opj, u32 rank)
{
	struct event *event;

	if (!settings.traces)
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		cpu->lost += 1;
		return;
	}
	event->now = cpu->now;
	event->opj = opj;
	event->kind = kind;
	event->cpu = number;
	event->pid = pid;
	event->rank = rank;
	cpu->events += 1;
	/* The loader looks from time to time: waking it would be a task more for each decision. */
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static u64 count(void)
{
	struct bpf_perf_event_value value = {};

	if (settings.counted != COUNTED)
		return 0;
	if (bpf_perf_event_read_value(&counters, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return 0;
	return value.counter;
}

/* Adds what a task has done since it began to run, or since this was called last. */
static void add_up(struct task *task)
{
	u64 ns = bpf_ktime_get_ns(), counted;

	if (!task->runs)
		return;
	task->nanoseconds += ns - task->began_ns;
	task->began_ns = ns;
	/* One that is stopped by another CPU has left its counter there: what it did since is not known. */
	if (bpf_get_smp_processor_id() != task->cpu)
		return;
	counted = count();
	task->operations += counted - task->began_count;
	task->began_count = counted;
}

/* The OPJ of the quantum that ends here. */
static void rank(struct task_struct *p, struct task *task)
{
	u32 process = p->tgid, zero = 0;
	struct wanted *wanted = bpf_map_lookup_elem(&nw_wanted, &process);
	u64 *milliwatts = bpf_map_lookup_elem(&power, &zero);
	u64 opj, microjoules;

	/* One that has not run yet is new. */
	if (!task->nanoseconds)
		return;
	if (wanted)
		task->wanted = *wanted;
	if (settings.counted == COUNTED) {
		/* Operations by millijoule. Below a microjoule there is nothing to divide by. The loader lets a machine have
		 * at most a megawatt, and more than 4 s of it would not fit. */
		microjoules = task->nanoseconds < 1ULL << 32 ? task->nanoseconds : 1ULL << 32;
		microjoules = milliwatts ? *milliwatts * microjoules / 1000000 : 0;
		opj = microjoules ? task->operations * 1000 / microjoules : 0;
	} else {
		opj = task->wanted.opj;
	}
	if (settings.policy == RELATIVE && task->wanted.alone)
		opj = opj * 1000 / task->wanted.alone;
	task->opj = opj < HIGHEST ? opj : HIGHEST;
	task->operations = 0;
	task->nanoseconds = 0;
}

/* Waits from now on. */
static void arrive(struct cpu *cpu, struct task *task)
{
	task->since = cpu->now;
	task->arrival = cpu->arrivals;
	cpu->arrivals += 1;
	task->is_promoted = 0;
}

SEC("struct_ops/select_cpu")
s32 BPF_PROG(on_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

SEC("struct_ops/enqueue")
void BPF_PROG(on_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *task = bpf_task_storage_get(&tasks, p, 0, 0);
	u32 number = scx_bpf_task_cpu(p);
	struct cpu *cpu = cpu_of(number);
	u64 vtime;

	if (!task || !cpu)
		return;
	if (!task->is_ranked) {
		rank(p, task);
		arrive(cpu, task);
		trace(cpu, number, ADD, p->pid, task->opj, NO_RANK);
	}
	task->is_ranked = 0;
	task->waits = 1;
	task->cpu = number;
	/* The lowest is first, by the sign of the difference. */
	vtime = -task->opj;
	if (__scx_bpf_dsq_insert_vtime) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = number,
			.slice = settings.quantum_ns,
			.vtime = vtime,
			.enq_flags = enq_flags,
		};

		__scx_bpf_dsq_insert_vtime(p, &args);
	} else if (scx_bpf_dsq_insert_vtime) {
		scx_bpf_dsq_insert_vtime(p, number, settings.quantum_ns, vtime, enq_flags);
	}
}

/* What a queue holds, in one pass. */
struct survey {
	/* When the task that waits longest came, and its place. */
	u64 oldest;
	u64 since;
	u32 oldest_place;
	u32 tasks;
	u32 promoted;
	/* How many are above the task that has just run, and how many of these are promoted. */
	u32 above;
	u32 promoted_above;
};

/* Not static: so the verifier follows it once, by itself, and not from each place that calls it. What changes in the
 * loop is in `found`, whose numbers it does not follow: with a local counter, it would look at each round. */
__noinline int survey(u64 queue, u64 opj, struct survey *found)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct task *task;

	if (!found)
		return 0;
	found->oldest = ~0ULL;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		task = bpf_task_storage_get(&tasks, p, 0, 0);
		if (task) {
			if (task->arrival < found->oldest) {
				found->oldest = task->arrival;
				found->since = task->since;
				found->oldest_place = found->tasks;
			}
			if (task->is_promoted)
				found->promoted += 1;
			if (task->is_promoted && task->opj >= opj)
				found->promoted_above += 1;
			if (task->is_promoted || task->opj >= opj)
				found->above += 1;
		}
		found->tasks += 1;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/* How a task is found in a pass over a queue, from the highest: the nth of all, or the nth that is (not) promoted. */
enum among { ALL, PROMOTED, OTHERS };

struct search {
	u64 queue;
	u32 among;
	u32 nth;
	/* Only promote it; else it runs next here. */
	u32 promotes;
	u32 number;
	u32 rank;
	/* How many were passed. */
	u32 passed;
};

static __always_inline int found_by(const struct search *search, struct bpf_iter_scx_dsq *it,
				    struct task_struct *p, struct task *task)
{
	struct cpu *cpu = cpu_of(search->number);
	u64 waited;

	if (!cpu || !scx_bpf_dsq_move(it, p, DSQ_LOCAL, 0))
		return 0;
	task->waits = 0;
	task->is_promoted = 0;
	if (search->queue != search->number) {
		cpu->stolen += 1;
		trace(cpu, search->queue, STEAL, p->pid, task->opj, NO_RANK);
		return 1;
	}
	waited = cpu->now - task->since;
	if (waited > cpu->longest_wait)
		cpu->longest_wait = waited;
	trace(cpu, search->number, PICK, p->pid, task->opj, search->rank);
	return 1;
}

__noinline int reach(struct search *search)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct task *task;
	int done = 0;

	if (!search)
		return 0;
	search->passed = 0;
	/* From the lowest, if it is the queue of another CPU. */
	bpf_iter_scx_dsq_new(&it, search->queue, search->queue == search->number ? 0 : FROM_LOWEST);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		task = bpf_task_storage_get(&tasks, p, 0, 0);
		if (!task)
			continue;
		if (search->queue != search->number && !bpf_cpumask_test_cpu(search->number, p->cpus_ptr))
			continue;
		if (search->among != ALL && (search->among == PROMOTED) != !!task->is_promoted)
			continue;
		if (search->passed < search->nth) {
			search->passed += 1;
			continue;
		}
		if (search->promotes) {
			task->is_promoted = 1;
			done = 1;
		} else {
			done = found_by(search, &it, p, task);
		}
		break;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return done;
}

/* The task that has just run goes on for another quantum. */
static void keep(struct cpu *cpu, u32 number, struct task_struct *p, struct task *task, u32 drawn)
{
	task->is_ranked = 0;
	task->is_promoted = 0;
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, settings.quantum_ns);
	else
		p->scx.slice = settings.quantum_ns;
	trace(cpu, number, PICK, p->pid, task->opj, drawn);
}

/* A CPU without tasks of its own takes the lowest of another one that may run here: it waits longest there. */
static void steal(u32 number)
{
	int all = scx_bpf_nr_cpu_ids(), step;

	/* Always so. Without a use of the type itself, clang describes it as unknown, and the loader refuses its test. */
	if (!bpf_core_type_exists(struct cpumask))
		return;
	bpf_for(step, 1, all) {
		struct search search = { .number = number, .rank = NO_RANK, .among = ALL };
		u32 other = number + step;

		if (other >= (u32)all)
			other -= all;
		search.queue = other;
		if (reach(&search))
			return;
	}
}

/* Promotes the task of a place, counted from the highest. The task that has just run is below its equals. */
static void promote(struct search *search, struct survey *found, struct task *last, u32 place)
{
	if (last && place == found->above) {
		last->is_promoted = 1;
		return;
	}
	if (place < found->promoted)
		return;
	search->among = OTHERS;
	search->nth = place - found->promoted - (last && place > found->above ? 1 : 0);
	search->promotes = 1;
	if (reach(search))
		found->promoted += 1;
	search->promotes = 0;
}

SEC("struct_ops/dispatch")
void BPF_PROG(on_dispatch, s32 cpu_number, struct task_struct *prev)
{
	u32 number = cpu_number, all;
	struct cpu *cpu = cpu_of(number);
	struct task *last = NULL;
	struct survey found = {};
	struct search search = { .queue = number, .number = number, .rank = NO_RANK };

	if (!cpu)
		return;
	if (prev && (prev->scx.flags & TASK_QUEUED))
		last = bpf_task_storage_get(&tasks, prev, 0, 0);
	if (last) {
		add_up(last);
		rank(prev, last);
	}
	survey(number, last ? last->opj : NEW, &found);
	all = found.tasks + (last ? 1 : 0);
	if (!all) {
		steal(number);
		return;
	}
	cpu->now += 1;
	cpu->picks += 1;
	if (all > cpu->most_tasks)
		cpu->most_tasks = all;
	if (last) {
		arrive(cpu, last);
		last->is_ranked = 1;
		trace(cpu, number, ADD, prev->pid, last->opj, NO_RANK);
	}
	if (cpu->since_promotion >= all) {
		search.rank = bpf_get_prandom_u32() % all;
		cpu->since_promotion = 0;
		cpu->promotions += 1;
		/* Ranks are from the lowest. */
		promote(&search, &found, last, all - 1 - search.rank);
	}
	cpu->since_promotion += 1;
	search.among = ALL;
	search.nth = 0;
	if (settings.policy == BOUNDED && found.tasks && cpu->now - found.since + all - 1 > settings.bound_quanta) {
		/* Who is promoted waits for that. */
		cpu->overdue += 1;
		search.nth = found.oldest_place;
	} else if (last && (last->is_promoted ? !found.promoted_above : !found.above && !found.promoted)) {
		keep(cpu, number, prev, last, search.rank);
		return;
	} else if (found.promoted) {
		search.among = PROMOTED;
	}
	if (!reach(&search))
		cpu->missed += 1;
}

SEC("struct_ops/running")
void BPF_PROG(on_running, struct task_struct *p)
{
	struct task *task = bpf_task_storage_get(&tasks, p, 0, 0);

	if (!task)
		return;
	task->waits = 0;
	task->runs = 1;
	task->cpu = scx_bpf_task_cpu(p);
	task->began_ns = bpf_ktime_get_ns();
	task->began_count = count();
}

SEC("struct_ops/stopping")
void BPF_PROG(on_stopping, struct task_struct *p, bool runnable)
{
	struct task *task = bpf_task_storage_get(&tasks, p, 0, 0);

	if (!task)
		return;
	add_up(task);
	task->runs = 0;
}

/* Sleeps, ends, or is not ours any more. */
SEC("struct_ops/quiescent")
void BPF_PROG(on_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task *task = bpf_task_storage_get(&tasks, p, 0, 0);
	struct cpu *cpu;

	if (!task)
		return;
	cpu = cpu_of(task->cpu);
	if (cpu && (task->waits || task->is_ranked))
		trace(cpu, task->cpu, REMOVE, p->pid, task->opj, NO_RANK);
	task->waits = 0;
	task->is_ranked = 0;
}

SEC("struct_ops.s/init_task")
s32 BPF_PROG(on_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *task = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!task)
		return -12; /* ENOMEM */
	task->opj = NEW;
	if (args->fork) {
		struct task *parent = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);

		if (parent)
			task->wanted = parent->wanted;
	}
	return 0;
}

/* Another process may get its number. */
SEC("struct_ops/exit_task")
void BPF_PROG(on_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 process = p->tgid;

	if (p->pid == p->tgid)
		bpf_map_delete_elem(&nw_wanted, &process);
}

SEC("struct_ops.s/init")
s32 BPF_PROG(on_init)
{
	int all = scx_bpf_nr_cpu_ids(), number;
	s32 refused = 0;

	bpf_for(number, 0, all) {
		refused = scx_bpf_create_dsq(number, -1);
		if (refused)
			break;
	}
	return refused;
}

SEC("struct_ops/exit")
void BPF_PROG(on_exit, struct scx_exit_info *info)
{
	u32 zero = 0;
	struct ending *it = bpf_map_lookup_elem(&ending, &zero);
	struct event *event;

	if (!it)
		return;
	it->kind = info->kind;
	it->code = info->exit_code;
	bpf_probe_read_kernel_str(it->reason, sizeof(it->reason), info->reason);
	bpf_probe_read_kernel_str(it->message, sizeof(it->message), info->msg);
	it->is_over = 1;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return;
	*event = (struct event){ .kind = END };
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
}

SEC(".struct_ops.link")
struct sched_ext_ops nightwatt = {
	.select_cpu = (void *)on_select_cpu,
	.enqueue = (void *)on_enqueue,
	.dispatch = (void *)on_dispatch,
	.running = (void *)on_running,
	.stopping = (void *)on_stopping,
	.quiescent = (void *)on_quiescent,
	.init_task = (void *)on_init_task,
	.exit_task = (void *)on_exit_task,
	.init = (void *)on_init,
	.exit = (void *)on_exit,
	.flags = SWITCH_PARTIAL,
	.timeout_ms = 30000,
	.name = "nightwatt",
};

char LICENSE[] SEC("license") = "GPL";
