/* The program that the tests of USDT probes watch: `usdt WHAT N`. Built with -DSEMAPHORES, it skips its
 * probes unless there is an observer. */
#ifdef SEMAPHORES
#define _SDT_HAS_SEMAPHORES 1
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <time.h>

#ifdef SEMAPHORES
#define SEMAPHORE(name) \
	__extension__ unsigned short name __attribute__((unused)) __attribute__((section(".probes")))
SEMAPHORE(tests_work__start_semaphore);
SEMAPHORE(tests_work__done_semaphore);
#define LOOKED_AT(name) __builtin_expect(*(volatile unsigned short *)&name, 0)
#define START(n) do { if (LOOKED_AT(tests_work__start_semaphore)) DTRACE_PROBE1(tests, work__start, n); } while (0)
#define DONE(n) do { if (LOOKED_AT(tests_work__done_semaphore)) DTRACE_PROBE1(tests, work__done, n); } while (0)
#else
#define START(n) DTRACE_PROBE1(tests, work__start, n)
#define DONE(n) DTRACE_PROBE1(tests, work__done, n)
#endif

static void run_for(uint64_t ns)
{
	struct timespec t;
	uint64_t now, end = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
		end = end ? end : now + ns;
	} while (now < end);
}

/* In each of its callers, so that each probe has two places. */
static inline __attribute__((always_inline)) void work(long n)
{
	START(n);
	run_for(1000000);
	DONE(n);
}

int main(int count, char **arguments)
{
	long n = count > 1 ? atol(arguments[1]) : 1;

	for (long i = 0; i < n; i++) {
		if (i % 3)
			work(i);
		else
			work(-i);
	}
	return 0;
}
