/* Names of kernels whose records CUPTI still has: they are shared before the kernels end. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "capture/core/shared_area.h"
#include "capture/cuda/activity.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/kernel_configs.h"
#include "capture/cuda/records.h"

struct lent {
	uint8_t *bytes;
	size_t size;
};

static struct lent borrow(void)
{
	struct lent l;
	size_t records;

	buffers_on_request(&l.bytes, &l.size, &records);
	return l;
}

static void put(const struct lent *l, unsigned at, uint32_t kind, const char *name)
{
	struct record_kernel record = { .kind = kind, .name = name };

	memcpy(l->bytes + at * sizeof(record), &record, sizeof(record));
}

static void complete(const struct lent *l)
{
	struct full_buffer full;

	buffers_on_complete(NULL, 0, l->bytes, l->size, 0);
	while (buffers_take_full(&full))
		buffers_give_back(&full, 0, 0);
}

static bool is_shared(const char *name)
{
	const struct area_kernel_names *area = shared_area_part(AREA_KERNEL_NAMES);

	for (uint32_t i = 0; i < atomic_load(&shared_area_head->kernel_names); i++)
		if (area->names[i].address == (uintptr_t)name)
			return area->names[i].length == strlen(name) &&
			       !memcmp(area->text + area->names[i].offset, name, strlen(name));
	return false;
}

static int setup(void **unused)
{
	(void)unused;
	kernel_configs_forget();
	return 0;
}

static void test_a_kernel_that_does_not_end(void **unused)
{
	static const char first[] = "first", second[] = "second", copy[] = "a copy's";
	struct lent l = borrow();

	(void)unused;
	put(&l, 0, RECORD_CONCURRENT_KERNEL, first);
	activity_share_names();
	assert_false(is_shared(first)); /* most buffers are completed soon */
	activity_share_names();
	assert_true(is_shared(first));
	put(&l, 1, RECORD_KERNEL, second);
	put(&l, 2, RECORD_OVERHEAD, copy);
	activity_share_names();
	assert_true(is_shared(first) && is_shared(second));
	assert_false(is_shared(copy));
	assert_int_equal(atomic_load(&shared_area_head->kernel_names), 2);
	complete(&l);
}

/* Its records are another's at each look. */
static void test_a_buffer_that_comes_back(void **unused)
{
	static const char name[] = "short";

	(void)unused;
	for (unsigned i = 0; i < 5; i++) {
		struct lent l = borrow();

		put(&l, 0, RECORD_CONCURRENT_KERNEL, name);
		activity_share_names();
		complete(&l);
	}
	assert_false(is_shared(name));
}

/* A module was unloaded, and CUPTI has just begun to write a record. */
static void test_names_that_are_not_there(void **unused)
{
	static char endless[1 << 16];
	struct lent l = borrow();
	char *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	assert_true(gone != MAP_FAILED);
	memset(endless, 'x', sizeof(endless));
	put(&l, 0, RECORD_CONCURRENT_KERNEL, NULL);
	put(&l, 1, RECORD_CONCURRENT_KERNEL, gone);
	put(&l, 2, RECORD_CONCURRENT_KERNEL, endless);
	assert_int_equal(munmap(gone, 4096), 0);
	activity_share_names();
	activity_share_names();
	assert_int_equal(atomic_load(&shared_area_head->kernel_names), 0);
	complete(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_kernel_that_does_not_end, setup),
		cmocka_unit_test_setup(test_a_buffer_that_comes_back, setup),
		cmocka_unit_test_setup(test_names_that_are_not_there, setup),
	};

	shared_area_open();
	if (!shared_area_part(AREA_KERNEL_NAMES))
		return 77; /* no memfd here */
	if (!buffers_start())
		return 1;
	activity_share(CUPTI_13_0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
