/*
 * recover_records.c: GPU work from the buffers that CUPTI wrote.
 *
 * A buffer that CUPTI still has contains records of work that has not ended: their end is 0. They
 * are skipped and counted, since CUPTI reserves records in the order of launches, but work of other
 * streams ends earlier. A buffer ends at its first record of unknown size, behind which there can
 * only be records of launches whose ids occur there as in a record; its memory was zero.
 *
 * A kernel's kind with its highest bit set was seen once, on an H200, where records of a hanging
 * kernel would have been. NVIDIA documents no such kind. It counts as a kernel record that CUPTI
 * had begun; nothing else of it is read, and the buffer ends there all the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cuda/activity_rows.h"
#include "recover/recover_state.h"

#define RECORD_BEGUN 0x80000000u

struct record_reader {
	struct recovery *r;
	struct map names; /* address of a kernel's name -> its number in the area + 1 */
	struct map strings; /* that number -> string */
	bool is_delivered; /* CUPTI has completed the buffer */
	uint8_t bytes[BUFFER_BYTES];
};

static struct span span_of(const struct recovery *r, uint64_t start, uint64_t end)
{
	uint64_t offset = (uint64_t)r->head.clock_offset_ns;
	struct span s = { start + offset, end + offset, 0 };

	if (!r->head.has_clock)
		s.missing = 3;
	s.missing |= (start == 0) | (unsigned)(end == 0 || end < start) << 1;
	return s;
}

/* Returns the string of that name; 0: it cannot be read. */
static uint32_t read_name(const struct recovery *r, uint32_t number)
{
	struct area_kernel_name name;

	if (!recovery_read(r, AREA_KERNEL_NAMES, number * sizeof(name), &name, sizeof(name)) ||
	    name.length >= AREA_KERNEL_NAMES_BYTES)
		return 0;
	return recovery_string(r, AREA_KERNEL_NAMES,
			       offsetof(struct area_kernel_names, text) + name.offset, name.length);
}

/* A name that the collector had not seen is that of the launch. */
static uint32_t name_of(struct record_reader *reader, const struct record_kernel *record)
{
	uint64_t number = 0, *id;
	uint32_t launched;

	(void)map_get(&reader->names, (uintptr_t)record->name, &number);
	if (!number) {
		launched = recover_launch_name(reader->r, record->correlation);
		return launched ? launched : writer_string(reader->r->w, "?", 1);
	}
	id = map_at(&reader->strings, number, 0);
	if (id && !*id)
		*id = read_name(reader->r, (uint32_t)number - 1);
	return id && *id ? (uint32_t)*id : writer_string(reader->r->w, "?", 1);
}

/* Members of a row of any kind of GPU work. */
#define PLACE(row)                                                                                 \
	.device = (row).device, .context = (row).context, .stream = (row).stream,                  \
	.correlation = (row).correlation

static void add_unfinished(struct recovery *r, struct row_unfinished row, uint64_t start_ns)
{
	row.time_ns = row.start_ns = r->now_ns;
	if (start_ns && r->head.has_clock)
		row.start_ns = start_ns + (uint64_t)r->head.clock_offset_ns;
	else
		ROW_MISSING(&row, unfinished, start_ns);
	ROW_MISSING(&row, unfinished, function, thread, stack);
	ROW_MISSING_IF(&row, unfinished, config, row.kind != unfinished_kind_kernel);
	ROW_MISSING_IF(&row, unfinished, copy_kind, row.kind != unfinished_kind_memcpy);
	ROW_MISSING(&row, unfinished, state, system_call, reason, name);
	writer_append(r->w, TABLE_unfinished, &row);
}

/* What only rows of this kind have. */
#define MORE_OF_kernel(row) .config = (row).config
#define MORE_OF_memcpy(row) .copy_kind = (row).kind
#define MORE_OF_memset(row) .config = 0
#define MORE_OF_graph_launch(row) .config = 0

/* Appends the row of a record that was copied into `record`; false: the work has not ended. */
#define READ(number, type, table, statement)                                                       \
	case number: {                                                                             \
		struct record_##type record = { 0 };                                               \
		struct row_##table row;                                                            \
                                                                                                   \
		memcpy(&record, bytes, MIN(size, sizeof(record)));                                 \
		span = span_of(r, record.start, record.end);                                       \
		row = type##_row(&record, version, &span, recovery_call(r, record.correlation));   \
		statement;                                                                         \
		if ((!record.start || !record.end) && !reader->is_delivered) {                     \
			add_unfinished(r,                                                          \
				       (struct row_unfinished){ .kind = unfinished_kind_##table,   \
								MORE_OF_##table(row),              \
								PLACE(row) },                      \
				       record.start);                                              \
			return false;                                                              \
		}                                                                                  \
		if (reader->r->only_unfinished)                                                    \
			return true;                                                               \
		writer_append(r->w, TABLE_##table, &row);                                          \
		r->out->records++;                                                                 \
		return true;                                                                       \
	}
#define ADD_CONFIG                                                                                 \
	do {                                                                                       \
		struct row_kernel_config config =                                                  \
			kernel_config_row(&record, name_of(reader, &record));                      \
		row.config = writer_kernel_config(r->w, &config);                                  \
		ROW_MISSING(&row, kernel, queued_ns);                                              \
		ROW_MISSING(&row, kernel, submitted_ns);                                           \
	} while (0)

/* Returns false for work that has not ended. */
static bool read_record(struct record_reader *reader, uint32_t kind, const uint8_t *bytes,
			size_t size)
{
	struct recovery *r = reader->r;
	uint32_t version = r->head.cupti_version;
	struct span span;

	switch (kind) {
		READ(RECORD_KERNEL, kernel, kernel, ADD_CONFIG)
		READ(RECORD_CONCURRENT_KERNEL, kernel, kernel, ADD_CONFIG)
		READ(RECORD_MEMCPY, memcpy, memcpy, )
		READ(RECORD_MEMCPY_PEER, memcpy_peer, memcpy, )
		READ(RECORD_MEMSET, memset, memset, )
		READ(RECORD_GRAPH_LAUNCH, graph_launch, graph_launch, )
	default:
		r->out->others++;
		return true;
	}
}

static bool is_begun_kernel(const struct record_reader *reader, uint32_t kind)
{
	const struct area_head *head = &reader->r->head;
	uint32_t of = kind & ~RECORD_BEGUN;

	return !reader->is_delivered && kind & RECORD_BEGUN &&
	       (of == RECORD_KERNEL || of == RECORD_CONCURRENT_KERNEL) && head->record_bytes[of] &&
	       !(head->left_out >> of & 1);
}

/* What is said of the first one shows which kind it was, or that it was none. */
static void note_unknown(struct record_reader *reader, size_t at, size_t valid, uint64_t before)
{
	struct recovered *out = reader->r->out;
	struct unknown_record *u = &out->first_unknown;
	uint32_t kind;

	memcpy(&kind, reader->bytes + at, sizeof(kind));
	recover_launches_search(reader->r, reader->bytes + at, valid - at);
	out->begun += is_begun_kernel(reader, kind);
	if (out->unknown++)
		return;
	*u = (struct unknown_record){ .kind = kind,
				      .offset = at,
				      .before = before,
				      .is_begun_kernel = is_begun_kernel(reader, kind),
				      .is_delivered = reader->is_delivered };
	u->size = u->kind < AREA_RECORD_KINDS ? reader->r->head.record_bytes[u->kind] : 0;
	for (size_t i = at; i < valid; i++)
		if (reader->bytes[i])
			u->left = i + 1 - at;
}

static void read_buffer(struct record_reader *reader, size_t valid, uint64_t done)
{
	struct recovery *r = reader->r;
	uint64_t number = 0;
	uint32_t kind;
	size_t size;

	for (size_t at = 0; valid - at >= sizeof(kind); at += size) {
		memcpy(&kind, reader->bytes + at, sizeof(kind));
		if (!kind)
			return;
		size = kind < AREA_RECORD_KINDS ? r->head.record_bytes[kind] : 0;
		if (size < sizeof(kind) || size > valid - at) {
			note_unknown(reader, at, valid, number);
			return;
		}
		if (number++ < done || r->head.left_out >> kind & 1)
			continue;
		r->out->incomplete += !read_record(reader, kind, reader->bytes + at, size);
	}
}

static int read_names(struct record_reader *reader)
{
	const struct recovery *r = reader->r;
	uint32_t count = MIN(r->head.kernel_names, AREA_KERNEL_NAMES_MAX);
	struct area_kernel_name name;
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (recovery_read(r, AREA_KERNEL_NAMES, i * sizeof(name), &name, sizeof(name)))
			rc = map_put(&reader->names, name.address, i + 1);
	return rc;
}

static void read_buffers(struct record_reader *reader)
{
	struct recovery *r = reader->r;
	struct buffer_slot slot;

	for (unsigned i = 1; i <= BUFFERS_MAX; i++) {
		size_t valid;
		uint64_t done;

		if (!recovery_read(r, AREA_SLOTS, i * sizeof(slot), &slot, sizeof(slot)) ||
		    !(slot.is_out || slot.is_full) || slot.is_unread)
			continue;
		reader->is_delivered = !slot.is_out;
		valid = reader->is_delivered && slot.valid ? slot.valid : slot.size;
		valid = MIN(valid, BUFFER_BYTES);
		done = r->mark.source == AREA_SOURCE_BUFFER + i ? r->mark.progress : 0;
		if (recovery_read(r, AREA_BUFFERS, (uint64_t)(i - 1) * BUFFER_BYTES, reader->bytes,
				  valid))
			read_buffer(reader, valid, done);
	}
}

int recover_records(struct recovery *r)
{
	struct record_reader *reader;
	int rc;

	if (!r->head.cupti_version || !r->head.slot_bytes)
		return 0;
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->r = r;
	rc = read_names(reader);
	if (rc == 0)
		read_buffers(reader);
	map_release(&reader->names);
	map_release(&reader->strings);
	free(reader);
	return rc;
}
