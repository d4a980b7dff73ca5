/*
 * sql_watch.h: a thread that ends what does not end by itself. SQLite looks at the limits between
 * two instructions of its machine, DuckDB between two chunks of rows, so that neither does while
 * one function computes: instr() of long texts, a list of a billion numbers. Besides, DuckDB
 * forgets an interrupt when a statement begins, and does not count the memory of such lists.
 */
#ifndef PITOT_SQL_SQL_WATCH_H
#define PITOT_SQL_SQL_WATCH_H

#include <stdatomic.h>

#include "sql/sql_source.h"

/* Starts the thread, if something needs it. 0 or a negative code. */
int sql_watch_start(struct sql *s, struct error *e) MUST_USE;
void sql_watch_stop(struct sql *s);

/* From the first to the last call of a statement, and around each call. */
void sql_watch_begin(struct sql *s);
void sql_watch_end(struct sql *s);
static inline void sql_watch_call(struct sql *s)
{
	/* Only this thread changes it. */
	atomic_store_explicit(&s->calls, s->calls + 1, memory_order_relaxed);
}

#endif
