/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's types and functions that the scheduler uses. The loader relocates fields, numbers and functions by
 * the running kernel's own BTF (CO-RE), so neither kernel headers nor a vmlinux.h are needed to build. */
#pragma once

#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
#define __noinline __attribute__((noinline))

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define NULL ((void *)0)
#define true 1
#define false 0

/* From include/uapi/linux/bpf.h; numbers are kernel ABI. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
#define BPF_F_CURRENT_CPU 0xffffffffULL

/* From include/uapi/linux/bpf.h, for bpf_perf_event_read_value. */
struct bpf_perf_event_value {
	u64 counter;
	u64 enabled;
	u64 running;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct sched_ext_entity {
	u64 slice;
	u64 dsq_vtime;
	u32 flags;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int policy;
	const struct cpumask *cpus_ptr;
	struct sched_ext_entity scx;
};

enum scx_exit_kind { EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

struct scx_init_task_args {
	bool fork;
};

#pragma clang attribute pop

struct scx_exit_task_args;

/* Larger than any kernel's; each uses as much of it as its own is long. */
struct bpf_iter_scx_dsq {
	u64 opaque[16];
} __attribute__((aligned(8)));

/* `SCX_TASK_QUEUED` of `sched_ext_entity.flags`: on a run queue. */
enum { TASK_QUEUED = 1 };
/* `SCX_DSQ_LOCAL`: the queue of what runs next on this CPU. */
#define DSQ_LOCAL ((1ULL << 63) | 2)
/* `SCX_DSQ_ITER_REV`. */
#define FROM_LOWEST (1ULL << 16)
/* `SCX_OPS_SWITCH_PARTIAL`: only tasks of the policy SCHED_EXT. */
#define SWITCH_PARTIAL (1ULL << 3)

/* Members that we set; libbpf finds them by their names in the kernel's own structure. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	char name[128];
};


/* Of `bpf_for`. */
struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym __weak;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym __weak;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym __weak;

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
u32 scx_bpf_nr_cpu_ids(void) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym;

/* Until Linux 6.18 its arguments were in registers. Later kernels keep that for old programs, and this for new ones. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym __weak;
/* Since Linux 6.19; before, programs wrote the field. */
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
