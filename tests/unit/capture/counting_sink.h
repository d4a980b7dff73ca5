/* counting_sink.h: a sink that counts rows by table. Its numbers can be read while it is in use. */
#ifndef PITOT_TESTS_COUNTING_SINK_H
#define PITOT_TESTS_COUNTING_SINK_H

#include <stdatomic.h>

#include "format/sink.h"

struct counting_sink {
	struct sink sink;
	atomic_uint_fast64_t rows[TABLE_END];
	/* Rows of a test's own interest, on the writer's thread; NULL: none. */
	void (*on_row)(struct counting_sink *s, enum table_id table, const void *row);
	void (*on_epoch)(struct counting_sink *s);
	atomic_uint slow; /* so many seals do not wait for the disk, which is done soon after */
	atomic_bool closed, abandoned;
};

/*
 * Whoever embeds it sets on_row and on_epoch itself. The sink is the test's and never freed by the
 * writer.
 */
void counting_sink_init(struct counting_sink *s);

#endif
