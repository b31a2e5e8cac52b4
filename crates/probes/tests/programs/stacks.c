/* A signal handler on a stack of its own, which lies higher than that of the thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define SECTION __attribute__((noinline, noclone))
#define SIZE (1 << 16)

static char *stacks;

SECTION void handles(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
static void handler(int number) { handles(number); __asm__ volatile(""); }
SECTION void outside(void) { raise(SIGUSR1); __asm__ volatile(""); }

static void *run(void *unused)
{
	stack_t own = {.ss_sp = stacks + SIZE, .ss_size = SIZE};

	sigaltstack(&own, 0);
	for (int n = 0; n < 10; n++)
		outside();
	return unused;
}

int main(void)
{
	struct sigaction action;
	pthread_attr_t attributes;
	pthread_t thread;

	stacks = mmap(0, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &action, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stacks, SIZE);
	pthread_create(&thread, &attributes, run, 0);
	return pthread_join(thread, 0);
}
