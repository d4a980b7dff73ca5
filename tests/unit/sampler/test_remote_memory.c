/* Another process's memory, read in lines; here that process is this one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sampler/python/remote_memory.h"

#define PAGE 4096u

static void what_is_there(void **state)
{
	struct remote_memory *m = calloc(1, sizeof(*m));
	uint8_t *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t bytes[3000];

	(void)state;
	assert_true(m && pages != MAP_FAILED);
	for (unsigned i = 0; i < 2 * PAGE; i++)
		pages[i] = (uint8_t)(i * 31 / 7);
	remote_memory_begin(m, getpid());
	for (unsigned at = 0; at < 2 * PAGE - sizeof(bytes); at += 501) {
		assert_true(remote_memory_read(m, (uintptr_t)pages + at, bytes, sizeof(bytes)));
		assert_memory_equal(bytes, pages + at, sizeof(bytes));
	}
	/* A line is read once; all that were needed are read again at the next beginning. */
	pages[8]++;
	assert_true(remote_memory_read(m, (uintptr_t)pages + 8, bytes, 1));
	assert_int_equal(bytes[0], (uint8_t)(pages[8] - 1));
	remote_memory_begin(m, getpid());
	assert_true(remote_memory_read(m, (uintptr_t)pages + 8, bytes, 1));
	assert_int_equal(bytes[0], pages[8]);
	munmap(pages, 2 * PAGE);
	free(m);
}

static void what_is_not(void **state)
{
	struct remote_memory *m = calloc(1, sizeof(*m));
	uint8_t *pages =
		mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t bytes[16];

	(void)state;
	assert_true(m && pages != MAP_FAILED);
	memset(pages, 5, 3 * PAGE);
	remote_memory_begin(m, getpid());
	for (unsigned i = 0; i < 3; i++)
		assert_true(remote_memory_read(m, (uintptr_t)pages + i * PAGE, bytes, 8));
	/* Lines that are gone are not the ones of before, and others are as they are. */
	munmap(pages + PAGE, PAGE);
	remote_memory_begin(m, getpid());
	assert_true(remote_memory_read(m, (uintptr_t)pages, bytes, 8));
	assert_false(remote_memory_read(m, (uintptr_t)pages + PAGE, bytes, 8));
	assert_true(remote_memory_read(m, (uintptr_t)pages + 2 * PAGE, bytes, 8));
	assert_false(remote_memory_read(m, (uintptr_t)pages + PAGE - 8, bytes, 16));
	assert_false(remote_memory_read(m, 0, bytes, 8));
	assert_false(remote_memory_read(m, UINTPTR_MAX - 3, bytes, 8));
	assert_false(remote_memory_read(m, UINTPTR_MAX - 2048, bytes, 8));
	/* No process has this id, and what was read of another is forgotten. */
	remote_memory_begin(m, 1 << 30);
	assert_false(remote_memory_read(m, (uintptr_t)pages, bytes, 8));
	munmap(pages, PAGE);
	munmap(pages + 2 * PAGE, PAGE);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there),
		cmocka_unit_test(what_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
