/* What the tests watch. `sections WHAT [N]`; each prints what it knows of itself. */
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECTION __attribute__((noinline, noclone))

static uint64_t ran(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void run_for(uint64_t ns)
{
	uint64_t end = ran() + ns;

	while (ran() < end)
		;
}

/* Each has something of its own in it, so that no two become one. */
SECTION void nothing(void) { __asm__ volatile("nop"); }
SECTION void heavy(uint64_t ns) { run_for(ns); __asm__ volatile("nop"); }
SECTION void light(uint64_t ns) { run_for(ns); }
SECTION void outer(uint64_t ns) { run_for(ns); light(ns); run_for(ns); }
SECTION int down(int n)
{
	run_for(100000);
	return n ? 1 + down(n - 1) : 0;
}

/* As many stacks as there are ways through a tree. */
SECTION void right(int n);
SECTION void left(int n)
{
	if (n) {
		left(n - 1);
		right(n - 1);
	}
	__asm__ volatile("nop");
}

SECTION void right(int n)
{
	if (n) {
		left(n - 1);
		right(n - 1);
	}
	__asm__ volatile("nop; nop");
}

#ifdef __x86_64__
/* Functions with one body. The first instruction of two of them has to be single-stepped; that of `moved` is
 * followed by one that has not. */
SECTION __attribute__((used)) uint64_t turns(uint64_t n)
{
	uint64_t x = n | 1;

	while (n--)
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
	return x;
}

uint64_t pushed(uint64_t n), stepped(uint64_t n), moved(uint64_t n);
#define FUNCTION(name, first, last)                                      \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n" \
		first "\ncall turns\n" last "\nret\n.size " name ", . - " name "\n")
FUNCTION("pushed", "push %rbx", "pop %rbx");
FUNCTION("stepped", "sub $8, %rsp", "add $8, %rsp");
FUNCTION("moved", "mov %rdi, %rax\npush %rbx", "pop %rbx");

SECTION void around(uint64_t n)
{
	stepped(n);
	__asm__ volatile("nop; nop; nop");
}

static void same(long calls, uint64_t n)
{
	for (; calls; calls--) {
		pushed(n);
		stepped(n);
		moved(n);
		around(n);
	}
	printf("%llu\n", (unsigned long long)ran());
}
#else
static void same(long calls, uint64_t n) { }
#endif

static jmp_buf back;
SECTION void jumps(void) { longjmp(back, 1); }
SECTION void launch(const char *self) { execl(self, self, "nested", "20", NULL); }
SECTION void sleeps(void) { usleep(50000); }

static uint64_t in_heavy, in_light;

static void *alternate(void *rounds)
{
	for (long n = (long)rounds; n; n--) {
		uint64_t begin = ran(), middle;

		heavy(7500000);
		middle = ran();
		light(2500000);
		__sync_fetch_and_add(&in_heavy, middle - begin);
		__sync_fetch_and_add(&in_light, ran() - middle);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	long n = count > 2 ? atol(arguments[2]) : 1;

	if (!strcmp(what, "count")) {
		for (; n; n--)
			nothing();
	} else if (!strcmp(what, "threads")) {
		struct rusage usage;
		pthread_t threads[8];

		for (int i = 0; i < 8; i++)
			pthread_create(&threads[i], NULL, alternate, (void *)n);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		/* And how often another thread took their CPU. */
		getrusage(RUSAGE_SELF, &usage);
		printf("%llu %llu %ld\n", (unsigned long long)in_heavy, (unsigned long long)in_light,
		       usage.ru_nivcsw);
	} else if (!strcmp(what, "phases")) {
		/* When each of them begins and ends, by the clock that probes have. */
		for (; n; n--) {
			printf("%llu ", (unsigned long long)now());
			heavy(1500000000);
			printf("%llu ", (unsigned long long)now());
			light(500000000);
			printf("%llu ", (unsigned long long)now());
		}
	} else if (!strcmp(what, "nested")) {
		/* With a third word, tell that it runs, and wait for the end of the input. */
		if (count > 3) {
			puts("runs");
			fflush(stdout);
			while (getchar() != EOF)
				;
		}
		for (; n; n--)
			outer(1000000);
	} else if (!strcmp(what, "recursion")) {
		down(n);
	} else if (!strcmp(what, "tree")) {
		left(n);
	} else if (!strcmp(what, "jump")) {
		for (; n; n--) {
			if (!setjmp(back))
				jumps();
			nothing();
		}
	} else if (!strcmp(what, "sleep")) {
		sleeps();
	} else if (!strcmp(what, "wait")) {
		/* Print where a probe would be, for the test; then wait for a line. */
		printf("%p\n", (void *)nothing);
		fflush(stdout);
		getchar();
		nothing();
	} else if (!strcmp(what, "fork")) {
		for (; n; n--) {
			if (!fork()) {
				nothing();
				_exit(0);
			}
			wait(NULL);
		}
	} else if (!strcmp(what, "same")) {
		same(n, count > 3 ? strtoull(arguments[3], NULL, 10) : 1);
	} else if (!strcmp(what, "exec")) {
		launch(arguments[0]);
	} else if (!strcmp(what, "exit")) {
		down(0);
		heavy(1000);
		return 3;
	} else {
		return 2;
	}
	return 0;
}
