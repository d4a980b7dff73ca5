/* Rules without memory: no crash, nothing left behind, and no moment that is none. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "failing_alloc.h"
#include "rules/rule_feed.h"
#include "rules/rule_list.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define S NS_PER_S
#define MS NS_PER_MS

struct fired {
	struct rule_firing items[64];
	size_t count;
};

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct fired *f = user;

	assert_true(f->count < ARRAY_SIZE(f->items));
	f->items[f->count++] = *firing;
}

static void make(const char *folder)
{
	struct maker *m = maker_begin_with((struct writer_options){ .pid = 100 }, folder, 100,
					   1 * S, "./app");
	uint32_t add = maker_config(m, "add", 1, 32);
	struct row_counter counter = { .id = 2000,
				       .name = maker_string(m, "loss"),
				       .unit = maker_string(m, ""),
				       .description = maker_string(m, ""),
				       .kind = counter_kind_level };

	maker_capability(m, feature_cupti, capability_state_on, NULL);
	maker_device(m, 0, 1 * S);
	writer_append(m->writer, TABLE_counter, &counter);
	for (uint64_t i = 0; i < 30; i++) {
		uint64_t at = 1 * S + i * 100 * MS;
		struct row_counter_sample sample = { .time_ns = at + 1,
						     .counter = 2000,
						     .value = (int64_t)i };

		ROW_MISSING(&sample, counter_sample, device);
		ROW_MISSING(&sample, counter_sample, thread);
		maker_nvtx(m, nvtx_kind_push, 7, "step 1", at);
		maker_call(m, MAKER_LAUNCH, 7, at + 10, at + 20, i + 1);
		maker_kernel(m, add, 7, at + 1 * MS, at + 2 * MS, i + 1);
		maker_nvtx(m, nvtx_kind_pop, 7, NULL, at + (i == 25 ? 60 : 20) * MS);
		writer_append(m->writer, TABLE_counter_sample, &sample);
	}
	maker_nvtx(m, nvtx_kind_mark, 7, "here", 10 * S);
	m->result = 719;
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 7, 19 * S, 20 * S, 100);
	m->result = 0;
	maker_close(m, 56 * S);
	maker_record(folder, 100, 1, 1 * S, 60 * S, "./app", 139);
}

static int evaluate(const char *folder, const struct rule_list *list, struct fired *fired)
{
	struct error e = { 0 };

	fired->count = 0;
	return rule_feed_recording(folder, list->rules, list->count, on_firing, fired, &e);
}

static bool is_among(const struct rule_firing *firing, const struct fired *all)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i].rule == firing->rule && all->items[i].time_ns == firing->time_ns)
			return true;
	return false;
}

/* What has happened fires or is forgotten; it does not fire at another time. */
static void each_allocation_fails(void **state)
{
	struct rule_list list = { .count = 0 };
	struct fired all, fired;

	make(*state);
	assert_int_equal(rule_list_add_all(&list,
					   "step-time > 50ms; nvtx == here; counter loss > 20; "
					   "sticky-error; fatal-signal; exit-status == 139",
					   NULL),
			 0);
	assert_int_equal(evaluate(*state, &list, &all), 0);
	assert_int_equal(all.count, 6);
	FOR_EACH_FAILURE(n)
	{
		int rc = evaluate(*state, &list, &fired);

		assert_true(rc == 0 || rc == -ENOMEM);
		for (size_t i = 0; i < fired.count; i++)
			if (!is_among(&fired.items[i], &all))
				fail_msg("allocation %ld: %s", n, fired.items[i].evidence);
	}
	assert_int_equal(fired.count, 6);
}

/* All families at once. Under a sanitizer it is its own judge. */
static void nothing_is_left(void **state)
{
	struct rule_list list = { .count = 0 };
	struct fired fired;
	size_t used[4];

	make(*state);
	assert_int_equal(
		rule_list_add_all(&list,
				  "step-time > 2x median; nvtx == here; counter loss > 20; "
				  "sticky-error; fatal-signal; hang > 1s; gpu-idle > 1s; "
				  "gpu-busy > 90%; launch-rate > 1/s; collective > 1s; memory > 1%",
				  NULL),
		0);
	for (size_t i = 0; i < ARRAY_SIZE(used); i++) {
		rule_feed_free(NULL);
		rule_watch_free(NULL);
		rule_segment_free(NULL);
		assert_int_equal(evaluate(*state, &list, &fired), 0);
		used[i] = mallinfo2().uordblks;
	}
	assert_int_equal(used[2], used[1]);
	assert_int_equal(used[3], used[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_allocation_fails),
		folder_test(nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
