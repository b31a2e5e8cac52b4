/* Opens two libraries with markers, which do not see each other, and uses them in turn. */
#include <dlfcn.h>
#include <stddef.h>

int main(int count, char **paths)
{
	void *libraries[2];

	if (count < 3)
		return 2;
	for (int i = 0; i < 2; i++)
		libraries[i] = dlopen(paths[i + 1], RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; i < 20; i++)
		((void (*)(void))dlsym(libraries[i % 2], "work"))();
	return 0;
}
