/* sql_functions.h: functions that SQLite lacks. */
#ifndef PITOT_SQL_SQL_FUNCTIONS_H
#define PITOT_SQL_SQL_FUNCTIONS_H

#include <sqlite3.h>

#include "base/map.h"
#include "base/strbuf.h"

#define SQL_FUNCTIONS(F)                                                                           \
	F("median(X)", "the value in the middle, of an even number the lower one")                 \
	F("percentile(X, P)", "the value at P percent of the sorted ones, by nearest rank")        \
	F("stddev(X)", "the standard deviation of a sample")                                       \
	F("kernel_short(NAME)", "a kernel's name as reports show it")                              \
	F("kernel_full(NAME)", "a kernel's demangled name")                                        \
	F("overlap(START, END, START, END)", "how long both spans last together, in nanoseconds")

/* Short or full names of kernels, of which each is made once. Not thread-safe. */
struct kernel_names;
struct kernel_names *kernel_names_new(bool full); /* NULL: out of memory */
void kernel_names_free(struct kernel_names *n);
/* Valid until free; of very many, in `room`, until the next call. NULL: out of memory. */
const char *kernel_names_text(struct kernel_names *n, const char *name, size_t length,
			      struct strbuf *room) MUST_USE;

/* Registers them, and text_id(TEXT), the number of a text in `texts`. An SQLite result. */
int sql_functions_add(sqlite3 *db, struct interner *texts);

#endif
