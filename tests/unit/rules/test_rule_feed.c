#include "rules/rule_feed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "rules/rule_list.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define S NS_PER_S
#define MS NS_PER_MS
#define PID 100

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

/* Rules are separated by ';'. */
static void test_rules(const char *folder, const char *rules, struct fired *fired)
{
	struct rule_list list = { .count = 0 };
	struct error e = { 0 };

	fired->count = 0;
	if (rule_list_add_all(&list, rules, &e) < 0 ||
	    rule_feed_recording(folder, list.rules, list.count, on_firing, fired, &e) < 0)
		fail_msg("%s", e.text);
}

static void fires_once(const char *folder, const char *rule, uint64_t time_ns, const char *evidence)
{
	struct fired fired;

	test_rules(folder, rule, &fired);
	if (fired.count != 1 || fired.items[0].time_ns != time_ns ||
	    !strstr(fired.items[0].evidence, evidence))
		fail_msg("'%s': %zu, %llu: %s", rule, fired.count,
			 (unsigned long long)fired.items[0].time_ns, fired.items[0].evidence);
	assert_int_equal(fired.items[0].pid, PID);
}

static void never_fires(const char *folder, const char *rule)
{
	struct fired fired;

	test_rules(folder, rule, &fired);
	if (fired.count)
		fail_msg("'%s': %s", rule, fired.items[0].evidence);
}

static void add_counter(struct maker *m, uint32_t id, const char *name, uint32_t decimals,
			enum counter_kind kind, enum counter_reading reading)
{
	struct row_counter row = { .id = id,
				   .name = maker_string(m, name),
				   .unit = maker_string(m, ""),
				   .decimals = decimals,
				   .description = maker_string(m, ""),
				   .reading = (uint8_t)reading,
				   .kind = (uint8_t)kind };

	writer_append(m->writer, TABLE_counter, &row);
}

static void add_sample(struct maker *m, uint32_t counter, uint64_t time_ns, int64_t value)
{
	struct row_counter_sample row = { .time_ns = time_ns, .counter = counter, .value = value };

	ROW_MISSING(&row, counter_sample, thread);
	writer_append(m->writer, TABLE_counter_sample, &row);
}

static int64_t bits_of(double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* A second of steps, then one thing after the other; the process dies at 60 s. */
static void make(const char *folder)
{
	struct maker *m = maker_begin_with((struct writer_options){ .pid = PID }, folder, PID,
					   1 * S, "./app");
	uint32_t add = maker_config(m, "add", 1, 32);

	maker_device(m, 0, 1 * S);
	add_counter(m, 1, "gpu_xid", 0, counter_kind_event, counter_reading_integer);
	add_counter(m, 2, "gpu_memory_used", 0, counter_kind_level, counter_reading_integer);
	add_counter(m, 3, "gpu_power", 3, counter_kind_level, counter_reading_integer);
	add_counter(m, 4, "loss", 0, counter_kind_level, counter_reading_real);
	add_counter(m, 5, "gpu_ecc_uncorrected", 0, counter_kind_sum, counter_reading_integer);
	for (uint64_t i = 0; i < 30; i++) {
		uint64_t at = 1 * S + i * 100 * MS, length = i == 25 ? 60 * MS : 20 * MS;
		char name[20];

		snprintf(name, sizeof(name), "step %d", (int)i);
		maker_nvtx(m, nvtx_kind_push, 7, name, at);
		maker_nvtx(m, nvtx_kind_push, 7, "forward", at + 1);
		maker_call(m, MAKER_LAUNCH, 7, at + 10, at + 20, i + 1);
		maker_kernel(m, add, 7, at + 1 * MS, at + 2 * MS, i + 1);
		maker_nvtx(m, nvtx_kind_pop, 7, NULL, at + 5 * MS);
		maker_nvtx(m, nvtx_kind_pop, 7, NULL, at + length);
		if (i == 10)
			maker_flush(m);
	}
	maker_nvtx(m, nvtx_kind_mark, 7, "here", 10 * S);
	add_sample(m, 1, 11 * S, 79);
	add_sample(m, 2, 12 * S, 1000);
	add_sample(m, 2, 13 * S, INT64_C(140) << 30);
	add_sample(m, 3, 14 * S, 650500);
	add_sample(m, 4, 15 * S, bits_of(0.5));
	add_sample(m, 4, 16 * S, bits_of(NAN));
	add_sample(m, 5, 17 * S, 3);
	add_sample(m, 5, 18 * S, 4);
	add_counter(m, 6, "gpu_lost", 0, counter_kind_event, counter_reading_integer);
	add_sample(m, 6, 18 * S + 1, 1);
	m->result = 719;
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 7, 19 * S, 20 * S, 100);
	m->result = 600; /* not ready */
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 7, 20 * S, 20 * S + 1, 101);
	m->result = 0;
	maker_call(m, MAKER_LAUNCH, 7, 21 * S, 21 * S + 10, 102);
	add_sample(m, 3, 55 * S, 1000);
	maker_close(m, 56 * S);
	maker_record(folder, PID, 1, 1 * S, 60 * S, "./app", 139);
}

static void rules_hold_at_their_moments(void **state)
{
	const char *folder = *state;
	char path[4096];

	make(folder);
	fires_once(folder, "step-time > 2x median", 3560 * MS, "60.0 ms; the median");
	fires_once(folder, "step-time > 50ms", 3560 * MS, "it took 60.0 ms");
	fires_once(folder, "range-time \"step 25\" > 50ms", 3560 * MS, "it took 60.0 ms");
	never_fires(folder, "range-time forward > 5ms");
	never_fires(folder, "range-time other > 1ns");
	fires_once(folder, "nvtx == here", 10 * S, "mark");
	fires_once(folder, "nvtx == \"step 7\"", 1700 * MS, "range begins");
	fires_once(folder, "xid", 11 * S, "it is 79");
	never_fires(folder, "xid == 31");
	fires_once(folder, "memory > 95%", 13 * S, "%");
	fires_once(folder, "memory > 95%; counter gpu_memory_used > 200G", 13 * S, "%");
	fires_once(folder, "memory > 99.9%; counter gpu_memory_used > 100G", 13 * S, "it is 150");
	fires_once(folder, "gpu-lost", 18 * S + 1, "it is 1");
	fires_once(folder, "counter gpu_power > 650", 14 * S, "it is 650.5");
	never_fires(folder, "counter gpu_power > 651");
	fires_once(folder, "counter loss == nan", 16 * S, "NaN");
	fires_once(folder, "ecc", 18 * S, "1/s");
	fires_once(folder, "sticky-error", 20 * S, "CUDA_ERROR_LAUNCH_FAILED (719)");
	fires_once(folder, "cuda-error", 20 * S, "719");
	fires_once(folder, "gpu-idle > 1s", 4902 * MS, "GPU 0 has had no work for 1.00 s");
	fires_once(folder, "hang > 10s", 31 * S, "1 launch is outstanding");
	never_fires(folder, "hang > 35s"); /* its recording ended at 56 s */
	fires_once(folder, "exit-status != 0", 60 * S, "status 139");
	fires_once(folder, "fatal-signal", 60 * S, "SIGSEGV");
	fires_once(folder, "launch-rate < 5/s", 5 * S + 10, "0 launches");
	never_fires(folder, "file x; signal USR1");
	snprintf(path, sizeof(path), "%s/%d.0.pit", folder, PID);
	fires_once(path, "xid", 11 * S, "it is 79"); /* one segment */
}

/* Kernels without times, and none at all: what was launched does not hang. */
static void records_that_do_not_come_are_no_hang(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		char folder[4096];
		struct maker *m;

		snprintf(folder, sizeof(folder), "%s/%u", (char *)*state, i);
		m = maker_begin_with((struct writer_options){ .pid = PID }, folder, PID, 1 * S,
				     "./app");
		maker_capability(m, i == 3 ? feature_nvml : feature_cupti, capability_state_on,
				 NULL);
		if (i == 1)
			maker_capability(m, feature_kernel, capability_state_unavailable, NULL);
		maker_call(m, MAKER_LAUNCH, 7, 2 * S, 2 * S + 1, 1);
		maker_call(m, MAKER_MALLOC, 7, 8 * S, 8 * S + 1, 2); /* says nothing of work */
		if (i == 2)
			maker_kernel(m, maker_config(m, "add", 1, 32), 7, 0, 0, 1);
		maker_close(m, 20 * S);
		if (i)
			never_fires(folder, "hang > 10s");
		else
			fires_once(folder, "hang > 10s", 12 * S, "1 launch is outstanding");
	}
}

/* A capture that fails ends; where it was not one of that stream or thread, it goes on. */
static void a_capture_that_fails_ends(void **state)
{
	static const int32_t errors[] = { 0, 901, 904, 903, 908 };

	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
		char folder[4096];
		struct maker *m;

		snprintf(folder, sizeof(folder), "%s/%u", (char *)*state, i);
		m = maker_begin_with((struct writer_options){ .pid = PID }, folder, PID, 1 * S,
				     "./app");
		maker_capability(m, feature_cupti, capability_state_on, NULL);
		maker_call(m, MAKER_BEGIN_CAPTURE, 7, 2 * S, 2 * S + 1, 1);
		m->result = errors[i];
		maker_call(m, MAKER_END_CAPTURE, 7, 3 * S, 3 * S + 1, 2);
		m->result = 0;
		maker_call(m, MAKER_LAUNCH, 7, 4 * S, 4 * S + 1, 3);
		maker_close(m, 20 * S);
		if (errors[i] < 903 || errors[i] == 904)
			fires_once(folder, "hang > 10s", 14 * S, "1 launch is outstanding");
		else
			never_fires(folder, "hang > 10s");
	}
}

static void add_collective(struct maker *m, uint64_t time_ns, uint64_t correlation, bool captured)
{
	struct row_collective row = { .time_ns = time_ns,
				      .function = collective_function_all_reduce,
				      .thread = 7,
				      .correlation = correlation,
				      .captured = captured,
				      .missing = schema_missing(TABLE_collective) };

	if (correlation)
		ROW_PRESENT(&row, collective, correlation);
	ROW_PRESENT(&row, collective, captured);
	writer_append(m->writer, TABLE_collective, &row);
}

/* A collective without an end; one that is captured, and one whose launch is unknown. */
static void collectives_and_busy_seconds(void **state)
{
	const char *folder = *state;
	struct maker *m = maker_begin_with((struct writer_options){ .pid = PID }, folder, PID,
					   1 * S, "./app");
	uint32_t add = maker_config(m, "add", 1, 32);

	maker_capability(m, feature_cupti, capability_state_on, NULL);
	maker_device(m, 0, 1 * S);
	add_counter(m, 1, "gpu_throttle_reasons", 0, counter_kind_bits, counter_reading_integer);
	for (uint64_t i = 1; i < 7; i++) {
		uint64_t at = i * S, length = i < 4 ? 900 * MS : 100 * MS;

		maker_call(m, MAKER_LAUNCH, 7, at, at + 10, i);
		maker_kernel(m, add, 7, at + 20, at + 20 + length, i);
		add_collective(m, at, i, false);
		add_sample(m, 1, at, i < 4 ? 0 : 32);
	}
	maker_call(m, MAKER_LAUNCH, 7, 8 * S, 8 * S + 10, 20);
	add_collective(m, 8 * S, 20, true);
	maker_kernel(m, add, 7, 8 * S + 20, 8 * S + 30, 20);
	add_collective(m, 9 * S, 0, false);
	maker_call(m, MAKER_LAUNCH, 7, 10 * S, 10 * S + 10, 21);
	add_collective(m, 10 * S, 21, false);
	maker_call(m, MAKER_LAUNCH, 7, 11 * S, 11 * S + 10, 22);
	add_sample(m, 1, 7 * S, 32);
	add_sample(m, 1, 30 * S, 32);
	maker_close(m, 40 * S);
	fires_once(folder, "collective > 5s", 15 * S, "a collective has not ended for 5.00 s");
	never_fires(folder, "collective > 31s");
	fires_once(folder, "gpu-busy < 20%", 5 * S + 20, "GPU 0 was busy 10.0% of a second");
	fires_once(folder, "throttle > 90% for 2s", 7 * S, "it is 100%");
	never_fires(folder, "throttle > 99% for 5s");
	never_fires(folder, "oom-killed");
}

/* One of two ranks, which come `late` after each collective was launched. */
static void make_rank(const char *folder, int pid, uint64_t late_ns, uint64_t end_ns)
{
	struct maker *m = maker_begin_with((struct writer_options){ .pid = (uint32_t)pid }, folder,
					   pid, 1 * S, "./app");
	struct row_communicator communicator = { .id = 1,
						 .hash = 1234,
						 .missing = schema_missing(TABLE_communicator) };
	uint32_t add = maker_config(m, "ncclDevKernel", 1, 32);

	writer_append(m->writer, TABLE_communicator, &communicator);
	for (uint64_t i = 1; i <= 40; i++) {
		uint64_t at = 1 * S + i * 100 * MS;
		struct row_collective row = { .time_ns = at,
					      .communicator = 1,
					      .function = i % 4 ? collective_function_all_reduce
								: collective_function_send,
					      .sequence = i,
					      .thread = 7,
					      .correlation = i,
					      .missing = schema_missing(TABLE_collective) };

		ROW_PRESENT(&row, collective, correlation);
		ROW_PRESENT(&row, collective, communicator);
		ROW_PRESENT(&row, collective, sequence);
		maker_call(m, MAKER_LAUNCH, 7, at, at + 10, i);
		writer_append(m->writer, TABLE_collective, &row);
		maker_kernel(m, add, 7, at + late_ns, at + end_ns, i);
	}
	maker_close(m, 10 * S);
}

static void ranks_that_wait_for_one(void **state)
{
	const char *folder = *state;
	struct fired fired;

	make_rank(folder, PID, 1 * MS, 50 * MS);
	make_rank(folder, PID + 1, 41 * MS, 50 * MS);
	test_rules(folder, "straggler > 20% for 3s", &fired);
	assert_int_equal(fired.count, 1);
	assert_int_equal(fired.items[0].pid, PID + 1);
	assert_non_null(strstr(fired.items[0].evidence, " the others waited for it, in 2"));
	never_fires(folder, "straggler > 35% for 3s"); /* sends count for nobody */
}

/* A process that was killed hangs until its last row, whatever that is about. */
static void a_recording_without_an_end(void **state)
{
	struct maker *m = maker_begin_with((struct writer_options){ .pid = PID }, *state, PID,
					   1 * S, "./app");

	maker_capability(m, feature_cupti, capability_state_on, NULL);
	maker_call(m, MAKER_LAUNCH, 7, 2 * S, 2 * S + 1, 1);
	maker_thread(m, 7, "worker", 15 * S);
	maker_flush(m);
	fires_once(*state, "hang > 10s", 12 * S, "1 launch is outstanding");
	never_fires(*state, "hang > 14s");
	maker_close(m, 15 * S);
}

static void what_cannot_be_read_is_named(void **state)
{
	const struct rule none = { .metric = RULE_xid };
	struct fired fired = { .count = 0 };
	struct error e = { 0 };
	char path[4096];
	FILE *f;

	assert_int_equal(rule_feed_recording(*state, &none, 1, on_firing, &fired, &e), E_FORMAT);
	assert_non_null(strstr(e.text, "no .pit segment in it"));
	snprintf(path, sizeof(path), "%s/x.pit", (char *)*state);
	assert_true(rule_feed_recording(path, &none, 1, on_firing, &fired, &e) < 0);
	f = fopen(path, "w");
	fputs("no segment", f);
	fclose(f);
	assert_true(rule_feed_recording(*state, &none, 1, on_firing, &fired, &e) < 0);
	assert_non_null(strstr(e.text, "x.pit"));
}

/* While a recording grows, its rows are read once. */
static void new_blocks_are_read(void **state)
{
	struct rule_list list = { .count = 0 };
	struct fired fired = { .count = 0 };
	struct maker *m = maker_begin(*state, PID, 1 * S, "./app");
	struct rule_segment *s;
	struct rule_watch *w;
	struct rule_feed *f;
	char path[4096];

	assert_int_equal(rule_list_add(&list, "nvtx == here", NULL), 0);
	w = rule_watch_new(list.rules, list.count, on_firing, &fired);
	f = rule_feed_new(list.rules, list.count, w);
	assert_non_null(f);
	maker_nvtx(m, nvtx_kind_mark, 7, "here", 2 * S);
	maker_flush(m);
	snprintf(path, sizeof(path), "%s/%d.0.pit", (char *)*state, PID);
	assert_int_equal(rule_segment_open(f, path, &s, NULL), 0);
	for (unsigned round = 1; round < 4; round++) {
		assert_int_equal(rule_segment_read(f, s), 0);
		assert_int_equal(rule_segment_read(f, s), 0);
		rule_feed_pass(f, (round + 1) * S - 1);
		assert_int_equal(fired.count, round - 1); /* that moment is not over */
		rule_feed_pass(f, (round + 1) * S);
		assert_int_equal(fired.count, round);
		maker_nvtx(m, nvtx_kind_mark, 7, "here", (round + 2) * S);
		maker_flush(m);
	}
	maker_close(m, 9 * S);
	rule_segment_free(s);
	rule_feed_free(f);
	rule_watch_free(w);
}

struct opened {
	const struct rule_feed *feed;
	char scopes[100], ranges[100]; /* names of steps, each with a blank */
};

static void on_fact(void *user, const struct fact *f)
{
	struct opened *o = user;
	char *names = f->is_scope ? o->scopes : o->ranges;
	size_t length = strlen(names);

	if (f->kind == FACT_OPENS && f->rules)
		snprintf(names + length, 100 - length, "%s ",
			 rule_feed_range_name(o->feed, f->instance));
}

/* Names of steps have no numbers; Pitot's own scopes and NVTX's ranges are told apart. */
static void steps_have_a_name_and_a_source(void **state)
{
	struct rule_list list = { .count = 0 };
	struct fired fired = { .count = 0 };
	struct maker *m = maker_begin(*state, PID, 1 * S, "./app");
	struct opened opened = { .feed = NULL };
	struct rule_segment *s;
	struct rule_watch *w;
	struct rule_feed *f;
	char path[4096];

	maker_nvtx(m, nvtx_kind_push, 7, "Training step 4", 2 * S);
	maker_scope(m, nvtx_kind_push, 7, "step 12", 0, 3 * S);
	maker_scope(m, nvtx_kind_push, 7, "forward", 0, 4 * S);
	maker_nvtx(m, nvtx_kind_push, 7, "request", 5 * S);
	maker_close(m, 9 * S);
	assert_int_equal(rule_list_add(&list, "step-time >= 1ns", NULL), 0);
	assert_int_equal(rule_list_add(&list, "range-time request >= 1ns", NULL), 0);
	w = rule_watch_new(list.rules, list.count, on_firing, &fired);
	f = rule_feed_new(list.rules, list.count, w);
	assert_non_null(f);
	opened.feed = f;
	rule_feed_observe(f, on_fact, &opened);
	snprintf(path, sizeof(path), "%s/%d.0.pit", (char *)*state, PID);
	assert_int_equal(rule_segment_open(f, path, &s, NULL), 0);
	assert_int_equal(rule_segment_read(f, s), 0);
	rule_feed_pass(f, 10 * S);
	assert_string_equal(opened.scopes, "step ");
	assert_string_equal(opened.ranges, "training_step request ");
	assert_string_equal(rule_feed_range_name(f, 0), "");
	assert_int_equal(rule_feed_forgotten(f), 0);
	rule_segment_free(s);
	rule_feed_free(f);
	rule_watch_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(rules_hold_at_their_moments),
		folder_test(records_that_do_not_come_are_no_hang),
		folder_test(a_capture_that_fails_ends),
		folder_test(collectives_and_busy_seconds),
		folder_test(ranks_that_wait_for_one),
		folder_test(a_recording_without_an_end),
		folder_test(what_cannot_be_read_is_named),
		folder_test(new_blocks_are_read),
		folder_test(steps_have_a_name_and_a_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
