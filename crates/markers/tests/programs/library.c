/* A library with markers. It is C and C++; two in C++ share the inline function, and what is static in it,
 * and nothing else. (Such a one is never unloaded, one in C is.) */
#include <nightwatt.h>

#ifdef __cplusplus
extern "C" void work(void);
inline
#else
void work(void);
static
#endif
void shared(void)
{
	NIGHTWATT_SECTION("shared");
	for (volatile int i = 0; i < 1000; i++)
		;
}

void work(void)
{
#ifdef OTHER
	NIGHTWATT_BEGIN("other");
	NIGHTWATT_END("other");
#endif
	shared();
}
