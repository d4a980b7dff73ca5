/* link: -Wl,--wrap=adjtimex */
/* What adjtimex says gets into the recording, and is a bound only if it is one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timex.h>

#include "record/recording.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"
#include "trace/columns.h"
#include "trace/trace.h"

#define UNKNOWN UINT64_MAX
#define BOOT "the boot"

static const struct timex *answer; /* NULL: it is forbidden */

int __wrap_adjtimex(struct timex *t);
int __wrap_adjtimex(struct timex *t)
{
	assert_int_equal(t->modes, 0); /* nothing is set */
	if (!answer) {
		errno = EPERM;
		return -1;
	}
	*t = *answer;
	return t->status & STA_UNSYNC ? TIME_ERROR : TIME_OK;
}

static const struct sample {
	const char *who;
	struct timex says;
	uint64_t error_ns; /* expected; UNKNOWN: no bound */
	int64_t offset_ns;
} samples[] = {
	{ "chronyd",
	  { .maxerror = 700, .esterror = 30, .status = STA_PLL | STA_NANO, .tai = 37 },
	  700000,
	  0 },
	{ "ntpd",
	  { .maxerror = 900, .esterror = 80, .offset = -250, .status = STA_PLL },
	  1150000,
	  -250000 },
	{ "ntpd, ns",
	  { .maxerror = 900, .esterror = 80, .offset = -250, .status = STA_PLL | STA_NANO },
	  900250,
	  -250 },
	{ "timesyncd", { .maxerror = 40, .status = STA_PLL | STA_NANO }, UNKNOWN, 0 },
	{ "phc2sys", { .maxerror = 400, .esterror = 16000000 }, UNKNOWN, 0 },
	{ "an error beyond the limit", { .maxerror = 16000001, .esterror = 1 }, UNKNOWN, 0 },
	{ "negative", { .maxerror = -1, .esterror = -5 }, UNKNOWN, 0 },
	{ "nobody", { .maxerror = 700, .esterror = 30, .status = STA_UNSYNC }, UNKNOWN, 0 },
};

/* Two readings, and the recording with them. */
static struct trace *read_twice(const char *folder)
{
	struct row_process row = { .pid = 7,
				   .start_ns = 1,
				   .missing = schema_missing(TABLE_process) };
	struct writer_options options = { .directory = folder, .prefix = "7" };
	struct trace_options how = { .threads = 1 };
	struct error e = { 0 };
	struct writer *w;
	struct trace *t;

	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(writer_open(&options, &w, NULL), 0);
	row.boot_id = writer_string(w, BOOT, strlen(BOOT));
	writer_append(w, TABLE_process, &row);
	record_write_clock(w);
	record_write_clock(w);
	assert_int_equal(writer_close(&w), 0);
	if (trace_open(folder, &how, &t, &e) < 0 || trace_load(t, TABLE_clock, 0, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(trace_rows(t, TABLE_clock), 2);
	return t;
}

static void what_is_said_is_recorded(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *s = &samples[i];
		const struct clock_columns *c;
		struct realtime_error found;
		struct trace *t;
		char name[8];

		answer = &s->says;
		snprintf(name, sizeof(name), "%zu", i);
		t = read_twice(temp_file(*state, name));
		c = clock_columns(t);
		found = trace_realtime_error(t, trace_process(t, 0)->boot_id);
		assert_true(found.is_known);
		assert_int_equal(found.unsynchronized, (s->says.status & STA_UNSYNC) != 0);
		assert_int_equal(c->offset_ns[1], s->offset_ns);
		assert_int_equal(column_has(c->valid.tai_s, 1), s->says.tai != 0);
		assert_int_equal(c->tai_s[1], s->says.tai);
		assert_int_equal(column_has(c->valid.max_error_ns, 1), s->says.maxerror >= 0);
		if (s->error_ns == UNKNOWN && found.bound_ns != UNKNOWN)
			fail_msg("%s: bound of %llu ns", s->who,
				 (unsigned long long)found.bound_ns);
		/* and how long the readings took, and the time between them */
		if (s->error_ns != UNKNOWN)
			assert_in_range(found.bound_ns, s->error_ns, s->error_ns + 100000000);
		trace_free(t);
	}
}

static void what_is_forbidden_is_missing(void **state)
{
	const struct clock_columns *c;
	struct realtime_error found;
	struct trace *t;

	answer = NULL;
	t = read_twice(temp_file(*state, "none"));
	c = clock_columns(t);
	found = trace_realtime_error(t, trace_process(t, 0)->boot_id);
	assert_true(c->realtime_ns[0] > 0 && !found.is_known && !found.unsynchronized);
	assert_int_equal(found.bound_ns, UNKNOWN);
	assert_false(column_has(c->valid.unsynchronized, 0) || column_has(c->valid.offset_ns, 0) ||
		     column_has(c->valid.max_error_ns, 0) ||
		     column_has(c->valid.estimated_error_ns, 0) || column_has(c->valid.tai_s, 0));
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_is_said_is_recorded),
		folder_test(what_is_forbidden_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
