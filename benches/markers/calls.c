/* `calls CALLS TURNS`: marks a section CALLS times, after TURNS turns of a loop each, and prints the CPU
 * time in ns. `calls burst CALLS`: the time of CALLS calls at once, after the first. `calls turns CALLS
 * TURNS`: now with and now without a reader, CALLS calls each; prints the medians of both times. Built
 * with -DWITHOUT there are no markers in it. */
#ifdef WITHOUT
#define NIGHTWATT_BEGIN(name) ((void)0)
#define NIGHTWATT_END(name) ((void)0)
#else
#include <nightwatt.h>
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t used(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void call(long turns)
{
	NIGHTWATT_BEGIN("call");
	for (volatile long turn = 0; turn < turns; turn++)
		;
	NIGHTWATT_END("call");
}

#ifndef WITHOUT
#define TURNS 101

static int by_size(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

static void in_turns(long calls, long turns)
{
	static uint64_t took[2][TURNS];
	uint32_t enabled;

	/* The first time that memory is touched it is made: once for each thread. */
	for (int i = 0; i < 40000; i++)
		call(0);
	usleep(300000);
	enabled = nightwatt_process_v1.front->enabled;
	for (int i = 0; i < 2 * TURNS; i++) {
		uint64_t begin = used();

		nightwatt_process_v1.front->enabled = i % 2 ? enabled : 0;
		for (long n = 0; n < calls; n++)
			call(turns);
		took[i % 2][i / 2] = used() - begin;
	}
	nightwatt_process_v1.front->enabled = enabled;
	for (int i = 0; i < 2; i++)
		qsort(took[i], TURNS, sizeof(took[i][0]), by_size);
	printf("%llu %llu\n", (unsigned long long)took[0][TURNS / 2],
	       (unsigned long long)took[1][TURNS / 2]);
}
#endif

int main(int count, char **arguments)
{
	int is_burst = count > 2 && !strcmp(arguments[1], "burst");
	long calls = count > 2 ? atol(arguments[is_burst ? 2 : 1]) : 0;
	long turns = is_burst ? 0 : count > 2 ? atol(arguments[2]) : 0;
	uint64_t begin;

#ifndef WITHOUT
	if (count > 3 && !strcmp(arguments[1], "turns")) {
		in_turns(atol(arguments[2]), atol(arguments[3]));
		return 0;
	}
#endif
	/* The first marks make memory and touch it, and are not what is asked for. */
	for (long n = 0; n < (is_burst ? calls : 1); n++)
		call(0);
	begin = used();
	for (long n = 0; n < calls; n++)
		call(turns);
	printf("%llu\n", (unsigned long long)(used() - begin));
	return 0;
}
