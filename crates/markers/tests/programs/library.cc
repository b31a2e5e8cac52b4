// A library with markers. Two of them share the inline function, and what is static in it, and nothing
// else.
#include <nightwatt.h>

inline void shared()
{
	NIGHTWATT_SECTION("shared");
	for (volatile int i = 0; i < 1000; i++)
		;
}

extern "C" void work()
{
#ifdef OTHER
	{
		NIGHTWATT_SECTION("other");
	}
#endif
	shared();
}
