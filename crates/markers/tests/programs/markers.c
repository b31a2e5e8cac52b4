/* A program that marks its own sections. `markers WHAT [N]`; each prints what it knows of itself. It is
 * C and C++. */
#include <nightwatt.h>

#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>

static uint64_t clock_ns(clockid_t which)
{
	struct timespec now;

	clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t ran(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

static void run_for(uint64_t ns)
{
	uint64_t end = ran() + ns;

	while (ran() < end)
		;
}

static void heavy(void)
{
	NIGHTWATT_SECTION("heavy");
	run_for(7500000);
}

static uint64_t in_heavy, in_light;

static void *alternate(void *rounds)
{
	for (long n = (long)rounds; n; n--) {
		uint64_t begin = ran(), middle;

		heavy();
		middle = ran();
		NIGHTWATT_BEGIN("light");
		run_for(2500000);
		NIGHTWATT_END("light");
		__sync_fetch_and_add(&in_heavy, middle - begin);
		__sync_fetch_and_add(&in_light, ran() - middle);
	}
	return NULL;
}

static void *once(void *unused)
{
	(void)unused;
	NIGHTWATT_BEGIN("once");
	NIGHTWATT_END("once");
	return NULL;
}

/* A child of this process that has a marker of its own. Its status. */
static int child(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		alarm(5);
		NIGHTWATT_BEGIN("child");
		NIGHTWATT_END("child");
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static int go;

static void *once_told(void *unused)
{
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		;
	return once(unused);
}

/* The first marker of the process in one thread, while another forks. */
static int race(long spins)
{
	pthread_t thread;
	int status;

	pthread_create(&thread, NULL, once_told, NULL);
	usleep(200);
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	for (volatile long i = 0; i < spins; i++)
		;
	status = child();
	pthread_join(thread, NULL);
	return status;
}

static void *library;

static void *works(void *unused)
{
	(void)unused;
	((void (*)(void))dlsym(library, "work"))();
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) != 2)
		usleep(1000);
	return NULL;
}

/* A library that has markers is closed while a thread that used them lives; then markers of our own. */
static int plugin(const char *path)
{
	pthread_t thread;
	int before, status;

	library = dlopen(path, RTLD_NOW);
	if (!library)
		return 2;
	pthread_create(&thread, NULL, works, NULL);
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		usleep(1000);
	dlclose(library);
	__atomic_store_n(&go, 2, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	once(NULL);
	status = child();
	before = dup(0);
	for (int i = 0; i < 20; i++) {
		library = dlopen(path, RTLD_NOW);
		((void (*)(void))dlsym(library, "work"))();
		dlclose(library);
	}
	/* No file is left open each time. */
	return status ? status : dup(0) != before + 1;
}

/* Its standard files are closed, and no reader receives its report. */
static int is_disturbed(void)
{
	for (int i = 0; i < 3; i++)
		close(i);
	errno = 0;
	NIGHTWATT_BEGIN("quiet");
	NIGHTWATT_END("quiet");
	if (errno)
		return 3;
	for (int i = 0; i < 3; i++)
		if (fcntl(i, F_GETFD) >= 0)
			return 4;
	return 0;
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	long n = count > 2 ? atol(arguments[2]) : 1;

	if (!strcmp(what, "threads")) {
		pthread_t threads[8];

		for (int i = 0; i < 8; i++)
			pthread_create(&threads[i], NULL, alternate, (void *)n);
		for (int i = 0; i < 8; i++)
			pthread_join(threads[i], NULL);
		printf("%llu %llu\n", (unsigned long long)in_heavy, (unsigned long long)in_light);
	} else if (!strcmp(what, "count")) {
		/* As fast as it can, or with so much CPU time between two calls. */
		uint64_t pause = count > 3 ? (uint64_t)atol(arguments[3]) : 0;

		for (; n; n--) {
			NIGHTWATT_BEGIN("count");
			NIGHTWATT_END("count");
			if (pause)
				run_for(pause);
		}
	} else if (!strcmp(what, "race")) {
		return race(n) != 0;
	} else if (!strcmp(what, "plugin")) {
		return plugin(arguments[2]) != 0;
	} else if (!strcmp(what, "quiet")) {
		return is_disturbed();
	} else if (!strcmp(what, "again")) {
		/* More threads than there are rings, one after the other. */
		for (; n; n--) {
			pthread_t thread;

			pthread_create(&thread, NULL, once, NULL);
			pthread_join(thread, NULL);
		}
	} else if (!strcmp(what, "fork")) {
		/* Within a section, children that have one of their own and are gone at once. */
		NIGHTWATT_BEGIN("parent");
		for (; n; n--) {
			if (!fork()) {
				NIGHTWATT_BEGIN("child");
				NIGHTWATT_END("child");
				/* It began in another process. */
				NIGHTWATT_END("parent");
				_exit(0);
			}
			wait(NULL);
		}
		NIGHTWATT_END("parent");
	} else if (!strcmp(what, "close")) {
		/* As daemons do; then files of its own, which markers must not write into. */
		char name[] = "/tmp/nightwatt-markers-XXXXXX";
		struct stat after;
		pthread_t thread;
		int file;

		NIGHTWATT_BEGIN("kept");
		for (int i = 3; i < 64; i++)
			close(i);
		file = mkstemp(name);
		if (file != 3 || ftruncate(file, NIGHTWATT_SIZE) < 0 || dup(file) < 0)
			return 2;
		NIGHTWATT_END("kept");
		/* No ring can be had for it. */
		pthread_create(&thread, NULL, once, NULL);
		pthread_join(thread, NULL);
		for (; n; n--) {
			NIGHTWATT_BEGIN("kept");
			run_for(1000000);
			NIGHTWATT_END("kept");
		}
		fstat(file, &after);
		printf("%ld\n", (long)after.st_blocks);
		unlink(name);
		/* There it has a file that isn't ours: a child leaves that alone. */
		if (!fork())
			_exit(lseek(3, 0, SEEK_CUR) < 0);
		wait(&file);
		return file != 0;
	} else if (!strcmp(what, "unended")) {
		NIGHTWATT_BEGIN("unended");
		NIGHTWATT_END("unbegun");
		run_for(20000000);
		if (n == 2)
			abort();
		if (n == 3)
			execl(arguments[0], arguments[0], "threads", "2", (char *)NULL);
	} else if (!strcmp(what, "serve")) {
		/* Runs one round per request, until the requests end. A child's too. */
		char asked[2];

		/* As a daemon that has begun with its markers before it closed its files. */
		NIGHTWATT_BEGIN("begun");
		NIGHTWATT_END("begun");
		for (int i = 3; n == 2 && i < 64; i++)
			close(i);
		printf("ready\n");
		fflush(stdout);
		while (fgets(asked, sizeof(asked), stdin)) {
			NIGHTWATT_BEGIN("round");
			run_for(20000000);
			NIGHTWATT_END("round");
			for (long i = 0; asked[0] == 'b' && i < 200000; i++) {
				NIGHTWATT_BEGIN("burst");
				NIGHTWATT_END("burst");
			}
			if (asked[0] == 'f' && !fork()) {
				NIGHTWATT_BEGIN("child");
				NIGHTWATT_END("child");
				_exit(0);
			}
			printf("done\n");
			fflush(stdout);
		}
		while (wait(NULL) > 0)
			;
	} else {
		return 2;
	}
	return 0;
}
