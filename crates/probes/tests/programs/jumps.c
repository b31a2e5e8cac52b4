/* Jumps by what stands in memory. `program N`. */
#include <stdio.h>
#include <stdlib.h>

#define SECTION __attribute__((noinline, noclone))

SECTION static long add(long x) { return x + 1; }
SECTION static long twice(long x) { return x * 2; }

/* By labels: none of its jumps leaves it. */
SECTION long interprets(void **at, long n)
{
	static void *labels[3];
	long sum = 0;

	if (!at) {
		labels[0] = &&more;
		labels[1] = &&again;
		labels[2] = &&stop;
		return (long)labels;
	}
	goto **at;
more:
	sum += n;
	at++;
	goto **at;
again:
	n--;
	at++;
	if (n > 0)
		at -= 2;
	goto **at;
stop:
	return sum;
}

/* By a table of functions, the last thing it does. */
SECTION long dispatches(long (*const *functions)(long), long x) { return functions[x & 1](x); }

/* By one function. */
struct object {
	long kind;
	long (*function)(long);
};
SECTION long calls_last(struct object *object, long x) { return object->function(x + object->kind); }

/* By a table of its own. */
SECTION long switches(long x)
{
	switch (x % 8) {
	case 0: return add(x);
	case 1: __asm__ volatile("nop"); return x ^ 77;
	case 2: puts(""); return 3;
	case 3: return twice(x) + 9;
	case 4: __asm__ volatile("nop; nop"); return x;
	case 5: return atol("5");
	case 6: __asm__ volatile("nop; nop; nop"); return 6 * x;
	default: return add(add(x));
	}
}

int main(int count, char **arguments)
{
	void **labels = (void **)interprets(0, 0), *code[] = {labels[0], labels[1], labels[2]};
	long (*const functions[])(long) = {add, twice};
	struct object object = {1, twice};
	long n = count > 1 ? atol(arguments[1]) : 1, sum = 0;

	for (; n; n--)
		sum += interprets(code, 20) + dispatches(functions, n) + calls_last(&object, n) + switches(n);
	return sum == 0;
}
