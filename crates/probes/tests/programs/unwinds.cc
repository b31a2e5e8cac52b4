/* Leaves watched functions by exceptions. `unwinds N`. */
#include <cstdlib>

#define SECTION __attribute__((noinline))

static volatile int caught, sum;

SECTION void throws(int n)
{
	if (n % 2)
		throw n;
	sum = sum + n;
}

SECTION void passes(int n)
{
	throws(n);
	sum = sum + 1;
}

SECTION int returns(int n)
{
	try {
		passes(n);
	} catch (int) {
		caught = caught + 1;
		return 1;
	}
	return 0;
}

/* Its last call is to another one. */
extern "C" SECTION int last_call(int n) { return returns(n); }

int main(int, char **arguments)
{
	int n = atoi(arguments[1]);

	for (int i = 0; i < n; i++)
		last_call(i);
	return caught == n / 2 ? 0 : 1;
}
