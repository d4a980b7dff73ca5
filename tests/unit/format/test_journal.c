/* The rows of a recording that are not stored yet, as another process reads them (journal.h). */
#include "format/journal.h"

#include "recording_fixture.h"

#define BYTES 4096u

static struct journal *journal;

static int setup(void **state)
{
	(void)state;
	journal = calloc(1, sizeof(*journal) + BYTES);
	journal_begin(journal, BYTES, 5);
	return journal ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(journal);
	return 0;
}

static void append_mark(uint64_t id)
{
	struct row_string row = { .id = (uint32_t)id, .text = { "text", 4 } };

	journal_append(journal, schema_table(TABLE_string), &row);
}

static uint64_t entry_bytes(void)
{
	return journal_entry_bytes((uint32_t)sizeof(struct row_string) + 4);
}

static void test_rows_wrap_around(void **state)
{
	uint64_t count = BYTES / entry_bytes();
	struct journal_commit commit = { .position = 2 * entry_bytes(), .end = 1, .segment = 3 };

	(void)state;
	for (uint64_t i = 0; i < count; i++)
		append_mark(i);
	assert_int_equal(journal_head(journal), count * entry_bytes());
	assert_int_equal(journal->last_string, count - 1);
	journal_commit(journal, &commit);
	append_mark(count);
	assert_int_equal(journal_head(journal), (count + 1) * entry_bytes());
	assert_int_equal(journal->skipped, 0);
}

static void test_a_full_journal_counts(void **state)
{
	(void)state;
	for (unsigned i = 0; i < BYTES / entry_bytes() + 5; i++)
		append_mark(i);
	assert_int_equal(journal->skipped, 5);
	assert_true(journal_head(journal) <= BYTES);
}

/* Whatever moment a reader comes at, the latest number leads to a complete cell. */
static void test_the_latest_cell_is_complete(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 10; i++) {
		journal_commit(journal, &(struct journal_commit){ i, 0, 2 * i, 3 * i });
		assert_int_equal(journal->commits[journal->commits_made % 2].position, i);
		assert_int_equal(journal->commits[journal->commits_made % 2].segment, 3 * i);
		append_mark(i);
		journal_mark(journal, 7, i);
		assert_int_equal(journal->marks[journal->marks_made % 2].progress, i);
		assert_int_equal(journal->marks[journal->marks_made % 2].position,
				 journal_head(journal));
	}
	journal_mark(journal, JOURNAL_NO_SOURCE, 0);
	assert_int_equal(journal->marks[journal->marks_made % 2].source, JOURNAL_NO_SOURCE);
	journal_end(journal);
	assert_int_equal(journal->session, 0);
}

/* A recording commits what its seals have stored, and nothing else. */
static void test_a_recording_commits(void **state)
{
	struct fixture f;
	struct writer_options options = { .directory = f.directory,
					  .journal = journal,
					  .journal_bytes = BYTES };
	struct row_loss row = { .reason = loss_reason_unknown, .count = 1 };
	struct writer *w;

	(void)state;
	fixture_open(&f);
	ROW_MISSING(&row, loss, detail);
	assert_int_equal(writer_open(&options, &w, NULL), 0);
	writer_append(w, TABLE_loss, &row);
	assert_int_equal(journal->committed, 0);
	assert_int_equal(writer_flush(w), 0);
	assert_int_equal(journal->committed, journal_head(journal));
	assert_int_equal(journal->commits[1].segment, 0);
	writer_append(w, TABLE_loss, &row);
	assert_true(journal->committed < journal_head(journal));
	assert_true(journal->session);
	assert_int_equal(writer_close(&w), 0);
	assert_int_equal(journal->session, 0);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rows_wrap_around, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_full_journal_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_latest_cell_is_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_recording_commits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
