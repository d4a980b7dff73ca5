/* gpufl_session.c: the beginning and the end of a session's logs, and losses. */
#include <stdio.h>

#include "base/path.h"
#include "gpufl/gpufl_sink_state.h"
#include "schema/event_words.h"
#include "schema/gpu_vendor.h"
#include "schema/settings.h"

#define ROUND_NS UINT64_C(256) /* as in gpufl_log.h */

/* ---- the process ---- */

/* Makes the members that identify the process and the session in its lines. */
static void identify(struct gpufl_sink *s)
{
	struct strbuf *id = &s->identity;

	strbuf_clear(id);
	strbuf_addf(id, ",\"pid\":%u,\"app\":", s->process.pid);
	json_quote(id, strbuf_text(&s->app), s->app.length);
	strbuf_addf(id, ",\"session_id\":\"%s\"", s->log.session);
	strbuf_clear(&s->detail_head);
	strbuf_addf(&s->detail_head,
		    "{\"version\":1,\"type\":\"kernel_detail\",\"session_id\":\"%s\",\"pid\":%u,"
		    "\"app\":",
		    s->log.session, s->process.pid);
	json_quote(&s->detail_head, strbuf_text(&s->app), s->app.length);
	strbuf_adds(&s->detail_head, ",\"corr_id\":");
}

static void name_app(struct gpufl_sink *s, struct bytes_value name)
{
	if (s->app.length == name.length && !memcmp(strbuf_text(&s->app), name.data, name.length))
		return; /* the row was repeated */
	strbuf_clear(&s->app);
	strbuf_add(&s->app, name.data, name.length);
	identify(s);
	s->start_is_due = true;
}

void gpufl_process(struct gpufl_sink *s, const struct row_process *p)
{
	struct bytes_value path = gpufl_text(s, p->executable), host = gpufl_text(s, p->host);

	s->process = *p;
	if (s->has_process) /* the logs keep the first process row */
		return;
	s->has_process = true;
	if (!s->app.length)
		strbuf_adds(&s->app, base_name(path.data));
	identify(s);
	strbuf_clear(&s->log.host);
	gpufl_key_text(&s->log.host, "hostname", host);
	gpufl_key_text(&s->log.host, "ip_addr",
		       (struct bytes_value){ s->address, (uint32_t)strlen(s->address) });
}

/* ---- devices ---- */

void gpufl_device(struct gpufl_sink *s, const struct row_device *d)
{
	if (d->id >= GPUFL_DEVICES_MAX)
		return;
	s->start_is_due |= !s->has_device[d->id];
	s->device_count += !s->has_device[d->id];
	s->has_device[d->id] = true;
	s->devices[d->id] = *d;
}

static const char *architecture(const struct row_device *d)
{
	static const char *const names[] = {
		[5] = "Maxwell", [6] = "Pascal",     [7] = "Volta",     [8] = "Ampere",
		[9] = "Hopper",  [10] = "Blackwell", [12] = "Blackwell"
	};

	if (d->compute_major == 7 && d->compute_minor == 5)
		return "Turing";
	if (d->compute_major == 8 && d->compute_minor == 9)
		return "Ada Lovelace";
	return d->compute_major < ARRAY_SIZE(names) && names[d->compute_major]
		       ? names[d->compute_major]
		       : "";
}

static void add_names(const struct gpufl_sink *s, const struct row_device *d, struct strbuf *out)
{
	const char *vendor = gpu_vendor_title(d->vendor);

	strbuf_addf(out, "{\"id\":%u", d->id);
	gpufl_key_text(out, "name", gpufl_text(s, d->name));
	gpufl_key_text(out, "uuid", gpufl_text(s, d->uuid));
	if (vendor)
		strbuf_addf(out, ",\"vendor\":\"%s\"", vendor);
}

static void add_device(const struct gpufl_sink *s, const struct row_device *d, struct strbuf *out)
{
	const uint64_t *v = s->readings[d->id].values;
	uint64_t total = d->memory_bytes >> 20;
	unsigned bus = 0;

	/* The bus of domain:bus:device.function. */
	if (sscanf(gpufl_text(s, d->pci).data, "%*x:%x", &bus) != 1)
		bus = 0;
	add_names(s, d, out);
	strbuf_addf(out,
		    ",\"pci_bus\":%u,\"used_mib\":%llu,\"free_mib\":%llu,\"total_mib\":%llu"
		    ",\"util_gpu_pct\":%llu,\"util_mem_pct\":%llu,\"temp_c\":%llu,\"power_mw\":%llu"
		    ",\"clk_gfx_mhz\":0,\"clk_sm_mhz\":%llu,\"clk_mem_mhz\":%llu,\"throttle_pwr\":0"
		    ",\"throttle_therm\":0,\"pcie_rx_bw_bps\":0,\"pcie_tx_bw_bps\":0}",
		    bus, (unsigned long long)v[METRIC_used_mib],
		    (unsigned long long)(total - MIN(total, v[METRIC_used_mib])),
		    (unsigned long long)total, (unsigned long long)v[METRIC_gpu_util],
		    (unsigned long long)v[METRIC_mem_util], (unsigned long long)v[METRIC_temp_c],
		    (unsigned long long)v[METRIC_power_mw], (unsigned long long)v[METRIC_clock_sm],
		    (unsigned long long)v[METRIC_clock_mem]);
}

/* Has both the keys that the reference writes and the keys that its readers expect. */
static void add_static_device(const struct gpufl_sink *s, const struct row_device *d,
			      struct strbuf *out)
{
	uint64_t l2 = d->missing >> COLUMN_device_l2_bytes & 1 ? 0 : d->l2_bytes;

	add_names(s, d, out);
	strbuf_addf(out, ",\"architecture\":\"%s\"", architecture(d));
	strbuf_addf(out, ",\"compute_major\":%u,\"compute_minor\":%u", d->compute_major,
		    d->compute_minor);
	strbuf_addf(out, ",\"l2_cache_size_bytes\":%llu,\"shared_mem_per_block_bytes\":%u",
		    (unsigned long long)l2, d->shared_per_block_bytes);
	strbuf_addf(out, ",\"regs_per_block\":%u,\"multi_processor_count\":%u,\"warp_size\":%u",
		    d->registers_per_block, d->multiprocessors, d->warp_size);
	strbuf_addf(out,
		    ",\"compute_capability_major\":%u,\"compute_capability_minor\":%u"
		    ",\"l2_cache_size\":%llu,\"shared_mem_per_block\":%u}",
		    d->compute_major, d->compute_minor, (unsigned long long)l2,
		    d->shared_per_block_bytes);
}

static void add_devices(const struct gpufl_sink *s, const char *key,
			void (*add)(const struct gpufl_sink *s, const struct row_device *d,
				    struct strbuf *out),
			struct strbuf *out)
{
	const char *separator = "";

	strbuf_addf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < GPUFL_DEVICES_MAX; i++) {
		if (!s->has_device[i])
			continue;
		strbuf_adds(out, separator);
		add(s, &s->devices[i], out);
		separator = ",";
	}
	strbuf_addc(out, ']');
}

/* ---- engines ---- */

/* The format's; an engine that it has no name for is a trace. */
static const char *const engine_names[SETTING_ENGINES] = {
	[SETTING_ENGINE_MONITOR] = "nvidia.none",
	[SETTING_ENGINE_TRACE] = "nvidia.trace",
	[SETTING_ENGINE_PC_SAMPLING] = "nvidia.pc_sampling",
	[SETTING_ENGINE_RANGE_PROFILER] = "nvidia.range_profiler_kernel_replay", /* of kernels */
	[SETTING_ENGINE_PM_SAMPLING] = "nvidia.pm_sampling",
	[SETTING_ENGINE_SASS_METRICS] = "nvidia.sass_metrics",
	[SETTING_ENGINE_DEEP] = "nvidia.pc_sampling_with_sass",
};

static const char *engine_name(const struct gpufl_sink *s, int engine)
{
	if (engine == SETTING_ENGINE_RANGE_PROFILER && s->measures_ranges)
		return "nvidia.range_profiler";
	return engine < 0 ? NULL : engine_names[engine];
}

/* Returns "" if the engine is unknown and there is no GPU. */
static const char *engine_or_trace(const struct gpufl_sink *s, const char *name)
{
	return name ? name : s->device_count ? engine_names[SETTING_ENGINE_TRACE] : "";
}

/* Capability `engine` has the requested and the actual engine. */
static void add_engine(struct gpufl_sink *s, const struct row_capability *c)
{
	const char *requested = gpufl_text(s, c->requested).data,
		   *actual = gpufl_text(s, c->actual).data;
	int engine = setting_engine_find(requested);

	if (!s->requested_engine && c->name == feature_settings) {
		engine = settings_sources_choice(actual, SETTING_ID_engine);
		s->measures_ranges = settings_sources_choice(actual, SETTING_ID_measure) >
				     SETTING_MEASURE_KERNEL;
		s->requested_engine = s->selected_engine = engine_name(s, engine);
	} else if (c->name == feature_engine && engine >= 0) {
		s->requested_engine = engine_name(s, engine);
		s->selected_engine = engine_name(s, setting_engine_find(actual));
	}
}

/* ---- the beginning ---- */

static void add_host(const struct gpufl_sink *s, struct strbuf *out)
{
	const uint64_t *host = s->host.values;

	strbuf_addf(
		out,
		",\"host\":{\"cpu_pct\":%llu.%llu,\"ram_used_mib\":%llu,\"ram_total_mib\":%llu}",
		(unsigned long long)s->cpu_x100 / 100, (unsigned long long)s->cpu_x100 / 10 % 10,
		(unsigned long long)host[METRIC_ram_used],
		(unsigned long long)(host[METRIC_ram_used] + host[METRIC_ram_available]));
}

static void add_job_start(struct gpufl_sink *s, struct strbuf *out)
{
	uint64_t start = gpufl_time(s, s->has_process ? s->process.start_ns : s->first_ns);

	strbuf_adds(out, "{\"version\":1,\"type\":\"job_start\"");
	strbuf_add(out, s->identity.data, s->identity.length);
	gpufl_key_text(out, "log_path",
		       (struct bytes_value){ s->log_path, (uint32_t)strlen(s->log_path) });
	strbuf_addf(out, ",\"ts_ns\":%llu", (unsigned long long)(start - start % ROUND_NS));
	strbuf_add(out, strbuf_text(&s->log.host), s->log.host.length);
	add_host(s, out);
	add_devices(s, "devices", add_device, out);
	add_devices(s, "gpu_static_devices", add_static_device, out);
	add_devices(s, "cuda_static_devices", add_static_device, out);
	strbuf_addf(out, ",\"rocm_static_devices\":[],\"session_kind\":\"%s\"",
		    s->requested_engine == engine_names[SETTING_ENGINE_MONITOR] ? "monitor"
										: "trace");
	if (*engine_or_trace(s, s->requested_engine))
		strbuf_addf(out, ",\"profiling_engine\":\"%s\"",
			    engine_or_trace(s, s->requested_engine));
	strbuf_adds(out, "}\n");
}

void gpufl_begin(struct gpufl_sink *s)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	add_job_start(s, &line);
	s->start_is_due = false;
	if (line.failed)
		return;
	if (s->log.begun) {
		gpufl_line_everywhere(&s->log, line.data, line.length);
		return;
	}
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++)
		gpufl_files_write(s->log.files, (enum gpufl_channel)c, line.data, line.length);
	s->log.begun = true;
	s->log.records += GPUFL_CHANNELS;
}

/* ---- windows of system metrics ---- */

const char *gpufl_mark_type(const char *text, const char **name)
{
	static const struct {
		const char *mark, *type;
	} marks[] = { { SYSTEM_MARK_START, "system_start" }, { SYSTEM_MARK_STOP, "system_stop" } };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		size_t length = strlen(marks[i].mark);

		if (strncmp(text, marks[i].mark, length) != 0)
			continue;
		*name = text + length;
		return marks[i].type;
	}
	return NULL;
}

/*
 * PyTorch's autograd threads, whose work belongs to ranges of others, are known by their names.
 * Threads come before the application has named itself: these lines have no name of it.
 */
void gpufl_thread(struct gpufl_sink *s, const struct row_thread *t)
{
	struct strbuf *out = gpufl_line(&s->log, GPUFL_SCOPE, "pitot_thread");

	strbuf_addf(out, ",\"pid\":%u,\"session_id\":\"%s\"", s->process.pid, s->log.session);
	TEXT_U64(out, "thread_id", t->tid);
	TEXT_U64(out, "ts_ns", gpufl_time(s, t->time_ns));
	gpufl_key_text(out, "name", gpufl_text(s, t->name));
	strbuf_adds(out, "}\n");
}

void gpufl_system_mark(struct gpufl_sink *s, const struct row_nvtx *n)
{
	struct bytes_value text = gpufl_text(s, n->message);
	const char *name, *type = gpufl_mark_type(text.data, &name);

	if (!type)
		return;
	if (s->mark_count == GPUFL_MARKS_MAX)
		gpufl_marks_write(s);
	s->marks[s->mark_count++] = (struct gpufl_mark){
		.type = type,
		.name = gpufl_label(s, 0, (struct bytes_value){ name, (uint32_t)strlen(name) }),
		.time_ns = n->time_ns,
	};
	if (s->has_cpu)
		gpufl_marks_write(s);
}

static void write_mark(struct gpufl_sink *s, const struct gpufl_mark *mark)
{
	struct strbuf *out = gpufl_line(&s->log, GPUFL_SYSTEM, mark->type);

	strbuf_add(out, s->identity.data, s->identity.length);
	strbuf_adds(out, ",\"name\":\"");
	gpufl_add_label(s, out, mark->name);
	strbuf_addf(out, "\",\"ts_ns\":%llu", (unsigned long long)gpufl_time(s, mark->time_ns));
	add_host(s, out);
	add_devices(s, "devices", add_device, out);
	strbuf_adds(out, "}\n");
	raw_reserve(out, 0);
}

void gpufl_marks_write(struct gpufl_sink *s)
{
	for (unsigned i = 0; i < s->mark_count; i++)
		write_mark(s, &s->marks[i]);
	s->mark_count = 0;
}

/* ---- capabilities ---- */

void gpufl_capability(struct gpufl_sink *s, const struct row_capability *c)
{
	/* By Pitot's names; other capabilities keep their names. */
	static const struct {
		enum feature name;
		const char *text, *mode;
	} features[] = {
		{ feature_kernel, "kernel_events", "cupti_activity" },
		{ feature_memcpy, "memcpy_activity", "cupti_memcpy_activity" },
		{ feature_synchronization, "sync_activity", "cupti_synchronization" },
		{ feature_graph_launch, "graph_activity", "cupti_graph_trace" },
		{ feature_allocation, "memory_activity", "cupti_memory" },
		{ feature_external_correlation, "external_correlation",
		  "cupti_external_correlation" },
	};
	static const char *const statuses[] = { [capability_state_on] = "collected",
						[capability_state_off] = "not_requested",
						[capability_state_degraded] = "partial",
						[capability_state_unavailable] = "skipped" };
	const char *own = c->name == feature_other ? NULL : feature_name((enum feature)c->name);
	struct bytes_value name = gpufl_text(s, c->other), none = { "", 0 };
	const char *mode = "";
	uint64_t hash;
	unsigned i = 0, off = c->state == capability_state_off;
	struct strbuf *out;

	if (c->name == feature_app_name) {
		name_app(s, gpufl_text(s, c->actual));
		return;
	}
	add_engine(s, c);
	if (own)
		name = (struct bytes_value){ own, (uint32_t)strlen(own) };
	hash = hash_bytes(name.data, name.length);
	while (i < s->capability_count && s->capabilities[i].name != hash)
		i++;
	if (i == GPUFL_CAPABILITIES_MAX || c->state >= ARRAY_SIZE(statuses))
		return;
	s->capability_count = MAX(s->capability_count, i + 1);
	s->capabilities[i].name = hash;
	for (size_t k = 0; k < ARRAY_SIZE(features); k++)
		if (c->name == features[k].name) {
			name.data = features[k].text;
			name.length = (uint32_t)strlen(features[k].text);
			mode = features[k].mode;
		}
	out = &s->capabilities[i].json;
	strbuf_clear(out);
	gpufl_key_text(out, "feature", name);
	strbuf_addf(out,
		    ",\"requested\":%s,\"status\":\"%s\",\"mode\":\"%s\",\"reason_code\":\"%s\"",
		    off ? "false" : "true", statuses[c->state], off ? "disabled" : mode,
		    off ? "not_requested" : "");
	if (c->name == feature_settings)
		none = gpufl_text(s, c->actual);
	gpufl_key_text(out, "message",
		       c->missing >> COLUMN_capability_reason & 1 ? none
								  : gpufl_text(s, c->reason));
}

static void add_capabilities(const struct gpufl_sink *s, uint64_t end, struct strbuf *out)
{
	strbuf_addf(out,
		    "{\"version\":1,\"type\":\"capture_capabilities\",\"session_id\":\"%s\""
		    ",\"ts_ns\":%llu,\"requested_engine\":\"%s\",\"selected_engine\":\"%s\""
		    ",\"capabilities\":[",
		    s->log.session, (unsigned long long)end,
		    engine_or_trace(s, s->requested_engine),
		    engine_or_trace(s, s->selected_engine));
	for (unsigned i = 0; i < s->capability_count; i++) {
		const struct strbuf *json = &s->capabilities[i].json;

		strbuf_adds(out, i ? ",{" : "{");
		if (json->length)
			strbuf_add(out, json->data + 1, json->length - 1);
		strbuf_addc(out, '}');
	}
	strbuf_adds(out, "]}\n");
}

/* ---- losses and the end ---- */

/* The format has no record of losses; pitot_loss is Pitot's own. */
void gpufl_loss(struct gpufl_sink *s, const struct row_loss *l)
{
	const struct table_schema *table = schema_table(TABLE_loss);
	const char *reason = schema_value_name(&table->columns[COLUMN_loss_reason], l->reason);
	struct strbuf *out = gpufl_line(&s->log, GPUFL_SYSTEM, "pitot_loss");

	raw_reserve(out, s->identity.length + 1024);
	raw_add(out, s->identity.data, s->identity.length);
	strbuf_addf(out, ",\"reason\":\"%s\"", reason ? reason : "unknown");
	TEXT_U64(out, "count", l->count);
	TEXT_U64(out, "start_ns", gpufl_time(s, l->start_ns));
	TEXT_U64(out, "end_ns", gpufl_time(s, l->end_ns));
	gpufl_key_text(out, "detail",
		       l->missing >> COLUMN_loss_detail & 1 ? (struct bytes_value){ "", 0 }
							    : gpufl_text(s, l->detail));
	strbuf_adds(out, "}\n");
	raw_reserve(out, 0);
}

void gpufl_end(struct gpufl_sink *s)
{
	_cleanup_strbuf_ struct strbuf lines = STRBUF_INIT;
	bool ended = s->has_process && !(s->process.missing >> COLUMN_process_end_ns & 1);
	uint64_t end = gpufl_time(s, ended ? MAX(s->process.end_ns, s->last_ns) : s->last_ns);

	add_capabilities(s, end, &lines);
	strbuf_adds(&lines, "{\"type\":\"shutdown\"");
	strbuf_add(&lines, s->identity.data, s->identity.length);
	strbuf_addf(&lines, ",\"ts_ns\":%llu}\n", (unsigned long long)end);
	if (!lines.failed)
		gpufl_line_everywhere(&s->log, lines.data, lines.length);
}
