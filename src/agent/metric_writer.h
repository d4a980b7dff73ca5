/* metric_writer.h: metrics with their values, written in one of several formats. */
#ifndef PITOT_AGENT_METRIC_WRITER_H
#define PITOT_AGENT_METRIC_WRITER_H

#include <stdbool.h>

#include "base/json.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
	const char *name; /* as Prometheus has it; counters end with _total */
	enum metric_type type;
	const char *unit; /* of OpenTelemetry: "s", "By" or "1" */
	const char *help;
	bool is_time; /* values are nanoseconds, written as seconds */
};

#define METRIC_LABELS_MAX 6u
struct metric_labels {
	struct {
		const char *name, *value; /* values: any bytes */
	} items[METRIC_LABELS_MAX];
	unsigned count;
};

/* Counts of values by upper limits (inclusive), one more than there are limits; not cumulative. */
struct metric_histogram {
	const uint64_t *limits_ns, *counts;
	unsigned limits;
	uint64_t sum_ns;
};

/* Where more is known about one of the values of a counter. */
struct metric_exemplar {
	const char *window; /* name of a window in the lake */
	uint64_t time_ns; /* CLOCK_REALTIME */
};

struct metric_writer {
	/* A metric begins; its values follow, with different labels. */
	void (*begin)(struct metric_writer *w, const struct metric *metric);
	void (*value)(struct metric_writer *w, const struct metric_labels *labels, uint64_t value);
	/* A counter's value with an exemplar, which not all formats have. */
	void (*counted)(struct metric_writer *w, const struct metric_labels *labels, uint64_t value,
			const struct metric_exemplar *exemplar);
	void (*histogram)(struct metric_writer *w, const struct metric_labels *labels,
			  const struct metric_histogram *histogram);
	void (*end)(struct metric_writer *w); /* of the metric */

	const struct metric *metric;
	struct strbuf *out;
	bool is_open_metrics;
	/* of OTLP */
	struct json json;
	uint64_t start_ns, now_ns; /* CLOCK_REALTIME */
};

/* The text format of Prometheus, version 0.0.4, or OpenMetrics 1.0, which has exemplars. */
void metric_writer_init_text(struct metric_writer *w, bool is_open_metrics, struct strbuf *out);
void metric_writer_finish_text(struct metric_writer *w);
/*
 * OTLP as JSON, of counters that began at start_ns. `service` and `host` say whose metrics they
 * are. To be finished.
 */
void metric_writer_init_otlp(struct metric_writer *w, const char *service, const char *host,
			     uint64_t start_ns, uint64_t now_ns, struct strbuf *out);
void metric_writer_finish_otlp(struct metric_writer *w);

#endif
