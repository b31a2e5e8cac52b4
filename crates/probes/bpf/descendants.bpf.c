// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* CPU time of all that one thread starts, and of what that starts, whatever becomes of their parents and
 * wherever their cgroup is. Threads are counted when they leave their CPU for the last time: only then is
 * the scheduler's account of them complete. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define PROCESSES 16384

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, __u8);
} members SEC(".maps");

/* Threads of them that are about to end. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u8);
} ending SEC(".maps");

/* Read by the loader in this order. */
struct {
	__u64 ran;     /* of threads that have ended, ns */
	__u64 user;    /* of these in programs and in the kernel, as the kernel divides it */
	__u64 system;
	__u64 lost;    /* processes for which there was no room */
	__u32 spawner; /* the thread whose children count; set by the loader */
} sums;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = parent->tgid, to = child->tgid;
	__u8 one = 1;

	if (from == to || ((__u32)parent->pid != sums.spawner && !bpf_map_lookup_elem(&members, &from)))
		return 0;
	if (bpf_map_update_elem(&members, &to, &one, BPF_ANY))
		__sync_fetch_and_add(&sums.lost, 1);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (!bpf_map_lookup_elem(&members, &tgid))
		return 0;
	bpf_task_storage_get(&ending, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	/* The last of its threads: another process may soon get the number. */
	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&members, &tgid);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!(prev->__state & TASK_DEAD) || !bpf_task_storage_get(&ending, prev, 0, 0))
		return 0;
	__sync_fetch_and_add(&sums.ran, prev->se.sum_exec_runtime);
	__sync_fetch_and_add(&sums.user, prev->utime);
	__sync_fetch_and_add(&sums.system, prev->stime);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
