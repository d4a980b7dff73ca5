/*
 * sbt.c: converts TraceSmith's SBT files, version 0.1: a header with the offsets of sections of
 * metadata, GPUs, events and strings, whose records have no lengths of their own. Therefore what
 * follows a record that cannot be read is lost. The strings come last, so the file is read as a
 * whole. A file that was never completed has no offsets: its sections are found one by one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/plural.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "schema/gpu_vendor.h"
#include "schema/sbt_format.h"

#define ABSOLUTE_NS UINT64_C(100000000000000000) /* earlier times are not since the epoch */
#define FLUSH_EVENTS 100000u
#define FRAMES_MAX 1024u
#define OWN_CORRELATION (UINT64_C(1) << 63) /* of work without an id */

#define KNOWN_FLAGS (SBT_HAS_DURATION | SBT_HAS_KERNEL | SBT_HAS_MEMORY | SBT_HAS_STACK)

struct text {
	const char *bytes;
	size_t length;
};

struct event {
	uint8_t type, flags;
	uint32_t device, stream, thread;
	uint64_t start_ns, end_ns, correlation, name;
	uint32_t kernel[8]; /* grid, block, shared memory, registers */
	uint64_t source, destination, bytes;
	struct cursor frames;
	uint64_t frame_count;
};

struct sbt {
	struct kineto *k;
	const uint8_t *bytes;
	size_t size;
	VEC(struct text) strings;
	VEC(struct event) open; /* kernels and ranges that have begun */
	struct map kernels; /* hash of a kernel's place and id -> item of `open` + 1; 0: complete */
	struct map symbols;
	uint64_t time_ns, base_ns, own_correlation;
};

/* ---- values ---- */

static struct text read_text(struct cursor *c)
{
	uint64_t length = cursor_varint(c);
	struct text t = { NULL, length };

	if (length > cursor_left(c))
		c->failed = true;
	else
		t.bytes = (const char *)cursor_bytes(c, length);
	return t;
}

static uint32_t read_u32(struct cursor *c)
{
	uint64_t value = cursor_varint(c);

	c->failed |= value > UINT32_MAX;
	return (uint32_t)value;
}

static void copy_text(struct text t, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)MIN(t.length, size - 1), t.bytes ? t.bytes : "");
}

/* The text of a number; "unknown", and counted, if there is none. */
static struct text string_of(struct sbt *s, uint64_t number)
{
	if (number < s->strings.count)
		return s->strings.data[number];
	kineto_count(s->k, KINETO_DAMAGED_COUNT);
	return (struct text){ "unknown", strlen("unknown") };
}

/* Reads an event. Returns false if it is none: the next one cannot be found. */
static bool read_event(struct sbt *s, struct cursor *c, struct event *v)
{
	*v = (struct event){ .type = cursor_u8(c), .flags = cursor_u8(c) };
	s->time_ns += cursor_varint(c); /* modulo 2^64: the step may be backwards */
	v->start_ns = v->end_ns = s->time_ns + s->base_ns;
	if (v->flags & SBT_HAS_DURATION)
		v->end_ns += cursor_varint(c);
	v->device = read_u32(c);
	v->stream = read_u32(c);
	v->correlation = cursor_varint(c);
	v->name = cursor_varint(c);
	for (size_t i = 0; i < ARRAY_SIZE(v->kernel) && v->flags & SBT_HAS_KERNEL; i++)
		v->kernel[i] = read_u32(c);
	if (v->flags & SBT_HAS_MEMORY) {
		v->source = cursor_varint(c);
		v->destination = cursor_varint(c);
		v->bytes = cursor_varint(c);
	}
	if (v->flags & SBT_HAS_STACK) {
		v->thread = (uint32_t)cursor_varint(c);
		v->frame_count = cursor_varint(c);
		v->frames = *c;
	}
	for (uint64_t i = 0; i < v->frame_count && !c->failed; i++)
		for (int field = 0; field < 4; field++)
			cursor_varint(c);
	return !c->failed && !(v->flags & ~KNOWN_FLAGS);
}

/* ---- stacks ---- */

static uint64_t frame_of(struct sbt *s, struct cursor *c)
{
	uint64_t key[4]; /* address, function, file, line */
	struct row_symbol row = { .session = s->k->session };
	struct text function, file;

	for (size_t i = 0; i < ARRAY_SIZE(key); i++)
		key[i] = cursor_varint(c);
	row.address = key[0] ? key[0] & (FRAME_KERNEL - 1) : hash_bytes(key, sizeof(key)) >> 8 << 4;
	if (map_add(&s->symbols, row.address) <= 0)
		return row.address;
	function = string_of(s, key[1]);
	file = string_of(s, key[2]);
	row.function = writer_string(s->k->writer, function.bytes, function.length);
	row.file = writer_string(s->k->writer, file.bytes, file.length);
	row.line = (uint32_t)key[3];
	ROW_MISSING_IF(&row, symbol, function, !function.length);
	ROW_MISSING(&row, symbol, module);
	ROW_MISSING_IF(&row, symbol, file, !file.length);
	ROW_MISSING_IF(&row, symbol, line, !file.length || key[3] > UINT32_MAX);
	ROW_MISSING(&row, symbol, function_start);
	kineto_append(s->k, TABLE_symbol, &row);
	return row.address;
}

/* The file has no calls: one at an unknown time has the stack and the thread of what it caused. */
static uint64_t add_call(struct sbt *s, const struct event *v)
{
	uint64_t frames[FRAMES_MAX];
	unsigned count = (unsigned)MIN(v->frame_count, FRAMES_MAX);
	struct cursor c = v->frames;
	struct kineto *k = s->k;
	struct row_api_call row = { .missing = schema_missing(TABLE_api_call),
				    .start_ns = v->start_ns,
				    .end_ns = v->start_ns,
				    .function = api_kind_untimed,
				    .thread = v->thread,
				    .correlation = v->correlation ? v->correlation
								  : OWN_CORRELATION +
									    ++s->own_correlation };

	kineto_count(k, KINETO_WORK_COUNT);
	if (!(v->flags & SBT_HAS_STACK)) {
		kineto_count(k, KINETO_UNLINKED_COUNT);
		return v->correlation;
	}
	for (unsigned i = 0; i < count; i++)
		frames[i] = frame_of(s, &c);
	row.stack =
		count ? stack_tree_id(&k->stacks, k->writer, frames, count,
				      count < v->frame_count ? stack_end_depth : stack_end_complete,
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
		(row)->device = (v)->device;                                                       \
		(row)->stream = (v)->stream;                                                       \
		(row)->correlation = add_call(s, v);                                               \
		PRESENT(row, table, start_ns, 1);                                                  \
		PRESENT(row, table, end_ns, (v)->flags &SBT_HAS_DURATION);                         \
	} while (0)

static void add_kernel(struct sbt *s, const struct event *v)
{
	struct row_kernel_config c = { .missing = schema_missing(TABLE_kernel_config) };
	struct text name = string_of(s, v->name);
	struct row_kernel row = { 0 };

	c.name = writer_string(s->k->writer, name.bytes, name.length);
	if (v->flags & SBT_HAS_KERNEL) {
		memcpy(&c.grid_x, v->kernel, 6 * sizeof(*v->kernel));
		c.missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
		c.dynamic_shared_bytes = v->kernel[6];
		c.registers = v->kernel[7];
		PRESENT(&c, kernel_config, dynamic_shared_bytes, 1);
		PRESENT(&c, kernel_config, registers, 1);
	}
	PLACE(&row, kernel, v);
	row.config = writer_kernel_config(s->k->writer, &c);
	kineto_append(s->k, TABLE_kernel, &row);
}

static int add_open(struct sbt *s, const struct event *v)
{
	return s->open.count < KINETO_WORK_MAX ? vec_push(&s->open, *v) : 0;
}

/* Removes what has ended from the end of the list. */
static void trim(struct sbt *s)
{
	while (s->open.count && s->open.data[s->open.count - 1].type == SBT_Unknown)
		s->open.count--;
}

/*
 * A kernel is a launch with a duration, or a launch at its start and a completion at its end, as
 * TraceSmith records them on CUDA.
 */
static int add_launch(struct sbt *s, struct event *v)
{
	bool completes = v->type == SBT_KernelComplete;
	uint64_t key[] = { v->correlation, (uint64_t)v->device << 32 | v->stream }, item = 0;
	uint64_t id = hash_bytes(key, sizeof(key));

	if (completes && v->correlation && map_get(&s->kernels, id, &item)) {
		struct event *launch = item ? &s->open.data[item - 1] : NULL;

		if (!launch || launch->start_ns > v->end_ns) {
			kineto_count(s->k, KINETO_DERIVED_COUNT);
			return 0;
		}
		launch->end_ns = v->end_ns;
		launch->flags |= SBT_HAS_DURATION;
		v = launch;
	} else if (!completes && !(v->flags & SBT_HAS_DURATION) && v->correlation) {
		if (add_open(s, v) < 0)
			return -ENOMEM;
		return map_put(&s->kernels, id, s->open.count);
	} else if (!(v->flags & SBT_HAS_DURATION)) {
		kineto_count(s->k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	add_kernel(s, v);
	if (v->correlation && map_put(&s->kernels, id, 0) < 0)
		return -ENOMEM;
	v->type = SBT_Unknown;
	trim(s);
	return 0;
}

static int add_copy(struct sbt *s, struct event *v)
{
	struct row_memcpy row = { 0 };

	PLACE(&row, memcpy, v);
	row.kind = v->type == SBT_MemcpyH2D   ? copy_kind_HtoD
		   : v->type == SBT_MemcpyD2H ? copy_kind_DtoH
					      : copy_kind_DtoD;
	row.bytes = v->bytes;
	PRESENT(&row, memcpy, bytes, v->flags & SBT_HAS_MEMORY);
	kineto_append(s->k, TABLE_memcpy, &row);
	return 0;
}

static int add_set(struct sbt *s, struct event *v)
{
	struct row_memset row = { 0 };

	PLACE(&row, memset, v);
	row.bytes = v->bytes;
	PRESENT(&row, memset, bytes, v->flags & SBT_HAS_MEMORY);
	kineto_append(s->k, TABLE_memset, &row);
	return 0;
}

static int add_wait(struct sbt *s, struct event *v)
{
	struct row_synchronization row = { .missing = schema_missing(TABLE_synchronization),
					   .start_ns = v->start_ns,
					   .end_ns = v->end_ns,
					   .correlation = v->correlation,
					   .stream = v->stream };

	row.kind = v->type == SBT_StreamSync   ? synchronization_kind_stream
		   : v->type == SBT_DeviceSync ? synchronization_kind_context
					       : synchronization_kind_event;
	PRESENT(&row, synchronization, start_ns, 1);
	PRESENT(&row, synchronization, end_ns, v->flags & SBT_HAS_DURATION);
	PRESENT(&row, synchronization, stream, v->type == SBT_StreamSync);
	kineto_append(s->k, TABLE_synchronization, &row);
	return 0;
}

static int add_allocation(struct sbt *s, struct event *v)
{
	struct row_allocation row = { .missing = schema_missing(TABLE_allocation),
				      .time_ns = v->start_ns,
				      .operation = v->type == SBT_MemFree
							   ? memory_operation_release
							   : memory_operation_allocation,
				      .address = v->destination ? v->destination : v->source,
				      .bytes = v->bytes,
				      .correlation = v->correlation,
				      .device = v->device,
				      .stream = v->stream };

	PRESENT(&row, allocation, time_ns, 1);
	PRESENT(&row, allocation, bytes, v->flags & SBT_HAS_MEMORY);
	PRESENT(&row, allocation, stream, 1);
	kineto_append(s->k, TABLE_allocation, &row);
	return 0;
}

static int add_range(struct sbt *s, const struct event *v, uint64_t end_ns)
{
	struct text name = string_of(s, v->name);
	struct kineto_span span = { .start_ns = v->start_ns,
				    .end_ns = end_ns,
				    .kind = KINETO_RANGE };

	span.name = kineto_intern(s->k, name.bytes, name.length) & (KINETO_NAMES_MAX - 1);
	if (span.name)
		kineto_add_span(s->k, v->thread, &span);
	return 0;
}

static int add_begin(struct sbt *s, struct event *v)
{
	return v->flags & SBT_HAS_DURATION ? add_range(s, v, v->end_ns) : add_open(s, v);
}

/* Ends the last range that has begun with that id, or else with that name, on the thread. */
static int end_range(struct sbt *s, struct event *v)
{
	for (size_t i = s->open.count; i-- > 0;) {
		struct event *begin = &s->open.data[i];

		if (begin->type + 1 != v->type || begin->thread != v->thread ||
		    begin->correlation != v->correlation ||
		    (!v->correlation && begin->name != v->name))
			continue;
		add_range(s, begin, MAX(begin->start_ns, v->end_ns));
		begin->type = SBT_Unknown;
		trim(s);
		return 0;
	}
	kineto_count(s->k, KINETO_DAMAGED_COUNT);
	return 0;
}

/* Moments, and types without a table, which keep their name or number. */
static int add_mark(struct sbt *s, struct event *v)
{
	struct row_nvtx row = { .missing = schema_missing(TABLE_nvtx),
				.time_ns = v->start_ns,
				.kind = nvtx_kind_mark,
				.thread = v->thread };
#define TYPE_NAME(n, name) [n] = #name,
	static const char *const names[256] = { SBT_TYPES(TYPE_NAME) };
	const char *type = names[v->type];
	struct text name = string_of(s, v->name);

	if (v->flags & SBT_HAS_DURATION)
		return add_range(s, v, v->end_ns);
	strbuf_clear(&s->k->scratch);
	if (!type)
		strbuf_addf(&s->k->scratch, "[type %u] ", v->type);
	else if (v->type < SBT_Marker)
		strbuf_addf(&s->k->scratch, "[%s] ", type);
	strbuf_add(&s->k->scratch, name.bytes, name.length);
	row.message =
		writer_string(s->k->writer, strbuf_text(&s->k->scratch), s->k->scratch.length);
	PRESENT(&row, nvtx, message, 1);
	kineto_append(s->k, TABLE_nvtx, &row);
	return 0;
}

static int add_event(struct sbt *s, struct event *v)
{
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

	kineto_count(k, KINETO_EVENTS_COUNT);
	if (!v->start_ns || v->end_ns < v->start_ns || v->end_ns > INT64_MAX) {
		kineto_count(k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	kineto_extend(k, v->start_ns, v->end_ns);
	k->used_gpus |= v->device < KINETO_DEVICES ? UINT64_C(1) << v->device : 0;
	k->lacks_context = true;
	return (adds[v->type] ? adds[v->type] : add_mark)(s, v);
}

/* What has begun and not ended: kernels have no end, ranges end with the file. */
static void close_open(struct sbt *s)
{
	for (size_t i = 0; i < s->open.count; i++) {
		struct event *v = &s->open.data[i];

		if (v->type == SBT_KernelLaunch)
			add_kernel(s, v);
		else if (v->type == SBT_RangeStart || v->type == SBT_NCCLStart)
			add_range(s, v, MAX(v->start_ns, s->k->last_ns));
	}
}

/* ---- sections ---- */

/* The section at an offset, behind its tag. Returns false if it has no such tag. */
static bool section_at(const struct sbt *s, uint64_t offset, uint8_t tag, struct cursor *c)
{
	if (offset < SBT_HEADER_BYTES || offset >= s->size || s->bytes[offset] != tag)
		return false;
	*c = cursor_of(s->bytes + offset + 1, s->size - offset - 1);
	return true;
}

static void read_metadata(struct sbt *s, struct cursor *c)
{
	struct kineto *k = s->k;
	struct text name = read_text(c), command = read_text(c);
	uint64_t start_ns = cursor_varint(c), end_ns = cursor_varint(c), pid;
	struct text host = read_text(c);

	copy_text(command.length ? command : name, k->name, sizeof(k->name));
	copy_text(host, k->host, sizeof(k->host));
	pid = cursor_varint(c);
	k->pid = pid <= UINT32_MAX ? (uint32_t)pid : 0;
	if (start_ns >= ABSOLUTE_NS && end_ns >= start_ns && end_ns <= INT64_MAX) {
		k->spans_ns[0] = start_ns;
		k->spans_ns[1] = end_ns;
	}
}

static void read_devices(struct sbt *s, struct cursor *c)
{
	const struct table_schema *t = schema_table(TABLE_device);
	uint64_t count = cursor_varint(c);

	for (; count && !c->failed; count--) {
		struct row_device row = { .missing = schema_missing(TABLE_device) };
		struct text name, vendor;
		char maker[16];

		row.id = read_u32(c);
		name = read_text(c);
		vendor = read_text(c);
		for (size_t i = 0; i < ARRAY_SIZE(sbt_device_columns); i++) {
			uint64_t value = sbt_device_columns[i] == COLUMN_device_memory_bytes
						 ? cursor_varint(c)
						 : read_u32(c);

			if (value)
				row_set(t, &row, sbt_device_columns[i], value);
		}
		if (c->failed || row.id >= KINETO_DEVICES)
			continue;
		copy_text(vendor, maker, sizeof(maker));
		row.vendor = (uint8_t)gpu_vendor_by_title(maker);
		PRESENT(&row, device, vendor, row.vendor);
		row.name = kineto_intern(s->k, name.bytes, name.length);
		s->k->gpus[row.id] = row;
		s->k->known_gpus |= UINT64_C(1) << row.id;
	}
	s->k->counts[KINETO_DAMAGED_COUNT] += c->failed;
}

/* A text has at least one byte: the count cannot be larger than what is left. */
static int read_strings(struct sbt *s, struct cursor *c)
{
	uint64_t count = cursor_varint(c);

	s->strings.count = 0;
	c->failed |= count > cursor_left(c);
	for (; count; count--) {
		struct text t = read_text(c);

		if (c->failed)
			return 0;
		if (vec_push(&s->strings, t) < 0)
			return -ENOMEM;
	}
	return !c->failed;
}

/*
 * Whether a byte 2 where an event should be begins the strings of a file without offsets: they
 * end at the last byte of the file, which is 255.
 */
static int is_string_table(struct sbt *s, struct cursor c)
{
	int rc;

	if (cursor_u8(&c) != SBT_STRINGS)
		return 0;
	rc = read_strings(s, &c);
	if (rc > 0 && (cursor_u8(&c) != SBT_END || c.failed || cursor_left(&c)))
		s->strings.count = 0, rc = 0;
	return rc;
}

/*
 * Reads up to `count` events, and adds them if `add`; else stops at the strings, which are then the
 * end of the events. Returns how many there are, or a negative code.
 */
static int64_t read_events(struct sbt *s, struct cursor *events, uint64_t count, bool add)
{
	struct cursor c = *events;
	uint64_t base_ns = cursor_varint(&c), done = 0;
	struct event v;
	int rc = 0;

	s->time_ns = base_ns;
	s->base_ns = base_ns < ABSOLUTE_NS ? NS_PER_S : 0; /* time stamps may be 0 */
	while (rc == 0 && done < count && cursor_left(&c)) {
		if (!add && (rc = is_string_table(s, c)) > 0)
			events->end = c.p;
		if (rc || !read_event(s, &c, &v))
			break;
		rc = add ? add_event(s, &v) : 0;
		if (++done % FLUSH_EVENTS == 0 && rc == 0)
			rc = kineto_flush(s->k);
		if (s->k->options->cancel && *s->k->options->cancel)
			rc = -ECANCELED;
	}
	return rc < 0 ? rc : (int64_t)done;
}

/* ---- the file ---- */

/* Checks the header. Returns 0 or a negative code that names what cannot be. */
static int check_header(const struct sbt *s, struct error *e)
{
	const uint8_t *b = s->bytes;
	uint32_t size;

	if (s->size < SBT_HEADER_BYTES)
		return error_set(e, E_FORMAT, "'%s' is cut off within its header of 72 bytes",
				 s->k->path);
	size = load_u32(b + 12);
	if (load_u16(b + 4) != 0)
		return error_set(e, E_UNSUPPORTED,
				 "'%s' is of SBT version %u.%u; pitot import reads 0.x", s->k->path,
				 load_u16(b + 4), load_u16(b + 6));
	if ((load_u32(b + 8) & 5) != 1 || b[64])
		return error_set(e, E_UNSUPPORTED,
				 "'%s' is big-endian or compressed (flags %#x, compression %u)",
				 s->k->path, load_u32(b + 8), b[64]);
	if (size < SBT_HEADER_BYTES || size > s->size)
		return error_set(e, E_FORMAT, "'%s': its header_size cannot be %u", s->k->path,
				 size);
	return 0;
}

/* The sections of a file that was never completed follow each other. */
static int64_t recover(struct sbt *s)
{
	struct cursor c = cursor_of(s->bytes + SBT_HEADER_BYTES, s->size - SBT_HEADER_BYTES);
	uint8_t tag = cursor_u8(&c);
	int64_t count;

	for (; !c.failed && (tag == SBT_METADATA || tag == SBT_DEVICES); tag = cursor_u8(&c))
		(tag == SBT_METADATA ? read_metadata : read_devices)(s, &c);
	if (c.failed || tag != SBT_EVENTS)
		return 0;
	count = read_events(s, &c, UINT64_MAX, false);
	if (count > 0)
		count = read_events(s, &c, UINT64_MAX, true);
	if (count >= 0)
		snprintf(s->k->broken, sizeof(s->k->broken),
			 "the file was never completed: %" PRId64 " event%s recovered%s", count,
			 plural((uint64_t)count), s->strings.count ? "" : ", names are lost");
	return count;
}

static int64_t read_complete(struct sbt *s)
{
	const uint8_t *b = s->bytes;
	uint64_t wanted = load_u64(b + 56), offset = load_u64(b + 40);
	struct cursor c;
	int64_t count = 0;

	if (section_at(s, load_u64(b + 16), SBT_METADATA, &c))
		read_metadata(s, &c);
	if (section_at(s, load_u64(b + 32), SBT_DEVICES, &c))
		read_devices(s, &c);
	if (section_at(s, load_u64(b + 24), SBT_STRINGS, &c) && read_strings(s, &c) < 0)
		return -ENOMEM;
	if (section_at(s, offset, SBT_EVENTS, &c))
		count = read_events(s, &c, wanted, true);
	if (count >= 0 && (uint64_t)count < wanted)
		snprintf(s->k->broken, sizeof(s->k->broken),
			 "the file ends, or cannot be read, after event %" PRId64 " of %" PRIu64,
			 count, wanted);
	return count;
}

static int read_file_of(struct kineto *k)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	struct sbt s = { .k = k };
	int64_t rc =
		import_read_all(k->files, k->input, k->path, SBT_FILE_BYTES_MAX, &bytes, k->error);

	s.bytes = (const uint8_t *)strbuf_text(&bytes);
	s.size = bytes.length;
	if (rc >= 0)
		rc = check_header(&s, k->error);
	if (rc >= 0) {
		bool complete = load_u64(s.bytes + 56) || load_u64(s.bytes + 24) ||
				load_u64(s.bytes + 40) || s.size == SBT_HEADER_BYTES;

		k->at_end = true; /* what is missing was cut off */
		rc = complete ? read_complete(&s) : recover(&s);
		if (rc >= 0)
			close_open(&s);
		if (rc == -ENOMEM)
			error_set(k->error, -ENOMEM, "out of memory");
	}
	vec_release(&s.strings);
	vec_release(&s.open);
	map_release(&s.kernels);
	map_release(&s.symbols);
	return (int)MIN(rc, 0);
}

static int sniff_head(const struct input *in)
{
	return in->head_length >= 4 && !memcmp(in->head, "SBT", 4) ? 95 : 0;
}

static int read_file(struct import_files *files, struct input *in, const char *path,
		     struct error *e)
{
	return kineto_session(files, in, path, read_file_of, e);
}

static const struct import_format format = { "SBT", ".sbt", sniff_head, read_file };

int sbt_run(struct import_source *source, const struct import_options *options,
	    const char *directory, struct import_result *result, struct error *e)
{
	return kineto_read_all(&format, source, options, directory, result, e);
}

int sbt_sniff(const struct import_source *source)
{
	return import_files_sniff(&format, source);
}
