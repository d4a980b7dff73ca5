/*
 * row_feed.h: appends rows of a trace to a sink (format/sink.h), each after the texts and the
 * definitions that it refers to. One feed is for one process's sink. The sink knows rows of tables
 * of definitions by their row numbers, to which the trace has turned references.
 */
#ifndef PITOT_EXPORT_ROW_FEED_H
#define PITOT_EXPORT_ROW_FEED_H

#include "format/sink.h"
#include "trace/trace.h"

#define ROW_BYTES_MAX 512

struct row_feed {
	const struct trace *trace;
	struct sink *sink;
	uint8_t *known[TABLE_END]; /* of tables referred to: one bit per row that the sink has */
};

/* Returns 0 or -ENOMEM. */
int row_feed_init(struct row_feed *f, const struct trace *t, struct sink *sink) MUST_USE;
void row_feed_release(struct row_feed *f);
/* Fills a struct row_<table>, and appends what it refers to. */
void row_feed_read(struct row_feed *f, enum table_id table, uint64_t row, void *out);
/* Appends the text or the definition with that number, unless the sink has it. */
void row_feed_refer(struct row_feed *f, enum table_id table, uint32_t number);
void row_feed_append(struct row_feed *f, enum table_id table, uint64_t row);
/* Appends all rows of a process. */
void row_feed_table(struct row_feed *f, enum table_id table, size_t process);
/* Appends a text that is not in the trace, and returns its id; number: from 0. */
uint32_t row_feed_text(struct row_feed *f, uint32_t number, const char *text);

#endif
