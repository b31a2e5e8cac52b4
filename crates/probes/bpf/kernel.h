/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The few kernel types that our programs read. The loader relocates the fields by the running
 * kernel's own BTF (CO-RE), so neither kernel headers nor a vmlinux.h are needed to build. */
#pragma once

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
typedef __u64 u64;
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
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};
enum { BPF_F_NO_PREALLOC = 1 };
enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};
/* Of `task_struct.flags`: a thread of the kernel's own. */
enum { PF_KTHREAD = 0x00200000 };
/* Of `task_struct.__state`: it will not come back. */
enum { TASK_DEAD = 0x80 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	struct uprobes_state uprobes_state;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	__u64 start_time;
	struct task_struct *group_leader;
	char comm[16];
	unsigned int __state;
	struct sched_entity se;
	__u64 utime;
	__u64 stime;
	struct mm_struct *mm;
	struct signal_struct *signal;
};

struct linux_binprm;


#pragma clang attribute pop

/* The registers of a user program where a probe was hit. Only those that PT_REGS_* name. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip,
		cs, flags, sp, ss;
};
#define REGS_SP(ctx) ((ctx)->sp)
/* Where Go keeps the goroutine while code of its own runs. */
#define REGS_G(ctx) ((ctx)->r14)
/* Where its runtime has what it changes from and to, at the probes of `goroutines.h`. */
#define REGS_AX(ctx) ((ctx)->ax)
#define REGS_BX(ctx) ((ctx)->bx)
#define REGS_DX(ctx) ((ctx)->dx)
/* Where a function that has just been entered will return to. */
#define RETURNS_TO(ctx, to) bpf_probe_read_user(to, sizeof(*(to)), (void *)(ctx)->sp)
/* A call pushes its return address: at the return the stack is by this much shorter. */
#define RETURN_ADDRESS 8
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
struct pt_regs;
#define REGS_SP(ctx) (((const struct user_pt_regs *)(ctx))->sp)
#define REGS_G(ctx) (((const struct user_pt_regs *)(ctx))->regs[28])
/* There are no probes at its runtime yet. */
#define REGS_AX(ctx) 0
#define REGS_BX(ctx) 0
#define REGS_DX(ctx) 0
#define RETURNS_TO(ctx, to) (*(to) = ((const struct user_pt_regs *)(ctx))->regs[30], 0)
#define RETURN_ADDRESS 0
#else
#error "no probes for this architecture"
#endif
