/* `calls KIND CALLS TURNS`: calls one of the functions below CALLS times, after TURNS turns of a loop
 * each, and prints the CPU time in ns. The functions differ in their first instruction. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#define NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define PUSH "push %rbp\npop %rbp\n"
#define SLOW "xor %eax, %eax\n"
#else
#define NOP "nop\n"
#define PUSH "stp x29, x30, [sp, #-16]!\nldp x29, x30, [sp], #16\n"
#define SLOW "mov x0, xzr\n"
#endif
#define FUNCTION(name, first)                                                                      \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" first          \
		"ret\n.size " #name ", . - " #name "\n");                                          \
	void name(void)

FUNCTION(entry_nop, NOP);
FUNCTION(entry_push, PUSH);
FUNCTION(entry_slow, SLOW);

int main(int count, char **arguments)
{
	const char *kind = count > 3 ? arguments[1] : "";
	void (*function)(void) = !strcmp(kind, "nop") ? entry_nop
			       : !strcmp(kind, "push") ? entry_push
						       : entry_slow;
	long calls = count > 3 ? atol(arguments[2]) : 0, turns = count > 3 ? atol(arguments[3]) : 0;
	struct timespec used;

	for (long n = 0; n < calls; n++) {
		for (volatile long turn = 0; turn < turns; turn++)
			;
		function();
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	printf("%llu\n", (unsigned long long)used.tv_sec * 1000000000 + used.tv_nsec);
	return 0;
}
