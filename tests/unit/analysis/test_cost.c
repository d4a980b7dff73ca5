#include "analysis/cost.h"

#include <string.h>

#include "analysis/sentence.h"

#include "report_fixture.h"
#include "schema/event_words.h"

static void costs_are_summed(void **state)
{
	struct row_cost write = { .start_ns = 0,
				  .end_ns = 10,
				  .kind = cost_kind_write,
				  .count = 1,
				  .total_ns = 5,
				  .bytes = 100 };
	struct analyzed a;
	const struct cost *c;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);

		maker_cost(m, cost_kind_callback, 0, 1000, 10, 70);
		maker_cost(m, cost_kind_callback, 1000, 2000, 20, 130);
		maker_cost(m, cost_kind_setup, 0, 0, 1, 1000);
		maker_cost(m, cost_kind_collector, 0, 0, 1, 9);
		writer_append(m->writer, TABLE_cost, &write);
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	c = a.report.cost;
	assert_int_equal(c->kinds[cost_kind_callback].count, 60);
	assert_int_equal(c->kinds[cost_kind_callback].total_ns, 400);
	assert_int_equal(c->kinds[cost_kind_write].bytes, 200);
	assert_int_equal(c->target_ns, 2400);
	assert_int_equal(c->loss_count, 0);
	analyzed_release(&a);
}

static void losses_are_summed_by_reason_and_detail(void **state)
{
	struct maker *m = begin(*state, 100);
	struct analyzed a;
	const struct cost *c;

	maker_loss(m, loss_reason_ring_full, 5, 1000, 2000, "thread 7");
	maker_loss(m, loss_reason_ring_full, 3, 3000, 4000, "thread 7");
	maker_loss(m, loss_reason_ring_full, 1, 500, 600, "thread 8");
	maker_loss(m, loss_reason_gpu_records_dropped, 0, 700, 800, NULL);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	c = a.report.cost;
	assert_int_equal(c->loss_count, 3);
	assert_int_equal(c->losses[0].reason + c->losses[1].reason + c->losses[2].reason,
			 2 * loss_reason_ring_full + loss_reason_gpu_records_dropped);
	for (size_t i = 0; i < c->loss_count; i++) {
		const struct loss_sum *l = &c->losses[i];

		assert_int_equal(l->unknown, l->reason == loss_reason_gpu_records_dropped);
		if (l->count == 8) {
			assert_string_equal(l->detail, "thread 7");
			assert_int_equal(l->start_ns, 1000);
			assert_int_equal(l->end_ns, 4000);
		}
	}
	assert_string_equal(loss_name(200), "unknown");
	analyzed_release(&a);
}

/* Rows whose sum is 2^64 are not a loss of nothing. */
static void huge_counts_do_not_hide_a_loss(void **state)
{
	struct maker *m = begin(*state, 100);
	struct analyzed a;
	const struct cost *c;

	maker_loss(m, loss_reason_ring_full, UINT64_C(1) << 63, 1000, 2000, "thread 7");
	maker_loss(m, loss_reason_ring_full, UINT64_C(1) << 63, 2000, 3000, "thread 7");
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	c = a.report.cost;
	assert_int_equal(c->loss_count, 1);
	assert_int_equal(c->losses[0].count, LOST_MAX);
	assert_int_equal(c->all.lost, LOST_MAX);
	assert_int_equal(c->effect, LOSS_UNSAFE);
	analyzed_release(&a);
}

/* Its rows are those of one loss, up to where another process's or a later one begins. */
static void a_loss_that_lasts_is_one(void **state)
{
	struct analyzed a;
	const struct cost *c;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);

		maker_loss(m, loss_reason_own_profiler, 0, 1000, 2000, NULL);
		maker_loss(m, loss_reason_gpu_records_dropped, 3, 1000, 2000, NULL);
		maker_loss(m, loss_reason_own_profiler, 0, 2000, 2500, NULL);
		maker_loss(m, loss_reason_gpu_records_dropped, 3, 2000, 2500, NULL);
		maker_loss(m, loss_reason_own_profiler, 0, 2500, 2600, NULL);
		maker_loss(m, loss_reason_own_profiler, 0, 2601, 2700, NULL);
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	c = a.report.cost;
	assert_int_equal(c->loss_count, 2);
	for (size_t i = 0; i < c->loss_count; i++) {
		bool own = c->losses[i].reason == loss_reason_own_profiler;

		assert_int_equal(c->losses[i].rows, 4);
		assert_int_equal(c->losses[i].length_ns, own ? 2 * 1699 : 2 * 1500);
	}
	analyzed_release(&a);
}

static void every_loss_has_a_text_for_one_and_for_many(void **state)
{
	(void)state;
	for (unsigned reason = 1; reason <= loss_reason_end_limit; reason++) {
		assert_string_not_equal(loss_text(reason, 1), loss_text(reason, 2));
		assert_string_not_equal(loss_text(reason, 1), loss_text(loss_reason_unknown, 1));
		assert_string_equal(loss_text(reason, 0), loss_text(reason, 2));
	}
	assert_string_equal(loss_text(255, 1), loss_text(loss_reason_unknown, 1));
}

/* Each message with 0, 1 and 2: its number agrees with its noun, verb and pronoun. */
static void numbers_agree(void **state)
{
	static const char *const plurals[] = { "0 ", "2 " };

	(void)state;
	for (unsigned reason = 0; reason <= loss_reason_own_profiler; reason++) {
		const char *one = loss_text(reason, 1), *many = loss_text(reason, 2);
		size_t length = strcspn(one, " ");
		bool copied = !strncmp(one, "CPU ", 4) || !strncmp(one, "Python ", 7) ||
			      !strncmp(one, "damaged ", 8) || !strncmp(one, "call ", 5);

		/* The noun has its ending. */
		if (!copied && reason != loss_reason_process_limit)
			assert_int_equal(many[length], one[length - 1] == 'h' ? 'e' : 's');
		assert_null(strstr(many, " it was "));
		assert_null(strstr(one, " they "));
	}
	for (uint64_t n = 0; n <= 2; n++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		sentence_add(&text, COUNTED_AS(n, "process"), WORDS(", "), COUNTED_AS(n, "launch"),
			     WORDS(", "), COUNTED_AS(n, "sample"));
		own_profiler_windows(&text, 0, n);
		assert_int_equal(!!strstr(strbuf_text(&text), "1 process, 1 launch, 1 sample"),
				 n == 1);
		assert_int_equal(
			!!strstr(strbuf_text(&text), "1 window: no GPU work was recorded in it"),
			n == 1);
		if (n != 1)
			assert_true(!strncmp(strbuf_text(&text), plurals[n / 2], 2) &&
				    strstr(strbuf_text(&text), " processes, "));
	}
}

static void the_share_of_a_loss_decides_its_effect(void **state)
{
	static const struct {
		enum loss_reason reason;
		uint64_t lost, recorded;
		enum loss_effect effect;
	} losses[] = {
		{ loss_reason_ring_full, 1, 100000, LOSS_CHANGES_NOTHING },
		{ loss_reason_ring_full, 100, 99900, LOSS_CHANGES_SOME },
		{ loss_reason_gpu_records_dropped, 4999, 95001, LOSS_CHANGES_SOME },
		{ loss_reason_gpu_records_dropped, 5000, 95000, LOSS_UNSAFE },
		{ loss_reason_gpu_records_dropped, 1, 0, LOSS_UNSAFE },
		{ loss_reason_no_time, 12, 300, LOSS_CHANGES_SOME },
		{ loss_reason_samples_dropped, 0, 1000, LOSS_CHANGES_SOME },
		{ loss_reason_unnamed_frames, 12, 400, LOSS_CHANGES_NOTHING },
		{ loss_reason_unnamed_frames, 12, 100, LOSS_CHANGES_SOME },
		{ loss_reason_unnamed_frames, 1000, 1, LOSS_CHANGES_SOME },
		{ loss_reason_truncated_file, 2, 0, LOSS_CHANGES_NOTHING },
		{ loss_reason_truncated_file, 2, 1, LOSS_CHANGES_SOME },
		{ loss_reason_damaged_file, 1, 1000000, LOSS_UNSAFE },
		{ loss_reason_gpu_runtime_failed, 1, 1000000, LOSS_UNSAFE },
		{ loss_reason_string_limit, 1, 1, LOSS_CHANGES_SOME },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		assert_int_equal(loss_effect(loss_items(losses[i].reason), losses[i].lost,
					     losses[i].recorded),
				 losses[i].effect);
}

/* The worst loss leads, and decides for all of them together. */
static void losses_have_their_effect(void **state)
{
	struct maker *m = begin(*state, 100);
	struct strbuf text = STRBUF_INIT;
	const struct cost *c;
	struct analyzed a;

	for (uint64_t i = 0; i < 990; i++)
		maker_cpu_sample(m, 100, 1000 + i, 10, 0);
	maker_loss(m, loss_reason_unnamed_frames, 12, 1000, 2000, NULL);
	maker_loss(m, loss_reason_samples_dropped, 10, 1000, 2000, NULL);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	c = a.report.cost;
	assert_int_equal(c->effect, LOSS_CHANGES_SOME);
	assert_int_equal(cost_find_loss(c, loss_reason_unnamed_frames)->effect,
			 LOSS_CHANGES_NOTHING);
	loss_sum_text(cost_worst_loss(c), &text);
	assert_string_equal(strbuf_text(&text),
			    "10 CPU samples dropped by the operating system's kernel");
	strbuf_release(&text);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(costs_are_summed),
		cmocka_unit_test(every_loss_has_a_text_for_one_and_for_many),
		cmocka_unit_test(numbers_agree),
		cmocka_unit_test(the_share_of_a_loss_decides_its_effect),
		folder_test(losses_have_their_effect),
		folder_test(a_loss_that_lasts_is_one),
		folder_test(losses_are_summed_by_reason_and_detail),
		folder_test(huge_counts_do_not_hide_a_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
