/*
 * perfetto_counter.h: readings of counters over time.
 *
 * A GPU counter's value covers the time before it in Perfetto, back to the one before ("backwards",
 * the only way that all readers know). Our readings hold from when they were taken, so each is
 * written when the next one comes, and the last at the end. Counters of the host are counters of
 * their process, whose values hold from their time on.
 */
#ifndef PITOT_PERFETTO_PERFETTO_COUNTER_H
#define PITOT_PERFETTO_PERFETTO_COUNTER_H

#include "base/map.h"
#include "base/vec.h"
#include "perfetto/perfetto_packets.h"

struct perfetto_value {
	bool is_real;
	double real;
	int64_t integer;
};

/* One counter of one GPU. */
struct perfetto_reading {
	uint32_t gpu, counter; /* counter: its number, from 1 */
	struct perfetto_value value;
};

struct perfetto_readings {
	struct map index; /* gpu << 32 | counter -> position */
	VEC(struct perfetto_reading) items;
	struct map gpus; /* whose descriptors are in this file */
	uint32_t generation; /* of descriptors; changed when a counter has come */
	struct perfetto_sequence sequence;
	/* Writes the specifications of all counters, each with perfetto_counter_specify. */
	void (*specify)(void *user, struct strbuf *s);
	void *user;
};

struct perfetto_counter {
	uint32_t number;
	const char *name, *description, *unit;
	bool is_default; /* of a metric: measured where nobody chooses */
};

/* Perfetto's GpuCounterGroup. */
enum perfetto_counter_group { PERFETTO_GROUP_SYSTEM = 1, PERFETTO_GROUP_COMPUTE = 6 };

/* Units may be CUPTI's: "byte/second". */
void perfetto_counter_specify(struct strbuf *s, const struct perfetto_counter *counter,
			      enum perfetto_counter_group group);

void perfetto_readings_restart(struct perfetto_readings *r, uint32_t sequence);
void perfetto_readings_release(struct perfetto_readings *r);
/* A reading at a time. 0 or -ENOMEM. */
int perfetto_readings_add(struct perfetto_readings *r, struct strbuf *s,
			  const struct perfetto_reading *now, uint64_t time_ns) MUST_USE;
/*
 * The memory in use and the clock of a GPU are on tracks of their own, too, which readers have for
 * these.
 */
void perfetto_reading_of_gpu(struct perfetto_readings *r, struct strbuf *s, const char *counter,
			     const struct perfetto_reading *now, uint64_t time_ns);
/* The last values hold until then; readings begin anew. 0 or -ENOMEM. */
int perfetto_readings_finish(struct perfetto_readings *r, struct strbuf *s,
			     uint64_t time_ns) MUST_USE;

/* --- hardware counters of kernels: 0 at the start of one, their value at its end --- */

struct perfetto_metric {
	uint32_t number; /* from 1 */
	double value;
};

struct perfetto_metrics {
	struct map gpus; /* iids of descriptors that are in this file */
	uint32_t generation; /* of descriptors; changed when a metric has come */
	/* The same for metrics. */
	void (*specify)(void *user, struct strbuf *s);
	void *user;
};

/* What was measured of a kernel, in the sequence of readings. 0 or -ENOMEM. */
int perfetto_metrics_add(struct perfetto_metrics *m, struct perfetto_sequence *sequence,
			 struct strbuf *s, uint32_t gpu, const uint64_t times_ns[2],
			 const struct perfetto_metric *metrics, size_t count) MUST_USE;

/* A value on a counter's track. */
void perfetto_counter_event(struct strbuf *s, const struct perfetto_packet *head, uint64_t uuid,
			    const struct perfetto_value *value);

#endif
