/*
 * gpufl_sink.c: receives rows and stores the definitions of an epoch.
 *
 * The first line of every file is job_start, which names the GPUs. GPUs are known slightly later
 * than the process, so nothing is written until the first one is known or BEGIN_NS have passed. A
 * GPU that appears later causes another job_start.
 */
#include "gpufl/gpufl_sink.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "format/writer.h"
#include "gpufl/gpufl_sink_state.h"

#define BEGIN_NS NS_PER_S
#define BEGIN_BYTES ((size_t)1 << 20) /* limit of pending text */
#define CALLS_MAX 65536u

static struct gpufl_sink *gpufl_of(struct sink *s)
{
	return (struct gpufl_sink *)s;
}

/* ---- texts ---- */

struct bytes_value gpufl_text(const struct gpufl_sink *s, uint32_t id)
{
	return definitions_text(&s->definitions, id);
}

void gpufl_key_text(struct strbuf *out, const char *key, struct bytes_value text)
{
	strbuf_addf(out, ",\"%s\":", key);
	json_quote(out, text.data, text.length);
}

uint32_t gpufl_label(struct gpufl_sink *s, uint32_t path, struct bytes_value text)
{
	struct strbuf *label = &s->label;
	int64_t id;

	if (path == LABEL_GLOBAL || path == LABEL_UNKNOWN)
		path = 0;
	strbuf_clear(label);
	if (path) {
		gpufl_add_label(s, label, path);
		strbuf_addc(label, '|');
	}
	json_escape(label, text.data, text.length);
	if (path && label->length > LABEL_LENGTH_MAX)
		return path;
	id = s->labels.bytes < LABEL_BYTES_MAX
		     ? interner_add(&s->labels, strbuf_text(label), label->length, NULL)
		     : interner_find(&s->labels, strbuf_text(label), label->length);
	s->log.lost += label->failed;
	label->failed = false;
	return id < 0 ? path : (uint32_t)id;
}

void gpufl_add_label(const struct gpufl_sink *s, struct strbuf *out, uint32_t label)
{
	const struct interned *text = &s->labels.items[label];

	if (raw_reserve(out, text->length))
		raw_add(out, text->text, text->length);
}

/* ---- definitions ---- */

/*
 * Both clocks run at the same rate, so a difference within the readings' uncertainty is ignored. A
 * larger one means that CLOCK_REALTIME was set.
 */
static void add_clock(struct gpufl_sink *s, const struct row_clock *r)
{
	int64_t offset = (int64_t)(r->realtime_ns - r->monotonic_ns);
	uint64_t difference = offset > s->epoch_offset_ns
				      ? (uint64_t)offset - (uint64_t)s->epoch_offset_ns
				      : (uint64_t)s->epoch_offset_ns - (uint64_t)offset;

	if (difference <= (uint64_t)r->width_ns + s->offset_width_ns)
		return;
	s->epoch_offset_ns = offset;
	s->offset_width_ns = r->width_ns;
}

static void clear_definitions(struct gpufl_sink *s)
{
	definitions_clear(&s->definitions);
	map_clear(&s->shapes);
	map_clear(&s->details);
	map_clear(&s->sampled);
	arena_release(&s->arena);
}

/* ---- the operations ---- */

static void append(struct sink *sink, enum table_id table, const void *row)
{
	struct gpufl_sink *s = gpufl_of(sink);

	if (definitions_add(&s->definitions, table, row))
		return;
	switch (table) {
	case TABLE_clock:
		add_clock(s, row);
		break;
#define FORWARD(name)                                                                              \
	case TABLE_##name:                                                                         \
		gpufl_##name(s, row);                                                              \
		break;
		FORWARD(process)
		FORWARD(device)
		FORWARD(thread)
		FORWARD(capability)
		FORWARD(loss)
		FORWARD(kernel)
		FORWARD(memcpy)
		FORWARD(memset)
		FORWARD(synchronization)
		FORWARD(graph_launch)
		FORWARD(allocation)
		FORWARD(api_function)
		FORWARD(api_call)
		FORWARD(nvtx)
		FORWARD(nvtx_domain)
		FORWARD(counter)
		FORWARD(counter_sample)
		FORWARD(pc_reading)
		FORWARD(pc_sample)
		FORWARD(sass_value)
		FORWARD(metric_value)
		FORWARD(range_value)
#undef FORWARD
	case TABLE_external_correlation:
		gpufl_external(s, row);
		break;
	default:
		break;
	}
	if (unlikely(!s->log.begun) && gpufl_log_pending_bytes(&s->log) > BEGIN_BYTES)
		gpufl_begin(s);
}

static void flush_all(struct gpufl_sink *s, bool all)
{
	gpufl_kernels_flush(s, all);
	gpufl_metrics_flush(s);
	gpufl_ranges_flush(s, all);
	if (s->log.begun && s->start_is_due)
		gpufl_begin(s);
	gpufl_log_seal(&s->log);
	gpufl_log_flush(&s->log);
}

/*
 * Always 0: an error would start what the recorder does when its recording fails; this sink ends by
 * itself (failure) and logs it (on_error).
 */
static int seal(struct sink *sink)
{
	struct gpufl_sink *s = gpufl_of(sink);

	if (!s->log.begun && (s->device_count || clock_machine_ns() - s->created_ns >= BEGIN_NS))
		gpufl_begin(s);
	flush_all(s, false);
	gpufl_files_check(s->log.files);
	return 0;
}

static int failure(const struct sink *sink)
{
	return gpufl_files_error(((const struct gpufl_sink *)sink)->log.files);
}

static void begin_epoch(struct sink *sink)
{
	struct gpufl_sink *s = gpufl_of(sink);

	/* The next epoch repeats the texts of devices, but a job_start may be due before. */
	flush_all(s, true);
	clear_definitions(s);
}

static void free_sink(struct gpufl_sink *s)
{
	clear_definitions(s);
	definitions_release(&s->definitions);
	map_release(&s->shapes);
	map_release(&s->details);
	map_release(&s->functions);
	map_release(&s->sampled);
	map_release(&s->counters);
	map_release(&s->pm_counters);
	map_release(&s->stacks);
	for (size_t i = 0; i < 2; i++) {
		map_release(&s->calls.index[i]);
		vec_release(&s->calls.items[i]);
	}
	for (size_t i = 0; i < GPUFL_CAPABILITIES_MAX; i++)
		strbuf_release(&s->capabilities[i].json);
	vec_release(&s->pending);
	vec_release(&s->measured);
	interner_release(&s->labels);
	strbuf_release(&s->app);
	strbuf_release(&s->identity);
	strbuf_release(&s->detail_head);
	strbuf_release(&s->scratch);
	strbuf_release(&s->label);
	gpufl_log_release(&s->log);
	free(s->threads);
	free(s->open);
	free(s);
}

static int close_sink(struct sink *sink)
{
	struct gpufl_sink *s = gpufl_of(sink);
	int r;

	if (!s->log.begun)
		gpufl_begin(s);
	flush_all(s, true);
	gpufl_marks_write(s);
	s->log.lost += s->measured.count;
	gpufl_end(s);
	gpufl_log_flush(&s->log);
	r = gpufl_files_close(s->log.files);
	free_sink(s);
	return r;
}

static void abandon(struct sink *sink)
{
	struct gpufl_sink *s = gpufl_of(sink);

	if (gpufl_files_abandon(s->log.files))
		free_sink(s);
}

static void add_stats(struct sink *sink, struct writer_stats *stats)
{
	const struct gpufl_sink *s = gpufl_of(sink);

	stats->bytes += gpufl_files_bytes(s->log.files);
	stats->lost_rows += s->log.lost + s->definitions.lost;
}

static const struct sink_ops gpufl_ops = {
	.name = "gpufl",
	.epoch = begin_epoch,
	.append = append,
	.seal = seal,
	.failure = failure,
	.close = close_sink,
	.abandon = abandon,
	.stats = add_stats,
};

static bool init(struct gpufl_sink *s, const struct gpufl_options *o)
{
	static const char *const labels[] = {
		"", [LABEL_GLOBAL] = "global", [LABEL_UNKNOWN] = "unknown"
	};
	const char *path = o->shown_path ? o->shown_path : o->files.log_path;
	bool good;

	s->sink.ops = &gpufl_ops;
	s->options = *o;
	s->definitions.tables = UINT64_C(1) << TABLE_kernel_config | UINT64_C(1) << TABLE_metric;
	s->epoch_offset_ns = o->epoch_offset_ns;
	s->calls.max = o->calls_max ? o->calls_max : CALLS_MAX;
	s->created_ns = clock_machine_ns();
	interner_init(&s->labels);
	s->threads = calloc(GPUFL_THREADS, sizeof(*s->threads));
	s->open = calloc(GPUFL_OPEN_MAX, sizeof(*s->open));
	good = s->threads && s->open && strlen(path) < sizeof(s->log_path);
	for (size_t i = 0; i < ARRAY_SIZE(labels) && good; i++)
		good = interner_add(&s->labels, labels[i], strlen(labels[i]), NULL) >= 0;
	if (!good)
		return false;
	memcpy(s->log_path, path, strlen(path));
	snprintf(s->address, sizeof(s->address), "%s", o->address ? o->address : "");
	strbuf_addf(&s->identity, ",\"pid\":0,\"app\":\"\",\"session_id\":\"%s\"",
		    o->files.session);
	strbuf_addf(&s->detail_head,
		    "{\"version\":1,\"type\":\"kernel_detail\",\"session_id\":\"%s\",\"pid\":0,"
		    "\"app\":\"\",\"corr_id\":",
		    o->files.session);
	return !s->identity.failed && !s->detail_head.failed;
}

int gpufl_sink_new(const struct gpufl_options *o, struct sink **out, struct error *e)
{
	struct gpufl_sink *s = calloc(1, sizeof(*s));
	struct gpufl_files *files;
	int r;

	if (!s || !init(s, o) || gpufl_log_init(&s->log, NULL, o->files.session) < 0) {
		if (s)
			free_sink(s);
		return error_errno(e, ENOMEM, "cannot write to '%s'", o->files.log_path);
	}
	r = gpufl_files_open(&o->files, &files, e);
	if (r < 0) {
		free_sink(s);
		return r;
	}
	s->log.files = files;
	*out = &s->sink;
	return 0;
}
