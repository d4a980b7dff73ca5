#include "agent/metric_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define TOTAL "_total" /* with which names of counters end */
#define EXEMPLAR_MAX 128u /* characters of labels */

/* --- text --- */

static void begin_text(struct metric_writer *w, const struct metric *metric)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };

	int length = (int)strlen(metric->name);

	w->metric = metric;
	/* OpenMetrics names a counter without its suffix. */
	length -= w->is_open_metrics && metric->type == METRIC_COUNTER ? (int)strlen(TOTAL) : 0;
	strbuf_addf(w->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, metric->name, metric->help,
		    length, metric->name, types[metric->type]);
}

/* Appends a label: the value is any bytes, as UTF-8. */
static void add_label(struct strbuf *out, const char *name, const char *value)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_add_utf8(&text, value, strlen(value));
	strbuf_addf(out, "%s=\"", name);
	for (const char *c = strbuf_text(&text); *c; c++) {
		if (*c == '\n')
			strbuf_adds(out, "\\n");
		else if (*c == '"' || *c == '\\')
			strbuf_addf(out, "\\%c", *c);
		else
			strbuf_addc(out, *c);
	}
	strbuf_adds(out, "\"");
	out->failed |= text.failed;
}

static void add_labels(struct strbuf *out, const struct metric_labels *labels, const char *le)
{
	const char *before = "{";

	for (unsigned i = 0; i < labels->count; i++, before = ",") {
		strbuf_adds(out, before);
		add_label(out, labels->items[i].name, labels->items[i].value);
	}
	if (le) {
		strbuf_adds(out, before);
		add_label(out, "le", le);
		before = ",";
	}
	if (*before == ',')
		strbuf_addc(out, '}');
}

static void add_number(struct strbuf *out, bool is_time, uint64_t value)
{
	if (is_time)
		strbuf_addf(out, " %" PRIu64 ".%09" PRIu64 "\n", value / NS_PER_S,
			    value % NS_PER_S);
	else
		strbuf_addf(out, " %" PRIu64 "\n", value);
}

static void value_text(struct metric_writer *w, const struct metric_labels *labels, uint64_t value)
{
	strbuf_adds(w->out, w->metric->name);
	add_labels(w->out, labels, NULL);
	add_number(w->out, w->metric->is_time, value);
}

/* A name that is too long is left out. */
static void counted_text(struct metric_writer *w, const struct metric_labels *labels,
			 uint64_t value, const struct metric_exemplar *exemplar)
{
	static const char label[] = "window";

	value_text(w, labels, value);
	if (!w->is_open_metrics || !exemplar->window || w->out->failed ||
	    strlen(label) + strlen(exemplar->window) > EXEMPLAR_MAX)
		return;
	w->out->length--; /* the end of the line */
	strbuf_adds(w->out, " # {");
	add_label(w->out, label, exemplar->window);
	strbuf_addf(w->out, "} 1 %" PRIu64 ".%03" PRIu64 "\n", exemplar->time_ns / NS_PER_S,
		    exemplar->time_ns % NS_PER_S / NS_PER_MS);
}

static void histogram_text(struct metric_writer *w, const struct metric_labels *labels,
			   const struct metric_histogram *h)
{
	char limit[JSON_DOUBLE_BYTES];
	uint64_t count = 0;

	for (unsigned i = 0; i <= h->limits; i++) {
		count += h->counts[i];
		if (i < h->limits)
			json_double_text(limit, (double)h->limits_ns[i] / 1e9);
		strbuf_addf(w->out, "%s_bucket", w->metric->name);
		add_labels(w->out, labels, i < h->limits ? limit : "+Inf");
		add_number(w->out, false, count);
	}
	strbuf_addf(w->out, "%s_sum", w->metric->name);
	add_labels(w->out, labels, NULL);
	add_number(w->out, true, h->sum_ns);
	strbuf_addf(w->out, "%s_count", w->metric->name);
	add_labels(w->out, labels, NULL);
	add_number(w->out, false, count);
}

static void end_text(struct metric_writer *w)
{
	(void)w;
}

void metric_writer_finish_text(struct metric_writer *w)
{
	if (w->is_open_metrics)
		strbuf_adds(w->out, "# EOF\n");
}

void metric_writer_init_text(struct metric_writer *w, bool is_open_metrics, struct strbuf *out)
{
	*w = (struct metric_writer){ .is_open_metrics = is_open_metrics,
				     .begin = begin_text,
				     .value = value_text,
				     .counted = counted_text,
				     .histogram = histogram_text,
				     .end = end_text,
				     .out = out };
}

/* --- OTLP: 64-bit integers are texts, as in all JSON of protobuf --- */

static void add_u64(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	json_key_string(j, key, text);
}

static void add_attribute(struct json *j, const char *name, const char *value)
{
	json_object(j);
	json_key_string(j, "key", name);
	json_key_object(j, "value");
	json_key_string(j, "stringValue", value);
	json_end(j);
	json_end(j);
}

static void begin_otlp(struct metric_writer *w, const struct metric *metric)
{
	size_t length = strlen(metric->name);
	struct json *j = &w->json;

	w->metric = metric;
	json_object(j);
	if (metric->type == METRIC_COUNTER && length > strlen(TOTAL))
		length -= strlen(TOTAL);
	json_key(j, "name");
	json_bytes(j, metric->name, length);
	json_key_string(j, "description", metric->help);
	json_key_string(j, "unit", metric->unit);
	json_key_object(j, metric->type == METRIC_COUNTER ? "sum"
			   : metric->type == METRIC_GAUGE ? "gauge"
							  : "histogram");
	if (metric->type != METRIC_GAUGE)
		json_key_u64(j, "aggregationTemporality", 2); /* since the start */
	if (metric->type == METRIC_COUNTER)
		json_key_bool(j, "isMonotonic", true);
	json_key_array(j, "dataPoints");
}

static void begin_point(struct metric_writer *w, const struct metric_labels *labels)
{
	struct json *j = &w->json;

	json_object(j);
	json_key_array(j, "attributes");
	for (unsigned i = 0; i < labels->count; i++)
		add_attribute(j, labels->items[i].name, labels->items[i].value);
	json_end(j);
	if (w->metric->type != METRIC_GAUGE)
		add_u64(j, "startTimeUnixNano", w->start_ns);
	add_u64(j, "timeUnixNano", w->now_ns);
}

static void add_exemplar(struct metric_writer *w, const struct metric_exemplar *exemplar)
{
	json_key_array(&w->json, "exemplars");
	json_object(&w->json);
	add_u64(&w->json, "timeUnixNano", exemplar->time_ns);
	add_u64(&w->json, "asInt", 1);
	json_key_array(&w->json, "filteredAttributes");
	add_attribute(&w->json, "window", exemplar->window);
	json_end(&w->json);
	json_end(&w->json);
	json_end(&w->json);
}

static void counted_otlp(struct metric_writer *w, const struct metric_labels *labels,
			 uint64_t value, const struct metric_exemplar *exemplar)
{
	begin_point(w, labels);
	if (w->metric->is_time) {
		json_key(&w->json, "asDouble");
		json_fixed(&w->json, (int64_t)value, 9);
	} else {
		add_u64(&w->json, "asInt", value);
	}
	if (exemplar->window)
		add_exemplar(w, exemplar);
	json_end(&w->json);
}

static void value_otlp(struct metric_writer *w, const struct metric_labels *labels, uint64_t value)
{
	counted_otlp(w, labels, value, &(struct metric_exemplar){ .window = NULL });
}

static void histogram_otlp(struct metric_writer *w, const struct metric_labels *labels,
			   const struct metric_histogram *h)
{
	struct json *j = &w->json;
	uint64_t count = 0;

	begin_point(w, labels);
	json_key_array(j, "bucketCounts");
	for (unsigned i = 0; i <= h->limits; i++) {
		char text[24];

		snprintf(text, sizeof(text), "%" PRIu64, h->counts[i]);
		json_string(j, text);
		count += h->counts[i];
	}
	json_end(j);
	json_key_array(j, "explicitBounds");
	for (unsigned i = 0; i < h->limits; i++)
		json_fixed(j, (int64_t)h->limits_ns[i], 9);
	json_end(j);
	add_u64(j, "count", count);
	json_key(j, "sum");
	json_fixed(j, (int64_t)h->sum_ns, 9);
	json_end(j);
}

/* Closes the points, what is of the type, and the metric. */
static void end_otlp(struct metric_writer *w)
{
	json_end(&w->json);
	json_end(&w->json);
	json_end(&w->json);
}

void metric_writer_init_otlp(struct metric_writer *w, const char *service, const char *host,
			     uint64_t start_ns, uint64_t now_ns, struct strbuf *out)
{
	struct json *j = &w->json;

	*w = (struct metric_writer){ .begin = begin_otlp,
				     .value = value_otlp,
				     .counted = counted_otlp,
				     .histogram = histogram_otlp,
				     .end = end_otlp,
				     .out = out,
				     .json = JSON_INIT(out),
				     .start_ns = start_ns,
				     .now_ns = now_ns };
	json_object(j);
	json_key_array(j, "resourceMetrics");
	json_object(j);
	json_key_object(j, "resource");
	json_key_array(j, "attributes");
	add_attribute(j, "service.name", service);
	add_attribute(j, "host.name", host);
	json_end(j);
	json_end(j);
	json_key_array(j, "scopeMetrics");
	json_object(j);
	json_key_object(j, "scope");
	json_key_string(j, "name", "pitot");
	json_key_string(j, "version", PITOT_VERSION);
	json_end(j);
	json_key_array(j, "metrics");
}

void metric_writer_finish_otlp(struct metric_writer *w)
{
	json_finish(&w->json);
}
