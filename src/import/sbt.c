/* sbt.c: converts TraceSmith's SBT files, version 0.1 (format/sbt_file.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "format/sbt_file.h"
#include "import/kineto/kineto.h"
#include "schema/gpu_vendor.h"

#define FLUSH_EVENTS 100000u
#define FRAMES_MAX 1024u
#define OPEN_MAX ((size_t)1 << 22) /* kernels that have begun: 600 MB of them */
#define OWN_CORRELATION (UINT64_C(1) << 63) /* of work without an id */

struct event {
	struct sbt_event v;
	uint64_t start_ns, end_ns;
};

struct sbt {
	struct kineto *k;
	struct sbt_reader file;
	VEC(struct event) open; /* kernels that have begun */
	struct map kernels; /* hash of a kernel's place and id -> item of `open` + 1; 0: complete */
	struct map symbols;
	uint64_t base_ns, own_correlation, events;
	bool has_base;
};

/* ---- values ---- */

static void copy_text(struct sbt_text t, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)MIN(t.length, size - 1), t.bytes);
}

/* The text of a number; "unknown", and counted, if there is none. */
static struct sbt_text string_of(struct sbt *s, uint64_t number)
{
	const struct sbt_text *t = sbt_string(&s->file, number);

	if (t)
		return *t;
	kineto_count(s->k, KINETO_DAMAGED_COUNT);
	return (struct sbt_text){ "unknown", strlen("unknown") };
}

/* ---- stacks ---- */

static uint64_t frame_of(struct sbt *s, struct cursor *c)
{
	struct sbt_frame f = sbt_next_frame(c);
	struct row_symbol row = { .session = s->k->session };
	struct sbt_text function, file;

	row.address =
		f.address ? f.address & (FRAME_KERNEL - 1) : hash_bytes(&f, sizeof(f)) >> 8 << 4;
	if (map_add(&s->symbols, row.address) <= 0)
		return row.address;
	function = string_of(s, f.function);
	file = string_of(s, f.file);
	row.function = writer_string(s->k->writer, function.bytes, function.length);
	row.file = writer_string(s->k->writer, file.bytes, file.length);
	row.line = (uint32_t)f.line;
	ROW_MISSING_IF(&row, symbol, function, !function.length);
	ROW_MISSING(&row, symbol, module);
	ROW_MISSING_IF(&row, symbol, file, !file.length);
	ROW_MISSING_IF(&row, symbol, line, !file.length || f.line > UINT32_MAX);
	ROW_MISSING(&row, symbol, function_start);
	kineto_append(s->k, TABLE_symbol, &row);
	return row.address;
}

/* The file has no calls: one at an unknown time has the stack and the thread of what it caused. */
static uint64_t add_call(struct sbt *s, const struct event *v)
{
	uint64_t frames[FRAMES_MAX];
	unsigned count = (unsigned)MIN(v->v.frame_count, FRAMES_MAX);
	struct cursor c = v->v.frames;
	struct kineto *k = s->k;
	struct row_api_call row = { .missing = schema_missing(TABLE_api_call),
				    .start_ns = v->start_ns,
				    .end_ns = v->start_ns,
				    .function = api_kind_untimed,
				    .thread = v->v.thread,
				    .correlation =
					    v->v.correlation
						    ? v->v.correlation
						    : OWN_CORRELATION + ++s->own_correlation };

	kineto_count(k, KINETO_WORK_COUNT);
	if (!(v->v.flags & SBT_HAS_STACK)) {
		kineto_count(k, KINETO_UNLINKED_COUNT);
		return v->v.correlation;
	}
	for (unsigned i = 0; i < count; i++)
		frames[i] = frame_of(s, &c);
	row.stack = count ? stack_tree_id(&k->stacks, k->writer, frames, count,
					  count < v->v.frame_count ? stack_end_depth
								   : stack_end_complete,
					  NULL)
			  : 0;
	PRESENT(&row, api_call, stack, row.stack);
	k->counts[KINETO_STACKS_COUNT] += row.stack != 0;
	kineto_count(k, KINETO_JOINED_COUNT);
	writer_api_function(k->writer, api_kind_untimed, NULL);
	kineto_append(k, TABLE_api_call, &row);
	return row.correlation;
}

/* ---- events ---- */

#define PLACE(row, table, v)                                                                       \
	do {                                                                                       \
		(row)->missing = schema_missing(TABLE_##table);                                    \
		(row)->start_ns = (v)->start_ns;                                                   \
		(row)->end_ns = (v)->end_ns;                                                       \
		(row)->device = (v)->v.device;                                                     \
		(row)->stream = (v)->v.stream;                                                     \
		(row)->correlation = add_call(s, v);                                               \
		PRESENT(row, table, start_ns, 1);                                                  \
		PRESENT(row, table, end_ns, (v)->v.flags &SBT_HAS_DURATION);                       \
	} while (0)

static void add_kernel(struct sbt *s, const struct event *v)
{
	struct row_kernel_config c = { .missing = schema_missing(TABLE_kernel_config) };
	struct sbt_text name = string_of(s, v->v.name);
	struct row_kernel row = { 0 };

	c.name = writer_string(s->k->writer, name.bytes, name.length);
	if (v->v.flags & SBT_HAS_KERNEL) {
		memcpy(&c.grid_x, v->v.kernel, 6 * sizeof(*v->v.kernel));
		c.missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
		c.dynamic_shared_bytes = v->v.kernel[6];
		c.registers = v->v.kernel[7];
		PRESENT(&c, kernel_config, dynamic_shared_bytes, 1);
		PRESENT(&c, kernel_config, registers, 1);
	}
	PLACE(&row, kernel, v);
	row.config = writer_kernel_config(s->k->writer, &c);
	kineto_append(s->k, TABLE_kernel, &row);
}

/* Removes what has ended from the end of the list. */
static void trim(struct sbt *s)
{
	while (s->open.count && s->open.data[s->open.count - 1].v.type == SBT_Unknown)
		s->open.count--;
}

/*
 * A kernel is a launch with a duration, or a launch at its start and a completion at its end, as
 * TraceSmith records them on CUDA.
 */
static int add_launch(struct sbt *s, struct event *v)
{
	bool completes = v->v.type == SBT_KernelComplete;
	uint64_t key[] = { v->v.correlation, (uint64_t)v->v.device << 32 | v->v.stream }, item = 0;
	uint64_t id = hash_bytes(key, sizeof(key));

	if (completes && v->v.correlation && map_get(&s->kernels, id, &item)) {
		struct event *launch = item ? &s->open.data[item - 1] : NULL;

		if (!launch || launch->start_ns > v->end_ns) {
			kineto_count(s->k, KINETO_DERIVED_COUNT);
			return 0;
		}
		launch->end_ns = v->end_ns;
		launch->v.flags |= SBT_HAS_DURATION;
		v = launch;
	} else if (!completes && !(v->v.flags & SBT_HAS_DURATION) && v->v.correlation) {
		if (s->open.count >= OPEN_MAX) {
			kineto_count(s->k, KINETO_NO_ROOM_COUNT);
			return 0;
		}
		if (vec_push(&s->open, *v) < 0)
			return -ENOMEM;
		return map_put(&s->kernels, id, s->open.count);
	} else if (!(v->v.flags & SBT_HAS_DURATION)) {
		kineto_count(s->k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	add_kernel(s, v);
	if (v->v.correlation && map_put(&s->kernels, id, 0) < 0)
		return -ENOMEM;
	v->v.type = SBT_Unknown;
	trim(s);
	return 0;
}

static int add_copy(struct sbt *s, struct event *v)
{
	struct row_memcpy row = { 0 };

	PLACE(&row, memcpy, v);
	row.kind = v->v.type == SBT_MemcpyH2D   ? copy_kind_HtoD
		   : v->v.type == SBT_MemcpyD2H ? copy_kind_DtoH
						: copy_kind_DtoD;
	row.bytes = v->v.memory[2];
	PRESENT(&row, memcpy, bytes, v->v.flags & SBT_HAS_MEMORY);
	kineto_append(s->k, TABLE_memcpy, &row);
	return 0;
}

static int add_set(struct sbt *s, struct event *v)
{
	struct row_memset row = { 0 };

	PLACE(&row, memset, v);
	row.bytes = v->v.memory[2];
	PRESENT(&row, memset, bytes, v->v.flags & SBT_HAS_MEMORY);
	kineto_append(s->k, TABLE_memset, &row);
	return 0;
}

static int add_wait(struct sbt *s, struct event *v)
{
	struct row_synchronization row = { .missing = schema_missing(TABLE_synchronization),
					   .start_ns = v->start_ns,
					   .end_ns = v->end_ns,
					   .correlation = v->v.correlation,
					   .stream = v->v.stream };

	row.kind = v->v.type == SBT_StreamSync   ? synchronization_kind_stream
		   : v->v.type == SBT_DeviceSync ? synchronization_kind_context
						 : synchronization_kind_event;
	PRESENT(&row, synchronization, start_ns, 1);
	PRESENT(&row, synchronization, end_ns, v->v.flags & SBT_HAS_DURATION);
	PRESENT(&row, synchronization, stream, v->v.type == SBT_StreamSync);
	kineto_append(s->k, TABLE_synchronization, &row);
	return 0;
}

static int add_allocation(struct sbt *s, struct event *v)
{
	struct row_allocation row = { .missing = schema_missing(TABLE_allocation),
				      .time_ns = v->start_ns,
				      .operation = v->v.type == SBT_MemFree
							   ? memory_operation_release
							   : memory_operation_allocation,
				      .address = v->v.memory[1] ? v->v.memory[1] : v->v.memory[0],
				      .bytes = v->v.memory[2],
				      .correlation = v->v.correlation,
				      .device = v->v.device,
				      .stream = v->v.stream };

	PRESENT(&row, allocation, time_ns, 1);
	PRESENT(&row, allocation, bytes, v->v.flags & SBT_HAS_MEMORY);
	PRESENT(&row, allocation, stream, 1);
	kineto_append(s->k, TABLE_allocation, &row);
	return 0;
}

static struct kineto_span span_of(struct sbt *s, const struct event *v)
{
	struct kineto_span span = { .start_ns = v->start_ns,
				    .end_ns = v->end_ns,
				    .kind = KINETO_RANGE };
	struct sbt_text name = string_of(s, v->v.name);

	span.name = kineto_intern(s->k, name.bytes, name.length) & (KINETO_NAMES_MAX - 1);
	return span;
}

/* A range ends with its id, or else with its name, on its thread. */
static uint64_t key_of_range(const struct event *v)
{
	uint64_t key[] = { v->v.thread, v->v.type >= SBT_NCCLStart, v->v.correlation,
			   v->v.correlation ? 0 : v->v.name };

	return hash_bytes(key, sizeof(key));
}

static int add_begin(struct sbt *s, struct event *v)
{
	struct kineto_span span = span_of(s, v);

	if (!(v->v.flags & SBT_HAS_DURATION))
		return kineto_begin_range(s->k, key_of_range(v), v->v.thread, &span);
	kineto_add_span(s->k, v->v.thread, &span);
	return 0;
}

static int end_range(struct sbt *s, struct event *v)
{
	kineto_end_range(s->k, key_of_range(v), v->end_ns);
	return 0;
}

/* Moments, and types without a table, which keep their name or number. */
static int add_mark(struct sbt *s, struct event *v)
{
	struct row_nvtx row = { .missing = schema_missing(TABLE_nvtx),
				.time_ns = v->start_ns,
				.kind = nvtx_kind_mark,
				.thread = v->v.thread };
#define TYPE_NAME(n, name) [n] = #name,
	static const char *const names[256] = { SBT_TYPES(TYPE_NAME) };
	const char *type = names[v->v.type];
	struct sbt_text name = string_of(s, v->v.name);

	if (v->v.flags & SBT_HAS_DURATION)
		return add_begin(s, v);
	strbuf_clear(&s->k->scratch);
	if (!type)
		strbuf_addf(&s->k->scratch, "[type %u] ", v->v.type);
	else if (v->v.type < SBT_Marker)
		strbuf_addf(&s->k->scratch, "[%s] ", type);
	strbuf_add(&s->k->scratch, name.bytes, name.length);
	row.message =
		writer_string(s->k->writer, strbuf_text(&s->k->scratch), s->k->scratch.length);
	PRESENT(&row, nvtx, message, 1);
	kineto_append(s->k, TABLE_nvtx, &row);
	return 0;
}

static int add_event(void *sbt, struct sbt_event *read)
{
	struct sbt *s = sbt;
	static int (*const adds[256])(struct sbt * s, struct event * v) = {
		[SBT_Unknown] = add_mark,          [SBT_KernelLaunch] = add_launch,
		[SBT_KernelComplete] = add_launch, [SBT_MemcpyH2D] = add_copy,
		[SBT_MemcpyD2H] = add_copy,        [SBT_MemcpyD2D] = add_copy,
		[SBT_MemsetDevice] = add_set,      [SBT_StreamSync] = add_wait,
		[SBT_DeviceSync] = add_wait,       [SBT_EventRecord] = add_mark,
		[SBT_EventSync] = add_wait,        [SBT_StreamCreate] = add_mark,
		[SBT_StreamDestroy] = add_mark,    [SBT_ContextCreate] = add_mark,
		[SBT_ContextDestroy] = add_mark,   [SBT_MemAlloc] = add_allocation,
		[SBT_MemFree] = add_allocation,    [SBT_Marker] = add_mark,
		[SBT_RangeStart] = add_begin,      [SBT_RangeEnd] = end_range,
		[SBT_NCCLStart] = add_begin,       [SBT_NCCLComplete] = end_range,
		[SBT_Custom] = add_mark,
	};
	struct kineto *k = s->k;
	struct event v = { .v = *read };
	int rc;

	kineto_count(k, KINETO_EVENTS_COUNT);
	if (!s->events++) /* time stamps may be 0 */
		s->base_ns = read->time_ns < KINETO_ABSOLUTE_NS ? NS_PER_S : 0;
	v.start_ns = read->time_ns + s->base_ns;
	v.end_ns = v.start_ns + read->duration_ns;
	if (k->options->cancel && *k->options->cancel)
		return -ECANCELED;
	if (!v.start_ns || v.end_ns < v.start_ns || v.end_ns > INT64_MAX) {
		kineto_count(k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	kineto_extend(k, v.start_ns, v.end_ns);
	k->used_gpus |= read->device < KINETO_DEVICES ? UINT64_C(1) << read->device : 0;
	k->lacks_context = true;
	rc = (adds[read->type] ? adds[read->type] : add_mark)(s, &v);
	return rc == 0 && s->events % FLUSH_EVENTS == 0 ? kineto_flush(k) : rc;
}

/* Kernels that have begun have no end. */
static void close_open(struct sbt *s)
{
	for (size_t i = 0; i < s->open.count; i++)
		if (s->open.data[i].v.type == SBT_KernelLaunch)
			add_kernel(s, &s->open.data[i]);
}

/* ---- the file ---- */

static void add_metadata(struct kineto *k, const struct sbt_metadata *m)
{
	copy_text(m->command.length ? m->command : m->name, k->name, sizeof(k->name));
	copy_text(m->host, k->host, sizeof(k->host));
	k->pid = m->pid <= UINT32_MAX ? (uint32_t)m->pid : 0;
	if (m->start_ns >= KINETO_ABSOLUTE_NS && m->end_ns >= m->start_ns &&
	    m->end_ns <= INT64_MAX) {
		k->spans_ns[0] = m->start_ns;
		k->spans_ns[1] = m->end_ns;
	}
}

static void add_devices(struct kineto *k, struct sbt_reader *file)
{
	const struct table_schema *t = schema_table(TABLE_device);
	struct sbt_device d;

	while (sbt_next_device(file, &d)) {
		struct row_device row = { .missing = schema_missing(TABLE_device), .id = d.id };
		char maker[16];

		for (size_t i = 0; i < ARRAY_SIZE(sbt_device_columns); i++)
			if (d.values[i])
				row_set(t, &row, sbt_device_columns[i], d.values[i]);
		if (row.id >= KINETO_DEVICES)
			continue;
		copy_text(d.vendor, maker, sizeof(maker));
		row.vendor = (uint8_t)gpu_vendor_by_title(maker);
		PRESENT(&row, device, vendor, row.vendor);
		row.name = kineto_intern(k, d.name.bytes, d.name.length);
		k->gpus[row.id] = row;
		k->known_gpus |= UINT64_C(1) << row.id;
	}
	k->counts[KINETO_DAMAGED_COUNT] += file->devices.failed;
}

static int read_file(struct kineto *k)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	struct sbt s = { .k = k, .file = { .path = k->path, .add = add_event, .user = &s } };
	int rc = import_read_all(k->files, k->input, k->path, SBT_FILE_BYTES_MAX, &bytes, k->error);

	s.file.bytes = (const uint8_t *)strbuf_text(&bytes);
	s.file.size = bytes.length;
	if (rc >= 0) {
		k->at_end = true; /* what is missing was cut off */
		rc = sbt_read(&s.file, k->error);
	}
	if (rc >= 0) {
		memcpy(k->broken, s.file.broken, sizeof(k->broken));
		add_metadata(k, &s.file.metadata);
		add_devices(k, &s.file);
		close_open(&s);
	}
	sbt_reader_release(&s.file);
	vec_release(&s.open);
	map_release(&s.kernels);
	map_release(&s.symbols);
	return rc;
}

static int sniff_head(const struct input *in)
{
	return in->head_length >= 4 && !memcmp(in->head, "SBT", 4) ? 95 : 0;
}

KINETO_IMPORTER(sbt, "SBT", ".sbt", sniff_head, read_file)
