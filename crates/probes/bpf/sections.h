/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What `sections.bpf.c` and `src/sections/maps.rs` both know. */
#pragma once

#define SECTIONS 256    /* sections at a time */
#define NODES 4096      /* stacks of sections that may occur */
#define DEPTH 16        /* sections that a thread may have open */
#define GOROUTINES 32768 /* off their threads in a section at a time */
#define PROCESSES 16384 /* watched at a time */

/* Lengths in bands, sixteen to each doubling, up to 2^44 ns (4.9 hours). */
#define BANDS 672

/* The cookie of a probe: the number of its section, and these. */
#define IS_FUNCTION (1ULL << 32) /* begins and ends with a frame of the stack */
#define AT_RETURN (1ULL << 33)   /* ends at an instruction: the return address is on the stack yet */
#define IN_GO (1ULL << 34)       /* in code that Go compiled: on a goroutine's stack */
#define STEPPED (1ULL << 35)     /* the kernel single-steps the instruction behind the probe */

/* Calls of one section, on one CPU. */
struct section {
	__u64 calls;     /* that have ended */
	__u64 begun;
	__u64 length;    /* of those that ended, ns */
	__u64 ran;       /* of that, on a CPU, ns */
	__u64 preempted; /* of that, ready to run and not running, ns */
	__u64 unended;   /* begun, and left by another way or cut off by the thread's end */
	__u64 unbegun;   /* ended, and begun before anybody watched */
	__u64 too_deep;  /* begun when the thread had DEPTH sections open */
	__u32 bands[BANDS];
};

/* What one CPU did, ns. */
struct cpu {
	__u64 since;
	__u64 busy;
	__u64 idle;
	__u64 stolen; /* taken away by the hypervisor */
	__u64 came;   /* when the present task came */
	__u64 ran;    /* what that had run by then, by the scheduler's books */
	__u64 pid;    /* who that is */
	__u64 lost;   /* calls that ended and could not be told: the reader was too slow */
	__u64 told;   /* calls that were told since the reader was woken last */
};

/* A call that has ended, as it is told to who wants each. */
struct call {
	__u64 began;     /* ns */
	__u64 ended;     /* ns; when it was seen to have been left, if it was left by another way */
	__u64 ran;       /* ns, likewise below */
	__u64 preempted;
	__u64 stepped;   /* between began and ended, and no part of the call's length */
	__u32 pid;
	__u32 tid;
	__u32 section;
	__u32 outer;     /* the section around it, or NO_SECTION */
	__u32 depth;     /* how many there were around it */
	__u32 is_left;   /* by another way than its end */
};

#define NO_SECTION 0xffffffffU

/* What the loader sets before the programs are loaded. */
struct settings {
	__u32 tell_calls; /* each call that ends is told */
	__u32 wake_after; /* so many on one CPU wake the reader */
	__u64 step_ns;    /* what a thread needs to get past an instruction that is single-stepped */
};
