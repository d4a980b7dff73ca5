/*
 * perfetto_counter_packets.h: readings of counters over time.
 *
 * In Perfetto the value of a GPU counter covers the time back to the previous one ("backwards", the
 * only mode that all readers support). Pitot's readings hold from the time of the reading on. Each
 * is therefore written when the next one arrives, and the last at the end. Host counters belong to
 * their process, and their values hold from their time on.
 */
#ifndef PITOT_PERFETTO_PERFETTO_COUNTER_PACKETS_H
#define PITOT_PERFETTO_PERFETTO_COUNTER_PACKETS_H

#include "base/map.h"
#include "base/vec.h"
#include "perfetto/perfetto_packets.h"
#include "schema/schema.h"

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
	struct map index; /* gpu << 32 | counter -> index into items */
	VEC(struct perfetto_reading) items;
	struct map gpus; /* GPUs whose descriptors are in this file */
	uint32_t generation; /* of descriptors; changes when a counter is added */
	struct perfetto_sequence sequence;
	/* Writes the specifications of a GPU's counters, each with perfetto_counter_specify. */
	void (*specify)(void *user, uint32_t gpu, struct strbuf *s);
	void *user;
};

struct perfetto_counter {
	uint32_t number;
	const char *name, *description, *unit;
	bool is_default; /* for a metric: measured by default */
	const struct row_device *device; /* whose peak is the counter's; NULL: unknown */
};

/* Perfetto's GpuCounterGroup. */
enum perfetto_counter_group { PERFETTO_GROUP_SYSTEM = 1, PERFETTO_GROUP_COMPUTE = 6 };

/* Writes a counter's specification. Its unit may be one of CUPTI's, such as "byte/second". */
void perfetto_counter_specify(struct strbuf *s, const struct perfetto_counter *counter,
			      enum perfetto_counter_group group);

void perfetto_readings_restart(struct perfetto_readings *r, uint32_t sequence);
void perfetto_readings_release(struct perfetto_readings *r);
/* Adds a reading. Returns 0 or -ENOMEM. */
int perfetto_readings_add(struct perfetto_readings *r, struct strbuf *s,
			  const struct perfetto_reading *now, uint64_t time_ns) MUST_USE;
/* Also writes used memory and clock rate of a GPU to the tracks that readers reserve for them. */
void perfetto_gpu_reading(struct perfetto_readings *r, struct strbuf *s, const char *counter,
			  const struct perfetto_reading *now, uint64_t time_ns);
/* Writes the last values, which hold until time_ns, and clears all. Returns 0 or -ENOMEM. */
int perfetto_readings_finish(struct perfetto_readings *r, struct strbuf *s,
			     uint64_t time_ns) MUST_USE;

/* --- hardware metrics of kernels: 0 at the start of a kernel, its value at the end --- */

struct perfetto_metric {
	uint32_t number; /* from 1 */
	double value;
};

struct perfetto_metrics {
	struct map gpus; /* iid of each descriptor in this file -> time of its last sample */
	uint32_t generation; /* of descriptors; changes when a metric is added */
	/* Writes the specifications of a GPU's metrics. */
	void (*specify)(void *user, uint32_t gpu, struct strbuf *s);
	void *user;
};

/* Writes the metrics of a kernel to the sequence of readings. Returns 0 or -ENOMEM. */
int perfetto_metrics_add(struct perfetto_metrics *m, struct perfetto_sequence *sequence,
			 struct strbuf *s, uint32_t gpu, const uint64_t times_ns[2],
			 const struct perfetto_metric *metrics, size_t count) MUST_USE;

/* Writes a value to a counter's track. */
void perfetto_counter_event(struct strbuf *s, const struct perfetto_packet *head, uint64_t uuid,
			    const struct perfetto_value *value);

#endif
