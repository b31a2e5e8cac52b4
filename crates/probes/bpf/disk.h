/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What `disk.bpf.c` and `src/disk/maps.rs` both know. */
#pragma once

#define SUMS 65536    /* pairs of a process and a file at a time */
#define FOLDED 8192   /* pairs of a process and a device, for when there is no room for more files */
#define FILES 16384   /* files whose names and last requests are remembered */
#define PAGES 1       /* the loader says how many folios may be dirty */
#define CARRIERS 1024 /* devices that others lie on */

/* Names on the way to a file, the file's own first; longer ones are cut. */
#define STEPS 8
#define STEP 64

/* Requests of one file further apart are two bursts. */
#define BURST_NS 100000000ULL

/* Whose bytes: a process, or none (0, 0). */
struct owner {
	__u32 tgid;
	__u32 started; /* tells it from an earlier process of that number */
};

/* What was done for a device above is that file's. */
#define STACKED (~0ULL)
/* What a process writes to a device without a file system is this file's. */
#define ITSELF (~0ULL - 1)

/* A file on a device; inode 0 is what belongs to no file. */
struct file {
	__u64 inode;
	__u32 device;
	__u32 generation; /* tells it from an earlier file of that number */
};

struct whose {
	struct file file;
	struct owner owner;
};

/* Bytes of one process in one file. They only grow. */
struct sums {
	__u64 dirtied;   /* pages made dirty */
	__u64 dropped;   /* of these, gone before they were written */
	__u64 written;   /* of these, sent to the device */
	__u64 direct;    /* written past the page cache */
	__u64 read;
	__u64 journal;
	__u64 metadata;
	__u64 swap;
	__u64 stacked;   /* of another device that lies on this one: written */
	__u64 stacked_read;
	__u64 bursts;    /* of writing */
	__u64 reads;     /* bursts of reading */
	__u64 last;      /* when it was changed last, ns */
	/* When there was a request last of what has no file to remember that. */
	__u64 sent;
	__u64 fetched;
	char command[16];
};

/* What is remembered of a file. */
struct known {
	__u64 wrote;         /* when something of it was sent to the device last, ns */
	__u64 read;          /* or read from it */
	__u32 named;         /* steps that are known; STEPS: perhaps not all */
	__u32 unused;
	char path[STEPS][STEP];
};

/* What found no room. */
struct lost {
	__u64 sums;  /* bytes that are in no sum */
	__u64 pages; /* bytes that were dirtied and whose owner may be told wrongly */
};
