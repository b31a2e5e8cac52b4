/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sections of code that `nightwatt caliper --markers` measures. C99 with GNU extensions (-std=gnu99,
 * or -D_GNU_SOURCE), C++11; GCC or clang; Linux; nothing to link.
 *
 *     #include <nightwatt.h>
 *
 *     NIGHTWATT_BEGIN("parse");            C and C++
 *     ...
 *     NIGHTWATT_END("parse");
 *
 *     { NIGHTWATT_SECTION("parse"); ... }  ends with the block, by exceptions too
 *
 * Behind `case` it needs a block of its own: a jump past it would end what never began.
 *
 * While no reader is attached, a marker is two loads and a branch. While one is, a marker reads the
 * clock and writes 16 bytes into memory that this process shares with nightwatt; the kernel is not
 * entered. A marker never waits: where there is no room it only counts the call.
 *
 * A section ends in the thread in which it began. Sections may nest and overlap. Not to be used in
 * signal handlers. docs/markers.md has the layout of the memory and what happens at fork.
 */
#ifndef NIGHTWATT_H
#define NIGHTWATT_H

#ifndef __linux__
#error "nightwatt.h is for Linux"
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
/* What has to be cast differs between systems. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif
extern "C" {
#endif

#define NIGHTWATT_SECTIONS 256
#define NIGHTWATT_RINGS 128
#define NIGHTWATT_RECORDS 65536u

struct nightwatt_record {
	uint64_t at;   /* CLOCK_MONOTONIC, ns */
	uint32_t what; /* a section; the thread where it takes the ring */
	uint32_t kind; /* 1: begins; 2: ends; 3: a thread takes the ring */
};

struct nightwatt_head {
	uint32_t owner;   /* the thread that writes; 0: none */
	uint32_t reading; /* the writer's own: `enabled` when it wrote last */
	uint64_t written; /* records so far */
	uint64_t lost;    /* calls that found no room */
	uint64_t open;    /* the writer's own: begun and not ended */
	uint64_t unused[4];
	uint64_t read; /* the reader's: records read so far */
	uint64_t unused_too[7];
};

struct nightwatt_front {
	char magic[8];
	uint32_t version;
	uint32_t process;
	uint32_t enabled;  /* the reader's: 0 while no reader is attached */
	uint32_t reader;   /* the reader's: its process */
	uint32_t sections; /* names that are there */
	uint32_t refused;  /* names that there was no room for */
	uint64_t unused;
	uint32_t readings; /* the reader's: how many times a reader has attached */
	uint32_t visible;  /* the reader's: its process, if it is in this process's PID namespace */
	uint64_t without_ring; /* calls in threads that found no ring */
	uint64_t unused_as_well;
	char socket[108]; /* the reader's: where children are to report */
	char rest[4096 - 64 - 108];
	char names[NIGHTWATT_SECTIONS][64];
	struct nightwatt_head heads[NIGHTWATT_RINGS];
};

struct nightwatt_ring {
	uint64_t lost[NIGHTWATT_SECTIONS];    /* calls that found no room */
	uint32_t skipped[NIGHTWATT_SECTIONS]; /* the writer's own: of these, not ended yet */
	char rest[4096 - 12 * NIGHTWATT_SECTIONS];
	struct nightwatt_record records[NIGHTWATT_RECORDS];
};

#define NIGHTWATT_SIZE \
	(sizeof(struct nightwatt_front) + NIGHTWATT_RINGS * sizeof(struct nightwatt_ring))

/* A file of ours. Whether it is still there is told by what it is: a program may close all files. */
struct nightwatt_file {
	int number;
	uint64_t device;
	uint64_t inode;
};

/* One of a process, however many files and libraries have this header in them; and so the layout's
 * version is in its name. */
struct nightwatt_process {
	/* Whether anybody reads: the shared word, or `first` before there is one. */
	const volatile uint32_t *enabled;
	uint32_t first;
	uint32_t never; /* there is no memory to share: 0 for ever */
	struct nightwatt_front *front;
	pthread_mutex_t lock;
	pthread_key_t key;
	int has_key;
	uint32_t is_ready; /* for `lock` to be taken */
	struct nightwatt_file file;
	struct nightwatt_file socket;
	uint32_t sections;
	const char *names[NIGHTWATT_SECTIONS];
	char reader[108]; /* of the parent, where that was read */
};

struct nightwatt_thread {
	struct nightwatt_front *front; /* of whose ring it is */
	struct nightwatt_head *head;
	struct nightwatt_ring *ring;
	uint32_t refused; /* the reading in which there was no ring for it */
	uint32_t tries;   /* and how often it wanted one since */
};

/* Kernel ABI; headers hide them without _GNU_SOURCE. */
#define NIGHTWATT_ADD_SEALS 1033      /* F_ADD_SEALS */
#define NIGHTWATT_SEALS (1 | 2 | 4)   /* F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW */
#define NIGHTWATT_MEMFD_FLAGS (1 | 2) /* MFD_CLOEXEC | MFD_ALLOW_SEALING */

#define NIGHTWATT_SHARED __attribute__((weak, visibility("default")))
/* A thread that found no ring looks again at each so manieth call. */
#define NIGHTWATT_TRIES 1024u

extern struct nightwatt_process nightwatt_process_v1;
extern __thread struct nightwatt_thread nightwatt_thread_v1;
NIGHTWATT_SHARED struct nightwatt_process nightwatt_process_v1 = {
	&nightwatt_process_v1.first, 1, 0, NULL, PTHREAD_MUTEX_INITIALIZER, 0, 0, 0,
	{-1, 0, 0}, {-1, 0, 0}, 0, {0}, {0},
};
NIGHTWATT_SHARED __thread struct nightwatt_thread nightwatt_thread_v1 = {NULL, NULL, NULL, 0, 0};

/* Not there in programs that are linked statically, or by a C library before 2.34 without -ldl. */
struct nightwatt_object {
	const char *path;
	void *base;
	const char *symbol;
	void *address;
};
extern int nightwatt_dladdr(const void *, struct nightwatt_object *) __asm__("dladdr")
	__attribute__((weak));
extern void *nightwatt_dlopen(const char *, int) __asm__("dlopen") __attribute__((weak));

/* 0: no reader is attached. */
static inline uint32_t nightwatt_enabled(void)
{
	return __atomic_load_n(__atomic_load_n(&nightwatt_process_v1.enabled, __ATOMIC_ACQUIRE),
			       __ATOMIC_RELAXED);
}

static inline void nightwatt_name(struct nightwatt_front *front, uint32_t number, const char *name)
{
	strncpy(front->names[number], name, sizeof(front->names[number]) - 1);
	__atomic_store_n(&front->sections, number + 1, __ATOMIC_RELEASE);
}

static inline struct nightwatt_file nightwatt_file_of(int number)
{
	struct nightwatt_file file = {-1, 0, 0};
	struct stat stat;

	if (number >= 0 && fstat(number, &stat) == 0) {
		file.number = number;
		file.device = (uint64_t)stat.st_dev;
		file.inode = (uint64_t)stat.st_ino;
	}
	return file;
}

/* Unless the program has closed all files, and may have another there. */
static inline int nightwatt_is_there(const struct nightwatt_file *file)
{
	struct nightwatt_file there = nightwatt_file_of(file->number);

	return there.number >= 0 && there.device == file->device && there.inode == file->inode;
}

static inline void nightwatt_close(struct nightwatt_file *file)
{
	if (nightwatt_is_there(file))
		close(file->number);
	file->number = -1;
}

/* Not where a program that has closed its standard files believes these to be. */
static inline int nightwatt_above_standard(int file)
{
	int above = file;

	if (file >= 0 && file <= 2) {
		above = fcntl(file, F_DUPFD_CLOEXEC, 3);
		close(file);
	}
	return above;
}

/* Hands the memory to the reader that waits at that socket; within a second or not at all. */
static inline int nightwatt_report(int file, const char *reader)
{
	struct sockaddr_un address;
	struct timeval limit = {1, 0};
	struct msghdr message;
	struct iovec text = {(void *)"m", 1};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} rights;
	size_t length = strlen(reader);
	int to;

	if (length < 2 || length > sizeof(address.sun_path) || reader[0] != '@')
		return -1;
	to = nightwatt_above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (to < 0)
		return -1;
	memset(&address, 0, sizeof(address));
	address.sun_family = AF_UNIX;
	memcpy(address.sun_path + 1, reader + 1, length - 1);
	memset(&message, 0, sizeof(message));
	memset(&rights, 0, sizeof(rights));
	message.msg_iov = &text;
	message.msg_iovlen = 1;
	message.msg_control = &rights;
	message.msg_controllen = sizeof(rights);
	rights.header.cmsg_level = SOL_SOCKET;
	rights.header.cmsg_type = SCM_RIGHTS;
	rights.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&rights.header), &file, sizeof(file));
	setsockopt(to, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(to, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) == 0 &&
	    sendmsg(to, &message, MSG_NOSIGNAL) == 1)
		return to;
	close(to);
	return -1;
}

/* A thread that ends gives its ring to the next. */
static inline void nightwatt_thread_ends(void *of)
{
	struct nightwatt_process *process = &nightwatt_process_v1;
	struct nightwatt_thread *thread = &nightwatt_thread_v1;

	(void)of;
	if (thread->head && thread->front == process->front) {
		munmap(thread->ring, sizeof(*thread->ring));
		__atomic_store_n(&thread->head->owner, 0, __ATOMIC_RELEASE);
	}
	thread->front = NULL;
	thread->head = NULL;
}

/* A child has memory of its own, from its first marker on. */
static inline void nightwatt_child_begins(void)
{
	struct nightwatt_process *process = &nightwatt_process_v1;

	int error = errno;

	pthread_mutex_init(&process->lock, NULL);
	if (!process->front)
		return;
	process->reader[0] = 0;
	if (__atomic_load_n(&process->front->enabled, __ATOMIC_RELAXED))
		memcpy(process->reader, process->front->socket, sizeof(process->reader) - 1);
	__atomic_store_n(&process->enabled, &process->first, __ATOMIC_RELEASE);
	munmap(process->front, sizeof(*process->front));
	nightwatt_close(&process->file);
	nightwatt_close(&process->socket);
	process->front = NULL;
	/* Not even mapped here. */
	nightwatt_thread_v1.front = NULL;
	nightwatt_thread_v1.head = NULL;
	nightwatt_thread_v1.refused = 0;
	errno = error;
}

/* Keeps the library that has this in it, though its users close it: threads and forks call into it. */
static inline void nightwatt_keep(const void *address)
{
	struct nightwatt_object object = {NULL, NULL, NULL, NULL};

	if (nightwatt_dladdr && nightwatt_dlopen && nightwatt_dladdr(address, &object) && object.path)
		(void)nightwatt_dlopen(object.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Runs before `lock` is ever taken: a child that is forked while another thread holds it has to initialise
 * it again. Nor may the loader be called while it is held, since a library's constructor may wait for it.
 * Threads that come here at once all do it, which is harmless. */
static inline void nightwatt_make_ready(struct nightwatt_process *process)
{
	if (__atomic_load_n(&process->is_ready, __ATOMIC_ACQUIRE))
		return;
	nightwatt_keep(process);
	nightwatt_keep((const void *)(uintptr_t)nightwatt_child_begins);
	pthread_atfork(NULL, NULL, nightwatt_child_begins);
	__atomic_store_n(&process->is_ready, 1, __ATOMIC_RELEASE);
}

static inline struct nightwatt_front *nightwatt_share(int file)
{
	struct rlimit most;
	void *front;

	/* A larger one would kill the program (SIGXFSZ). */
	if (getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur < NIGHTWATT_SIZE ||
	    ftruncate(file, NIGHTWATT_SIZE) < 0 ||
	    fcntl(file, NIGHTWATT_ADD_SEALS, NIGHTWATT_SEALS) < 0)
		return NULL;
	front = mmap(NULL, sizeof(struct nightwatt_front), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return front == MAP_FAILED ? NULL : (struct nightwatt_front *)front;
}

/* The first marker of a process. `lock` is held. */
static inline void nightwatt_begin_process(struct nightwatt_process *process)
{
	/* A program with more rights than its caller ignores the variable. */
	const char *named = getauxval(AT_SECURE) ? NULL : getenv("NIGHTWATT_MARKERS");
	const char *reader = process->reader[0] ? process->reader : named;
	struct nightwatt_front *front = NULL;
	int file = nightwatt_above_standard(
		(int)syscall(SYS_memfd_create, "nightwatt-markers", NIGHTWATT_MEMFD_FLAGS));
	int socket = -1;

	process->never = 0;
	if (file >= 0)
		front = nightwatt_share(file);
	if (!front) {
		if (file >= 0)
			close(file);
		__atomic_store_n(&process->enabled, &process->never, __ATOMIC_RELEASE);
		return;
	}
	if (!process->has_key)
		process->has_key = pthread_key_create(&process->key, nightwatt_thread_ends) == 0;
	front->version = 1;
	front->process = (uint32_t)getpid();
	for (uint32_t i = 0; i < process->sections; i++)
		nightwatt_name(front, i, process->names[i]);
	memcpy(front->magic, "NWMARKS", 8);
	if (reader && strlen(reader) < sizeof(front->socket)) {
		memcpy(front->socket, reader, strlen(reader) + 1);
		/* From the first record on, whenever it is read. */
		front->readings = front->enabled = 1;
		socket = nightwatt_report(file, reader);
		if (socket < 0)
			front->enabled = 0;
	}
	process->file = nightwatt_file_of(file);
	process->socket = nightwatt_file_of(socket);
	process->front = front;
	__atomic_store_n(&process->enabled, &front->enabled, __ATOMIC_RELEASE);
}

/* The number of a section in this process; `site` remembers it, beside whose it is: libraries that know
 * nothing of each other have each a process of their own here, and share the sites of C++'s inline
 * functions. So it is the address of so manieth byte of that process. */
static inline uint32_t nightwatt_section(uintptr_t *site, const char *name)
{
	struct nightwatt_process *process = &nightwatt_process_v1;
	uintptr_t known = __atomic_load_n(site, __ATOMIC_RELAXED) - (uintptr_t)process;
	uint32_t number;
	int error = errno;

	if (known - 1 <= NIGHTWATT_SECTIONS)
		return (uint32_t)(known - 1);
	nightwatt_make_ready(process);
	pthread_mutex_lock(&process->lock);
	if (process->enabled == &process->first)
		nightwatt_begin_process(process);
	for (number = 0; number < process->sections; number++)
		if (!strcmp(process->names[number], name))
			break;
	if (number == process->sections && number < NIGHTWATT_SECTIONS) {
		char *copy = strdup(name);

		if (copy) {
			process->names[number] = copy;
			__atomic_store_n(&process->sections, number + 1, __ATOMIC_RELEASE);
			if (process->front)
				nightwatt_name(process->front, number, copy);
		}
	}
	if (number == process->sections) {
		if (process->front)
			process->front->refused++;
		number = NIGHTWATT_SECTIONS;
	}
	pthread_mutex_unlock(&process->lock);
	__atomic_store_n(site, (uintptr_t)process + number + 1, __ATOMIC_RELAXED);
	errno = error;
	return number;
}

static inline void nightwatt_write(struct nightwatt_thread *thread, uint32_t what, uint32_t kind)
{
	struct nightwatt_head *head = thread->head;
	struct nightwatt_record *record;
	struct timespec now;

	/* The ring is larger than a cache, and the clock waits for what was written before. */
	__builtin_prefetch(&thread->ring->records[(head->written + 8) % NIGHTWATT_RECORDS], 1);
	clock_gettime(CLOCK_MONOTONIC, &now);
	record = &thread->ring->records[head->written % NIGHTWATT_RECORDS];
	record->at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	record->what = what;
	record->kind = kind;
	__atomic_store_n(&head->written, head->written + 1, __ATOMIC_RELEASE);
}

static inline uint64_t nightwatt_room(const struct nightwatt_head *head)
{
	return NIGHTWATT_RECORDS - (head->written - __atomic_load_n(&head->read, __ATOMIC_ACQUIRE));
}

/* A ring for this thread. None if all are taken. */
static inline int nightwatt_take_ring(struct nightwatt_thread *thread, struct nightwatt_front *front)
{
	struct nightwatt_process *process = &nightwatt_process_v1;
	uint32_t me = (uint32_t)syscall(SYS_gettid);

	if (!nightwatt_is_there(&process->file))
		return 0;
	for (uint32_t i = 0; i < NIGHTWATT_RINGS; i++) {
		struct nightwatt_head *head = &front->heads[i];
		uint32_t no_owner = 0;
		void *ring;

		if (__atomic_load_n(&head->owner, __ATOMIC_RELAXED) || nightwatt_room(head) < 2 ||
		    !__atomic_compare_exchange_n(&head->owner, &no_owner, me, 0, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		ring = mmap(NULL, sizeof(struct nightwatt_ring), PROT_READ | PROT_WRITE, MAP_SHARED,
			    process->file.number,
			    (off_t)(sizeof(*front) + i * sizeof(struct nightwatt_ring)));
		if (ring == MAP_FAILED) {
			__atomic_store_n(&head->owner, 0, __ATOMIC_RELEASE);
			return 0;
		}
		/* A child writes into its own, if it does. */
		madvise(ring, sizeof(struct nightwatt_ring), MADV_DONTFORK);
		thread->front = front;
		thread->head = head;
		thread->ring = (struct nightwatt_ring *)ring;
		head->reading = 0;
		if (process->has_key)
			pthread_setspecific(process->key, head);
		nightwatt_write(thread, me, 3);
		return 1;
	}
	return 0;
}

/* Detaches a reader that no longer runs: one that was killed could not clear the word itself. */
static inline void nightwatt_look_for_reader(struct nightwatt_front *front)
{
	int error = errno;

	if (front->visible && kill((pid_t)front->visible, 0) < 0 && errno == ESRCH)
		__atomic_store_n(&front->enabled, 0, __ATOMIC_RELAXED);
	errno = error;
}

/* Makes sure that this thread has a ring of this process and this reading. 0: no reader, or no room. */
__attribute__((noinline, cold, unused)) static int nightwatt_prepare(struct nightwatt_thread *thread,
								    uint32_t kind)
{
	struct nightwatt_process *process = &nightwatt_process_v1;
	uint32_t enabled = nightwatt_enabled();
	struct nightwatt_front *front;
	int error = errno, has_ring;

	if (!thread->head && enabled && thread->refused == enabled &&
	    ++thread->tries % NIGHTWATT_TRIES) {
		if (kind == 1)
			__atomic_fetch_add(&process->front->without_ring, 1, __ATOMIC_RELAXED);
		return 0;
	}
	/* A child of a process that had markers. */
	nightwatt_make_ready(process);
	pthread_mutex_lock(&process->lock);
	if (process->enabled == &process->first)
		nightwatt_begin_process(process);
	front = process->front;
	pthread_mutex_unlock(&process->lock);
	enabled = nightwatt_enabled();
	has_ring = enabled && (thread->head || nightwatt_take_ring(thread, front));
	errno = error;
	if (!enabled)
		return 0;
	if (!has_ring) {
		thread->refused = enabled;
		if (kind == 1)
			__atomic_fetch_add(&front->without_ring, 1, __ATOMIC_RELAXED);
		return 0;
	}
	/* What was open in a reading before is nothing to this one. */
	if (thread->head->reading != enabled) {
		thread->head->reading = enabled;
		thread->head->open = 0;
		memset(thread->ring->skipped, 0, sizeof(thread->ring->skipped));
	}
	return 1;
}

__attribute__((noinline, cold, unused)) static void nightwatt_lose(struct nightwatt_thread *thread,
								  uint32_t section)
{
	struct nightwatt_head *head = thread->head;

	thread->ring->lost[section]++;
	thread->ring->skipped[section]++;
	__atomic_store_n(&head->lost, head->lost + 1, __ATOMIC_RELEASE);
	if (head->lost % 65536 == 0)
		nightwatt_look_for_reader(thread->front);
}

static inline void nightwatt_mark(uint32_t section, uint32_t kind)
{
	struct nightwatt_thread *thread = &nightwatt_thread_v1;
	uint32_t enabled = nightwatt_enabled();

	if (!enabled || section >= NIGHTWATT_SECTIONS)
		return;
	if ((!thread->head || thread->head->reading != enabled) &&
	    !nightwatt_prepare(thread, kind))
		return;
	if (kind == 1) {
		/* Room is kept for the ends of what is open: calls get lost, never halves of them. Nor
		 * does one begin inside of one of its section that was lost, so that each end belongs
		 * to the last beginning. */
		if (thread->ring->skipped[section] || nightwatt_room(thread->head) <= thread->head->open + 1) {
			nightwatt_lose(thread, section);
			return;
		}
		thread->head->open++;
	} else if (thread->ring->skipped[section]) {
		thread->ring->skipped[section]--;
		return;
	} else if (thread->head->open) {
		thread->head->open--;
	} else if (nightwatt_room(thread->head) <= 1) {
		/* It ends a section whose beginning no reader saw. */
		return;
	}
	nightwatt_write(thread, section, kind);
}

/* By name, for names that are made at run time; a lookup each time, while a reader is attached. */
static inline void nightwatt_begin(const char *name)
{
	uintptr_t site = 0;

	if (nightwatt_enabled())
		nightwatt_mark(nightwatt_section(&site, name), 1);
}

static inline void nightwatt_end(const char *name)
{
	uintptr_t site = 0;

	if (nightwatt_enabled())
		nightwatt_mark(nightwatt_section(&site, name), 2);
}

#define NIGHTWATT_MARK(name, kind)                                                               \
	do {                                                                                     \
		static uintptr_t nightwatt_site;                                                 \
		if (__builtin_expect(nightwatt_enabled() != 0, 0))                               \
			nightwatt_mark(nightwatt_section(&nightwatt_site, (name)), (kind));      \
	} while (0)

/* `name` is the same each time that this line is reached. */
#define NIGHTWATT_BEGIN(name) NIGHTWATT_MARK(name, 1)
#define NIGHTWATT_END(name) NIGHTWATT_MARK(name, 2)

/* A section that ends with the block it stands in. */
struct nightwatt_guard {
	uintptr_t *site;
	const char *name;
#ifdef __cplusplus
	nightwatt_guard(uintptr_t *a_site, const char *a_name) : site(a_site), name(a_name)
	{
		if (__builtin_expect(nightwatt_enabled() != 0, 0))
			nightwatt_mark(nightwatt_section(site, name), 1);
	}
	~nightwatt_guard()
	{
		if (__builtin_expect(nightwatt_enabled() != 0, 0))
			nightwatt_mark(nightwatt_section(site, name), 2);
	}
	nightwatt_guard(const nightwatt_guard &) = delete;
	nightwatt_guard &operator=(const nightwatt_guard &) = delete;
#endif
};

#define NIGHTWATT_JOIN_(a, b) a##b
#define NIGHTWATT_JOIN(a, b) NIGHTWATT_JOIN_(a, b)
#ifdef __cplusplus
#define NIGHTWATT_SECTION(name)                                          \
	static uintptr_t NIGHTWATT_JOIN(nightwatt_site_, __LINE__);      \
	nightwatt_guard NIGHTWATT_JOIN(nightwatt_guard_, __LINE__)(      \
		&NIGHTWATT_JOIN(nightwatt_site_, __LINE__), (name))
}
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
#else
static inline struct nightwatt_guard nightwatt_enter(uintptr_t *site, const char *name)
{
	struct nightwatt_guard guard = {site, name};

	if (__builtin_expect(nightwatt_enabled() != 0, 0))
		nightwatt_mark(nightwatt_section(site, name), 1);
	return guard;
}

static inline void nightwatt_leave(const struct nightwatt_guard *guard)
{
	if (__builtin_expect(nightwatt_enabled() != 0, 0))
		nightwatt_mark(nightwatt_section(guard->site, guard->name), 2);
}

#define NIGHTWATT_SECTION(name)                                                                  \
	static uintptr_t NIGHTWATT_JOIN(nightwatt_site_, __LINE__);                              \
	__attribute__((cleanup(nightwatt_leave), unused)) struct nightwatt_guard NIGHTWATT_JOIN( \
		nightwatt_guard_, __LINE__) =                                                    \
		nightwatt_enter(&NIGHTWATT_JOIN(nightwatt_site_, __LINE__), (name))
#endif
#endif
