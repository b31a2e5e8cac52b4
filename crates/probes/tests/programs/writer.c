/* What the tests of `disk` watch: `writer WHAT FILE KIB [PART PARTS]`. Ends when all is handed to the
 * kernel; who writes it to the device then is the kernel's business. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK 4096

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static char *block(size_t size, int seed)
{
	char *bytes = aligned_alloc(BLOCK, size);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (char)(i * 31 + seed);
	return bytes;
}

/* In pieces of `size`, by `write`. */
static void pour(int file, size_t size, long bytes)
{
	char *piece = block(size, 7);

	for (long done = 0; done < bytes; done += size)
		if (write(file, piece, size) != (ssize_t)size)
			fail("write");
}

int main(int count, char **arguments)
{
	const char *what = count > 3 ? arguments[1] : "", *path = count > 3 ? arguments[2] : "";
	long bytes = count > 3 ? atol(arguments[3]) * 1024 : 0;
	int part = count > 4 ? atoi(arguments[4]) : 0, parts = count > 5 ? atoi(arguments[5]) : 1;
	int direct = !strcmp(what, "direct") ? O_DIRECT : 0, file;

	file = open(path, O_RDWR | O_CREAT | direct, 0644);
	if (file < 0)
		fail(path);
	if (!strcmp(what, "small")) {
		pour(file, 4096, bytes);
	} else if (!strcmp(what, "large") || direct) {
		pour(file, 1 << 20, bytes);
	} else if (!strcmp(what, "fsync")) {
		pour(file, 1 << 16, bytes);
		if (fsync(file))
			fail("fsync");
	} else if (!strcmp(what, "mmap")) {
		char *memory;

		if (ftruncate(file, bytes))
			fail("ftruncate");
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (memory == MAP_FAILED)
			fail("mmap");
		for (long at = 0; at < bytes; at += BLOCK)
			memory[at + 17] = 1;
	} else if (!strcmp(what, "shared")) {
		/* Every so manieth block of one file. */
		char *piece = block(BLOCK, part);

		for (long at = (long)part * BLOCK; at < bytes; at += (long)parts * BLOCK)
			if (pwrite(file, piece, BLOCK, at) != BLOCK)
				fail("pwrite");
	} else if (!strcmp(what, "twice")) {
		pour(file, 1 << 16, bytes);
		lseek(file, 0, SEEK_SET);
		pour(file, 1 << 16, bytes);
	} else if (!strcmp(what, "unlink")) {
		pour(file, 1 << 16, bytes);
		if (unlink(path))
			fail("unlink");
	} else if (!strcmp(what, "truncate")) {
		pour(file, 1 << 16, bytes);
		if (ftruncate(file, bytes / 2))
			fail("ftruncate");
	} else if (!strcmp(what, "rename")) {
		char other[4096];

		pour(file, 1 << 16, bytes);
		snprintf(other, sizeof(other), "%s.new", path);
		if (rename(path, other))
			fail("rename");
	} else if (!strcmp(what, "many")) {
		/* A file for each block, beside the one that is named. */
		char *piece = block(BLOCK, 3), other[4096];

		for (long n = 0; n * BLOCK < bytes; n++) {
			snprintf(other, sizeof(other), "%s.%ld", path, n);
			file = open(other, O_WRONLY | O_CREAT, 0644);
			if (file < 0 || write(file, piece, BLOCK) != BLOCK || close(file))
				fail(other);
		}
	} else if (!strcmp(what, "append")) {
		lseek(file, 0, SEEK_END);
		pour(file, 4096, bytes);
	} else if (!strcmp(what, "read")) {
		char *piece = block(1 << 16, 0);

		while (read(file, piece, 1 << 16) > 0)
			;
	} else {
		return 2;
	}
	return 0;
}
