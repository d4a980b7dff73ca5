/*
 * spool.h: what the agent has made and the lake does not have yet, and where it has read to. So
 * that every row is shipped once, whenever the agent is killed:
 *
 *  1. The objects of a batch are written into the spool, and are on the disk.
 *  2. The state, with all that was read, and the number of the batch, replaces the one before. This
 *     is the moment at which rows become part of the lake's future.
 *  3. Objects are copied to where they are for, under names that do not depend on when, and then
 *     removed.
 *
 * Objects of a batch that the state does not name are removed at the start: their rows are read
 * again. The names of objects in the spool have all that is needed:
 *
 *	BATCH!ROWS!TABLE!date=DATE!NAME.parquet     the key in the lake, with ! for /
 *	BATCH!ROWS!TABLE!date=DATE!NAME.jsonl       the same rows for Kafka, if it is used
 *	BATCH!WORK!profile!date=DATE!NAME.profile   a request to a server of profiles, if it is used
 *	window!date=DATE!NAME.pitot                 a folder; it belongs to no batch, and is whole
 *	sent!SINK!HASH                              the sink has a window; for a week
 *	dropped!BATCH!ROWS!HASH.parquet             dropped for want of room; a loss of that batch
 *	refused!BATCH!WORK!HASH.profile             the same of what the server never takes
 */
#ifndef PITOT_AGENT_SPOOL_H
#define PITOT_AGENT_SPOOL_H

#include "agent/fleet_tables.h"
#include "agent/lake.h"

/* What objects are for: each has its own, so that one that is away does not hold up another. */
enum spool_sink {
	SPOOL_LAKE, /* also windows */
	SPOOL_KAFKA,
	SPOOL_PROFILES,
	SPOOL_GPUFL, /* windows only */
	SPOOL_SINKS,
};

struct spool_object {
	char *name;
	enum spool_sink sink;
	uint64_t batch, rows, bytes;
	bool is_dropped;
};

struct spool {
	const char *path;
	int folder, lock;
	uint64_t bytes_max;
	uint64_t agent; /* random: names of objects have it */
	uint64_t batch; /* of the state */
	VEC(struct spool_object) objects; /* oldest first */
	uint64_t bytes; /* of them */
	uint64_t dropped_rows[SPOOL_SINKS]; /* of objects that were dropped, and no loss says so */
	uint64_t refused_rows; /* of objects that will never be taken, and no loss says so */
	bool has_kafka; /* rows are also written for it */
	unsigned window_sinks; /* 1 << SPOOL_LAKE …: who gets windows */
};

/*
 * Opens or makes the folder, which must be the user's, and which one agent has. Reads the state
 * into *state ("": there is none). Returns 0 or a negative code.
 */
int spool_open(struct spool *s, const char *path, struct strbuf *state, struct error *e) MUST_USE;
/*
 * After `agent` and `batch` of the state are set: lists the objects, and removes what is no part.
 * Returns 0 or a negative code.
 */
int spool_recover(struct spool *s, struct error *e) MUST_USE;
void spool_release(struct spool *s);

/* What an object is called by. */
struct spool_part {
	const char *table;
	enum spool_sink sink;
	uint64_t rows, from_ns, until_ns; /* CLOCK_REALTIME */
	const char *job, *host; /* job "": none */
};
/*
 * Adds an object to the next batch before its rows are written, once for all attempts to do so.
 * Returns 0 or a negative code.
 */
int spool_add(struct spool *s, const struct spool_part *part, const struct strbuf *text,
	      struct error *e) MUST_USE;
/* Writes rows as the objects of the next batch. On failure there are none. 0 or negative code. */
int spool_write(struct spool *s, const struct fleet_rows *rows, struct error *e) MUST_USE;
/*
 * Replaces the state, which names the next batch: its objects are to be shipped. On failure there
 * are none. 0 or a negative code.
 */
int spool_commit(struct spool *s, const struct strbuf *state, struct error *e) MUST_USE;

/*
 * Ships an object: a file, and the table, the key and the name that it has wherever it is. Returns
 * 0, 1 if it is on its way and this is to be asked again, SPOOL_REFUSED if it never will be taken,
 * or a negative code.
 */
#define SPOOL_REFUSED 2
typedef int spool_put(void *user, int file, const char *table, const char *key, const char *name,
		      struct error *e);
struct spool_shipped {
	size_t objects;
	bool is_waiting; /* some are on their way, or there was no time */
};
/*
 * Ships objects for one sink, the oldest first, until one fails, or until then (CLOCK_MONOTONIC).
 * Returns 0 or a negative code.
 */
int spool_ship(struct spool *s, enum spool_sink sink, spool_put *put, void *user, uint64_t until_ns,
	       struct spool_shipped *out, struct error *e) MUST_USE;
/* Ships the window in a folder of the spool, which may be there already. 0 or a negative code. */
typedef int spool_put_window(void *user, const char *name, const char *key, struct error *e);
/*
 * Ships windows to one of window_sinks, in the same way. They are removed when all have them; if
 * this process ends at that moment, they are shipped again.
 */
int spool_ship_windows(struct spool *s, enum spool_sink sink, spool_put_window *put, void *user,
		       uint64_t until_ns, struct spool_shipped *out, struct error *e) MUST_USE;

#endif
