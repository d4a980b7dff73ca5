/* trace_fixture.h: what the tests of src/trace share. */
#ifndef PITOT_TESTS_TRACE_FIXTURE_H
#define PITOT_TESTS_TRACE_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "support/cmocka_tests.h"
#include "support/make_recording.h"
#include "trace/trace.h"

static inline struct trace *open_with(const char *path, unsigned threads)
{
	struct trace_options options = { .threads = threads };
	struct error e = { 0 };
	struct trace *t = NULL;

	if (trace_open(path, &options, &t, &e) < 0)
		fail_msg("%s", e.text);
	return t;
}

static inline struct trace *open_recording(const char *path)
{
	return open_with(path, 2);
}

static inline void load(struct trace *t, enum table_id table, uint64_t columns)
{
	struct error e = { 0 };

	if (trace_load(t, table, columns, &e) < 0)
		fail_msg("%s", e.text);
}

/* Losses of one reason: their number; *last is the last one (may be NULL). */
static inline size_t count_losses(struct trace *t, enum loss_reason reason, struct trace_loss *last)
{
	const struct trace_loss *losses;
	size_t count, found = 0;

	assert_int_equal(trace_losses(t, &losses, &count, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		if (losses[i].reason != reason)
			continue;
		found++;
		if (last)
			*last = losses[i];
	}
	return found;
}

/* A kernel's name, through its configuration; "" when that is missing. */
static inline const char *kernel_name(struct trace *t, uint64_t row)
{
	uint32_t config;

	load(t, TABLE_kernel, COLUMN_BIT(kernel, config));
	load(t, TABLE_kernel_config, COLUMN_BIT(kernel_config, name));
	config = trace_u32(t, TABLE_kernel, COLUMN_kernel_config)[row];
	if (config == TRACE_NO_ROW)
		return "";
	return trace_string(t,
			    trace_u32(t, TABLE_kernel_config, COLUMN_kernel_config_name)[config]);
}

#endif
