/*
 * journal.h: the rows that a recording's sink has accepted and not yet stored, in memory that
 * another process can read after this one has died (capture/core/shared_area.h).
 *
 * A row is appended before anything else is done with it. Once a seal has put all rows before a
 * position into blocks, and these have been written, the position is committed together with the
 * end of the segment. Blocks behind that end, such as those of a write that a kill interrupted,
 * contain the first rows of their table behind the position, since each table's rows stay in their
 * order. So a reader stores each row exactly once.
 *
 * A mark says which of its inputs the recorder is turning into rows: rows behind its position come
 * from an input that is not yet consumed, and which the reader turns into rows itself.
 *
 * Commits and marks have two cells each. The number of the latest says which one is valid; the
 * other one may be half written. Appending and marking belong to one thread, committing to another.
 */
#ifndef PITOT_FORMAT_JOURNAL_H
#define PITOT_FORMAT_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "schema/schema.h"

struct journal_commit {
	uint64_t position; /* rows before it are stored, or were counted as lost */
	uint64_t skipped; /* journal.skipped at that moment */
	uint64_t end; /* offset in the segment after the last block */
	uint64_t segment; /* number in the session */
};

#define JOURNAL_NO_SOURCE 0u

struct journal_mark {
	uint64_t source; /* an input, by numbers of the user; JOURNAL_NO_SOURCE: none */
	uint64_t progress; /* how much of it has been consumed */
	uint64_t position; /* behind it are rows of what is being consumed */
};

/* Two processes share it. The rows follow: `size` bytes that are used as a ring. */
struct journal {
	uint64_t size;
	atomic_uint_fast64_t session; /* id of the recording's session; 0: it has ended in order */
	atomic_uint_fast64_t committed; /* the latest commit's position, for the appending thread */
	atomic_uint_fast64_t head; /* bytes appended, ever */
	atomic_uint_fast64_t skipped; /* rows for which there was no room */
	atomic_uint_fast64_t last_string, last_config; /* highest ids in the rows */
	atomic_uint_fast64_t commits_made, marks_made;
	struct journal_commit commits[2];
	struct journal_mark marks[2];
};
_Static_assert(sizeof(struct journal) == 184, "two processes share it");

/* Precedes each row; all begin at multiples of 8 bytes. */
struct journal_entry {
	uint32_t table;
	uint32_t length; /* bytes of the row and, for TABLE_string, of the text behind it */
};

static inline uint64_t journal_entry_bytes(uint32_t length)
{
	return sizeof(struct journal_entry) + (((uint64_t)length + 7) & ~UINT64_C(7));
}

/* Makes an empty journal of a session; size is a multiple of 8. */
void journal_begin(struct journal *j, uint64_t size, uint64_t session);
/* The session has ended in order: nothing is left to read. */
void journal_end(struct journal *j);
/* Appends a row (struct row_<table>), or counts that it finds no room. */
void journal_append(struct journal *j, const struct table_schema *table, const void *row);
uint64_t journal_head(const struct journal *j);
void journal_commit(struct journal *j, const struct journal_commit *commit);
void journal_mark(struct journal *j, uint64_t source, uint64_t progress);

#endif
