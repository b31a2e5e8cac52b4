/* `calls CALLS TURNS`: marks a section so often, each time after so many turns of a loop, and prints the
 * CPU time that took, ns. `calls burst CALLS`: the time of so many calls at once, after the first.
 * Built with -DWITHOUT there are no markers in it. */
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

int main(int count, char **arguments)
{
	int is_burst = count > 2 && !strcmp(arguments[1], "burst");
	long calls = count > 2 ? atol(arguments[is_burst ? 2 : 1]) : 0;
	long turns = is_burst ? 0 : count > 2 ? atol(arguments[2]) : 0;
	uint64_t begin;

	/* The first marks make memory and touch it, and are not what is asked for. */
	for (long n = 0; n < (is_burst ? calls : 1); n++)
		call(0);
	begin = used();
	for (long n = 0; n < calls; n++)
		call(turns);
	printf("%llu\n", (unsigned long long)(used() - begin));
	return 0;
}
