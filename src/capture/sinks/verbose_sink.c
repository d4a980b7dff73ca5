#include "capture/sinks/verbose_sink.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "capture/core/log.h"
#include "format/definitions.h"
#include "format/writer.h"
#include "names/demangle.h"

#define PIECE_BYTES 4096u /* a pipe that can be written to has room for so much: PIPE_BUF */
#define WAITING_BYTES ((size_t)4 << 20) /* lines that wait for the reader of a pipe */
#define LAST_WAIT_MS 100 /* at the end, for each piece */

struct verbose_sink {
	struct sink sink;
	struct definitions definitions;
	struct strbuf lines, name;
	uint64_t lost; /* rows */
};

static struct verbose_sink *verbose_of(struct sink *s)
{
	return (struct verbose_sink *)s;
}

static bool can_write(int wait_ms)
{
	struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&output, 1, wait_ms) == 1 && output.revents == POLLOUT;
}

/* Writes what can be written; the rest waits for the next time. */
static void flush(struct verbose_sink *s, int wait_ms)
{
	size_t at = 0;
	ssize_t n = 0;

	while (at < s->lines.length && n >= 0 && can_write(wait_ms)) {
		n = write(STDOUT_FILENO, s->lines.data + at,
			  MIN(s->lines.length - at, PIECE_BYTES));
		at += n > 0 ? (size_t)n : 0;
	}
	if (at)
		memmove(s->lines.data, s->lines.data + at, s->lines.length - at);
	s->lines.length -= at;
}

/* Returns false if too much waits already. */
static bool begin_line(struct verbose_sink *s, const char *event)
{
	if (s->lines.length > PIECE_BYTES / 2)
		flush(s, 0);
	if (s->lines.length > WAITING_BYTES) {
		s->lost++;
		return false;
	}
	strbuf_addf(&s->lines, "{\"event\":\"%s\"", event);
	return true;
}

static void add_number(struct verbose_sink *s, const char *key, uint64_t value)
{
	strbuf_addf(&s->lines, ",\"%s\":%llu", key, (unsigned long long)value);
}

static void add_name(struct verbose_sink *s, struct bytes_value name)
{
	strbuf_adds(&s->lines, ",\"name\":");
	json_quote(&s->lines, name.data, name.length);
}

/* Adds the members that all GPU work has; a missing time is left out. */
#define ADD_WORK(s, table, row)                                                                    \
	do {                                                                                       \
		add_number(s, "device", (row)->device);                                            \
		add_number(s, "stream", (row)->stream);                                            \
		add_number(s, "correlation", (row)->correlation);                                  \
		if (!((row)->missing >> COLUMN_##table##_start_ns & 1))                            \
			add_number(s, "start_ns", (row)->start_ns);                                \
		if (!((row)->missing >> COLUMN_##table##_end_ns & 1))                              \
			add_number(s, "duration_ns", (row)->end_ns - (row)->start_ns);             \
	} while (0)

static void end_line(struct verbose_sink *s)
{
	strbuf_adds(&s->lines, "}\n");
}

static void add_kernel(struct verbose_sink *s, const struct row_kernel *k)
{
	static const struct row_kernel_config unknown;
	const struct row_kernel_config *c =
		definitions_row(&s->definitions, TABLE_kernel_config, k->config);
	struct bytes_value name;

	c = c ? c : &unknown;
	name = definitions_text(&s->definitions, c->name);
	strbuf_clear(&s->name);
	demangle(name.length ? name.data : "?", &s->name);
	if (!begin_line(s, "kernel"))
		return;
	add_name(s, (struct bytes_value){ strbuf_text(&s->name), (uint32_t)s->name.length });
	ADD_WORK(s, kernel, k);
	strbuf_addf(&s->lines, ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]", c->grid_x, c->grid_y,
		    c->grid_z, c->block_x, c->block_y, c->block_z);
	end_line(s);
}

static void add_metric(struct verbose_sink *s, const struct row_metric_value *v)
{
	const struct row_metric *m = definitions_row(&s->definitions, TABLE_metric, v->metric);
	double value;

	if (!m || v->missing >> COLUMN_metric_value_value & 1 || !begin_line(s, "metric"))
		return;
	memcpy(&value, &v->value, sizeof(value));
	add_name(s, definitions_text(&s->definitions, m->name));
	add_number(s, "correlation", v->correlation);
	strbuf_addf(&s->lines, ",\"value\":%.17g", value);
	end_line(s);
}

static void append(struct sink *sink, enum table_id table, const void *row)
{
	struct verbose_sink *s = verbose_of(sink);
	const struct row_memcpy *copy = row;
	const struct row_memset *set = row;

	if (definitions_add(&s->definitions, table, row))
		return;
	if (table == TABLE_kernel) {
		add_kernel(s, row);
	} else if (table == TABLE_metric_value) {
		add_metric(s, row);
	} else if (table == TABLE_memcpy && begin_line(s, "memcpy")) {
		ADD_WORK(s, memcpy, copy);
		add_number(s, "bytes", copy->bytes);
		end_line(s);
	} else if (table == TABLE_memset && begin_line(s, "memset")) {
		ADD_WORK(s, memset, set);
		add_number(s, "bytes", set->bytes);
		end_line(s);
	}
}

static void begin_epoch(struct sink *sink)
{
	definitions_clear(&verbose_of(sink)->definitions);
}

static int seal(struct sink *sink)
{
	flush(verbose_of(sink), 0);
	return 0;
}

static void abandon(struct sink *sink)
{
	struct verbose_sink *s = verbose_of(sink);

	definitions_release(&s->definitions);
	strbuf_release(&s->lines);
	strbuf_release(&s->name);
	free(s);
}

static int close_sink(struct sink *sink)
{
	flush(verbose_of(sink), LAST_WAIT_MS);
	abandon(sink);
	return 0;
}

static void add_stats(struct sink *sink, struct writer_stats *stats)
{
	const struct verbose_sink *s = verbose_of(sink);

	stats->lost_rows += s->lost + s->definitions.lost;
}

static const struct sink_ops verbose_ops = {
	.name = "verbose",
	.epoch = begin_epoch,
	.append = append,
	.seal = seal,
	.close = close_sink,
	.abandon = abandon,
	.stats = add_stats,
};

static struct sink *verbose_sink_new(void)
{
	struct verbose_sink *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->sink.ops = &verbose_ops;
	s->definitions.tables = UINT64_C(1) << TABLE_kernel_config | UINT64_C(1) << TABLE_metric;
	return &s->sink;
}

void injection_metrics_read(setting_TEXT out, const char *list)
{
	size_t length = 0;

	for (; *list && length < OPTION_TEXT_MAX - 1; list++)
		if (*list != ' ')
			out[length++] = *list == ';' ? ',' : *list;
	out[length] = '\0';
}

struct session *verbose_start(enum session_trigger trigger)
{
	const char *list = secure_getenv("INJECTION_METRICS");
	struct settings s = SETTINGS_INIT;
	struct sink *sink = verbose_sink_new();
	struct session *session;

	(void)!settings_read(&s, NULL, false, NULL);
	settings_clear_sinks(&s);
	s.start_ns = s.delay_ns = s.duration_ns = 0; /* they are a recording's */
	if (list) {
		s.engine = SETTING_ENGINE_RANGE_PROFILER;
		s.kernel_skip = s.kernel_count = 0; /* all kernels */
	}
	if (list && *list)
		injection_metrics_read(s.metrics, list);
	session = sink ? session_open(&s, sink, trigger) : NULL;
	if (!session)
		log_line("INJECTION_VERBOSE: cannot start");
	return session;
}
