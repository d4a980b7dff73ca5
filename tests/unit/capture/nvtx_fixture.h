/*
 * nvtx_fixture.h: an NVTX client that the source is attached to, what the rest of the recorder
 * would be, and the rows that come out. Include it once in a test.
 */
#ifndef PITOT_TESTS_NVTX_FIXTURE_H
#define PITOT_TESTS_NVTX_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "capture/nvtx/nvtx_names.h"
#include "capture/nvtx/nvtx_source.h"
#include "unit/capture/captured_rows.h"
#include "unit/capture/nvtx_client.h"
#include "unit/capture/source_ops.h"

#ifndef WITH_COLLECTOR
atomic_bool collector_idle;

void collector_wake(void)
{
	atomic_store(&collector_idle, false);
}
#endif

static inline uint64_t drain(struct writer *w)
{
	return source_drain(&nvtx_source, w);
}

static struct captured *captured;

static inline int begin(void **state)
{
	(void)state;
	rings_after_fork();
	nvtx_source.after_fork();
	client_reset();
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	captured = captured_begin();
	source_window(&nvtx_source, true, NULL);
	while (nvtx.pop() >= 0)
		;
	rings_discard();
	return 0;
}

static inline int finish(void **state)
{
	(void)state;
	captured_free(captured);
	return 0;
}

static struct row_nvtx *rows;
static size_t row_count;

/* Ends the recording and reads its table nvtx. */
static inline void read_rows(void)
{
	drain(captured->writer);
	captured_close(captured);
	free(rows);
	rows = captured_rows(captured, TABLE_nvtx, &row_count);
}

static inline const char *text_of(const struct row_nvtx *row)
{
	return HAS(row, nvtx, message) ? captured_text(captured, row->message) : "(none)";
}

static inline void assert_row(size_t i, enum nvtx_kind kind, uint32_t domain, const char *text)
{
	assert_true(i < row_count);
	assert_int_equal(rows[i].kind, kind);
	assert_int_equal(rows[i].domain, domain);
	assert_string_equal(text_of(&rows[i]), text);
	assert_int_equal(rows[i].thread, syscall(SYS_gettid));
}

/* Sum of the counts of loss rows with this detail. */
static inline uint64_t loss(const char *detail)
{
	size_t count;
	struct row_loss *losses = captured_rows(captured, TABLE_loss, &count);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		assert_true(losses[i].start_ns <= losses[i].end_ns);
		if (strcmp(captured_text(captured, losses[i].detail), detail) == 0)
			sum += losses[i].count;
	}
	free(losses);
	return sum;
}

static inline uint32_t domain_number(void *handle)
{
	const struct nvtx_name *domain = nvtx_names_check(handle, NVTX_NAMED_DOMAIN);

	assert_non_null(domain);
	return domain->domain;
}

static inline struct nvtx_attributes attributes_with(int32_t type, const void *text)
{
	return (struct nvtx_attributes){ .version = 3,
					 .size = sizeof(struct nvtx_attributes),
					 .message_type = type,
					 .message = text };
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

#endif
