/* heap.h: whatever is added and changed, items come out in order. */
#include "base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define ITEMS 200

static uint64_t random_state = 3;

static unsigned random_below(unsigned bound)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)((random_state >> 33) % bound);
}

static unsigned take(unsigned *items, size_t *count)
{
	unsigned first = items[0];

	items[0] = items[--*count];
	heap_down(items, *count, 0, a, b, *a < *b);
	return first;
}

static void items_come_in_order(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		unsigned items[ITEMS], last = 0, range = round % 2 ? 5 : 100000;
		size_t count = 0, wanted = round % ITEMS, taken = 0;

		while (count < wanted) {
			items[count++] = random_below(range);
			heap_up(items, count - 1, a, b, *a < *b);
		}
		for (; count; taken++) {
			unsigned first = take(items, &count);

			assert_true(first >= last);
			last = first;
		}
		assert_int_equal(taken, wanted);
	}
}

/* As a merge does it: the first item gets later again and again; built from the leaves. */
static void later_items_sink(void **state)
{
	unsigned items[ITEMS], last = 0;
	size_t count = ITEMS;

	(void)state;
	for (size_t i = 0; i < count; i++)
		items[i] = random_below(1000);
	for (size_t i = count / 2; i-- > 0;)
		heap_down(items, count, i, a, b, *a < *b);
	for (unsigned step = 0; step < 5000; step++) {
		assert_true(items[0] >= last);
		last = items[0];
		items[0] += random_below(50);
		heap_down(items, count, 0, a, b, *a < *b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_come_in_order),
		cmocka_unit_test(later_items_sink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
