#include "record/segment_cut.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "format/block_build.h"

#define LIVE_MAX ((size_t)1 << 22)
/* Of a copy: the process may be another user's, and hostile. */
#define COPY_BYTES_MAX ((uint64_t)256 << 20)
#define COPY_ROWS_MAX ((uint64_t)1 << 24)
#define LATE_NS NS_PER_S /* by which rows are written after their time, at most */
#define CALL_NS NS_PER_S /* how long a call that allocates memory may take */

/* An allocation that was live at the begin. */
struct live_memory {
	uint64_t time_ns, bytes, correlation;
	uint64_t place; /* of its row */
	bool is_released;
};

struct segment_cut {
	struct cut_window window;
	struct cut_counts counts;
	struct decoder *decoder;
	struct block_builder builder;
	struct map work; /* correlation ids of GPU work and live memory in the cut */
	struct map live_at; /* address and layer -> item of live */
	VEC(struct live_memory) live;
	VEC(uint64_t) live_times; /* of those that are live, sorted */
	struct map live_rows; /* places */
	bool is_ready;
};

/* --- files --- */

struct cut_file {
	int fd;
	uint64_t end;
	VEC(struct index_entry) index;
};

static int put(struct cut_file *f, const void *bytes, size_t size)
{
	int rc = io_write_all(f->fd, bytes, size);

	f->end += rc == 0 ? size : 0;
	return rc;
}

/* And seals the header. */
static void set_start(struct segment_header *h, uint64_t monotonic_ns)
{
	h->start_realtime_ns += monotonic_ns - h->start_monotonic_ns;
	h->start_monotonic_ns = monotonic_ns;
	h->crc = crc32c(0, h, offsetof(struct segment_header, crc));
}

static int file_open(struct cut_file *f, int folder, const char *name,
		     const struct segment_header *header)
{
	*f = (struct cut_file){ .fd = folder_create_file(folder, name) };
	return f->fd < 0 ? f->fd : put(f, header, sizeof(*header));
}

/* Numbers the block anew: a number that is missing is a block that was lost. */
static int put_block(struct cut_file *f, struct block_header h, const void *payload)
{
	struct index_entry entry = { .offset = f->end,
				     .payload_bytes = h.payload_bytes,
				     .payload_crc = h.payload_crc,
				     .table = h.table,
				     .columns = h.columns,
				     .rows = h.rows,
				     .start_ns = h.start_ns,
				     .end_ns = h.end_ns,
				     .number = f->index.count };
	int rc;

	h.number = f->index.count;
	h.header_crc = 0;
	h.header_crc = crc32c(0, &h, sizeof(h));
	if (vec_push(&f->index, entry) < 0)
		return -ENOMEM;
	rc = put(f, &h, sizeof(h));
	return rc < 0 ? rc : put(f, payload, h.payload_bytes);
}

static int put_end(struct cut_file *f)
{
	size_t bytes = f->index.count * sizeof(f->index.data[0]);
	struct segment_trailer t = { .index_offset = f->end };
	struct block_header h = { .magic = BLOCK_MAGIC,
				  .table = BLOCK_TABLE_INDEX,
				  .payload_bytes = (uint32_t)bytes,
				  .rows = (uint32_t)f->index.count,
				  .number = f->index.count };
	int rc;

	if (bytes > BLOCK_BYTES_MAX || f->index.count > BLOCK_ROWS_MAX)
		return 0; /* it can be read without */
	block_header_seal(&h, f->index.data);
	memcpy(t.magic, TRAILER_MAGIC, sizeof(t.magic));
	t.crc = crc32c(crc32c(0, t.magic, sizeof(t.magic)), &t,
		       offsetof(struct segment_trailer, crc));
	rc = put(f, &h, sizeof(h));
	rc = rc < 0 ? rc : put(f, f->index.data, bytes);
	return rc < 0 ? rc : put(f, &t, sizeof(t));
}

static int file_close(struct cut_file *f, int rc, int folder, const char *name)
{
	vec_release(&f->index);
	if (f->fd >= 0 && close(f->fd) < 0 && rc >= 0)
		rc = -errno;
	if (rc < 0 && f->fd >= 0)
		unlinkat(folder, name, 0);
	return rc;
}

/* --- whole blocks --- */

static int copy_block(const struct segment *s, const struct block_ref *b, struct cut_file *f)
{
	_cleanup_free_ uint8_t *payload = malloc(b->header.payload_bytes + 1u);

	if (!payload)
		return -ENOMEM;
	/* A block that the process is replacing is damaged for whoever reads the copy. */
	if (!segment_read(s, b->offset + sizeof(b->header), payload, b->header.payload_bytes))
		return -ESRCH;
	return put_block(f, b->header, payload);
}

int segment_copy_interval(const struct segment *s, const struct copy_interval *interval, int folder,
			  const char *name, uint32_t number)
{
	struct segment_header header = s->header;
	struct cut_file f;
	uint64_t rows = 0;
	bool has_events = false;
	int rc;

	header.number = number;
	set_start(&header, header.start_monotonic_ns);
	rc = file_open(&f, folder, name, &header);
	for (size_t i = 0; i < s->block_count && rc >= 0; i++) {
		const struct block_ref *b = &s->blocks[i];
		const struct table_schema *table = schema_table(b->header.table);
		bool is_event = table && table->repeated == REPEAT_NEVER;

		if (!table || (is_event && (b->header.end_ns < interval->from_ns ||
					    b->header.start_ns > interval->until_ns)))
			continue;
		has_events |= is_event;
		rows += b->header.rows;
		rc = rows > COPY_ROWS_MAX || f.end + b->header.payload_bytes > COPY_BYTES_MAX
			     ? E_LIMIT
			     : copy_block(s, b, &f);
	}
	if (rc >= 0 && interval->until_ns != UINT64_MAX)
		rc = put_end(&f);
	rc = file_close(&f, rc, folder, name);
	if (rc >= 0 && !has_events)
		unlinkat(folder, name, 0);
	return rc < 0 ? rc : has_events;
}

/* --- rows --- */

struct cut_rows {
	const struct table_schema *table;
	uint8_t *rows;
	size_t count;
};

static void set_column(struct cut_rows *r, const struct column_target *t)
{
	unsigned width = r->table->columns[t->column].width;

	for (size_t i = 0; i < r->count; i++) {
		uint64_t value = 0;

		memcpy(&value, (const uint8_t *)t->values + i * width, width);
		if (t->valid[i])
			row_set(r->table, r->rows + i * r->table->row_size, t->column, value);
	}
}

/* Returns 0; E_FORMAT: the block is damaged; or -ENOMEM. */
static int decode(struct segment_cut *c, const struct segment *s, const struct block_ref *b,
		  struct cut_rows *r)
{
	const struct table_schema *table = schema_table(b->header.table);
	struct column_target targets[64] = { 0 };
	int rc = 0;

	*r = (struct cut_rows){ table, calloc(b->header.rows, table->row_size), b->header.rows };
	for (unsigned i = 0; i < table->column_count; i++) {
		targets[i].column = (int)i;
		targets[i].values = calloc(b->header.rows, table->columns[i].width);
		targets[i].valid = calloc(b->header.rows, 1);
		if (!targets[i].values || !targets[i].valid)
			rc = -ENOMEM;
	}
	if (!r->rows || rc < 0)
		rc = -ENOMEM;
	else
		rc = block_decode(c->decoder, s, b, targets, table->column_count);
	for (size_t i = 0; i < r->count && rc >= 0; i++)
		memset(r->rows + i * table->row_size, 0xff, sizeof(uint64_t));
	for (unsigned i = 0; i < table->column_count; i++) {
		if (rc >= 0)
			set_column(r, &targets[i]);
		free(targets[i].values);
		free(targets[i].valid);
	}
	if (rc < 0) {
		free(r->rows);
		*r = (struct cut_rows){ table, NULL, 0 };
	}
	return rc;
}

static uint64_t value_of(const struct cut_rows *r, size_t row, int column)
{
	return row_value(r->table, r->rows + row * r->table->row_size, column);
}

static bool has_value(const struct cut_rows *r, size_t row, int column)
{
	return row_has(r->rows + row * r->table->row_size, column);
}

/* --- what is in the cut --- */

static uint64_t place_of(const struct segment *s, size_t block, size_t row)
{
	return (uint64_t)s->header.number << 44 ^ (uint64_t)block << 18 ^ row;
}

/* An allocator's blocks have addresses within memory of the driver, as in memory_use.c. */
static uint64_t address_of(const struct cut_rows *r, size_t row)
{
	uint8_t kind = (uint8_t)value_of(r, row, COLUMN_allocation_kind);

	return value_of(r, row, COLUMN_allocation_address) ^ (uint64_t)memory_layer(kind) << 61;
}

static int find_live(struct segment_cut *c, const struct cut_rows *r, const struct segment *s,
		     size_t block)
{
	int rc = 0;

	for (size_t i = 0; i < r->count && rc >= 0; i++) {
		struct live_memory live = {
			.time_ns = value_of(r, i, COLUMN_allocation_time_ns),
			.bytes = value_of(r, i, COLUMN_allocation_bytes),
			.correlation = value_of(r, i, COLUMN_allocation_correlation),
			.place = place_of(s, block, i),
		};
		uint64_t operation = value_of(r, i, COLUMN_allocation_operation), at;

		if (live.time_ns >= c->window.from_ns || operation == memory_operation_unknown)
			continue;
		if (map_remove(&c->live_at, address_of(r, i), &at))
			c->live.data[at].is_released = true;
		if (operation != memory_operation_allocation || c->live.count >= LIVE_MAX)
			continue;
		rc = vec_push(&c->live, live);
		rc = rc < 0 ? rc : map_put(&c->live_at, address_of(r, i), c->live.count - 1);
	}
	return rc;
}

static bool ran_in_window(const struct segment_cut *c, const struct cut_rows *r, size_t row)
{
	int start = r->table->roles[ROLE_START], end = r->table->roles[ROLE_END];
	uint64_t start_ns = value_of(r, row, start);
	uint64_t end_ns = has_value(r, row, end) ? value_of(r, row, end) : start_ns;

	return start_ns <= c->window.until_ns && MAX(end_ns, start_ns) >= c->window.from_ns;
}

static int find_work(struct segment_cut *c, const struct cut_rows *r)
{
	int start = r->table->roles[ROLE_START];

	for (size_t i = 0; i < r->count; i++) {
		if (!ran_in_window(c, r, i))
			continue;
		c->counts.work++;
		c->counts.running += value_of(r, i, start) < c->window.from_ns;
		if (map_put(&c->work, value_of(r, i, r->table->roles[ROLE_CORRELATION]), 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Whether a block may have rows of the window, by the times at which they began. */
static bool is_near(const struct segment_cut *c, const struct block_ref *b)
{
	return b->header.end_ns >= c->window.work_from_ns &&
	       b->header.start_ns <= c->window.until_ns;
}

int segment_cut_find(struct segment_cut *c, const struct segment *s)
{
	int rc = 0;

	for (size_t i = 0; i < s->block_count && rc >= 0; i++) {
		const struct block_ref *b = &s->blocks[i];
		const struct table_schema *table = schema_table(b->header.table);
		bool is_memory = b->header.table == TABLE_allocation &&
				 b->header.start_ns < c->window.from_ns;
		struct cut_rows r;

		if (!table || !b->header.rows ||
		    (!is_memory && (!table->gpu_work || !is_near(c, b))))
			continue;
		rc = decode(c, s, b, &r);
		if (rc == E_FORMAT) {
			rc = 0; /* counted when it is written */
			continue;
		}
		if (rc >= 0)
			rc = is_memory ? find_live(c, &r, s, i) : find_work(c, &r);
		free(r.rows);
	}
	return rc;
}

/* After all segments were looked at: those that are live, and their calls. */
static int get_ready(struct segment_cut *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->live.count && rc >= 0 && !c->is_ready; i++) {
		const struct live_memory *live = &c->live.data[i];

		if (live->is_released)
			continue;
		c->counts.live++;
		c->counts.live_bytes += live->bytes;
		rc = map_put(&c->live_rows, live->place, 1);
		rc = rc < 0 ? rc : map_put(&c->work, live->correlation, 1);
		rc = rc < 0 ? rc : vec_push(&c->live_times, live->time_ns);
	}
	if (!c->is_ready)
		vec_sort(&c->live_times, order_u64);
	c->is_ready = true;
	return rc;
}

/* Whether calls of the block may have allocated what was live. */
static bool has_allocations(const struct segment_cut *c, const struct block_ref *b)
{
	const uint64_t *times = c->live_times.data;
	size_t i = sorted_prefix(c->live_times.count, k, times[k] < b->header.start_ns);

	return i < c->live_times.count && times[i] <= b->header.end_ns + CALL_NS;
}

static bool is_wanted(const struct segment_cut *c, const struct segment *s,
		      const struct block_ref *b, const struct table_schema *table)
{
	if (table->repeated != REPEAT_NEVER || is_near(c, b))
		return true;
	if (table->id == TABLE_allocation)
		return b->header.start_ns < c->window.from_ns && c->live_rows.count;
	/* By the clocks of GPU and host, work may have ended before its launch. */
	if (table->id == TABLE_api_call)
		return has_allocations(c, b) || (b->header.start_ns > c->window.until_ns &&
						 b->header.start_ns - c->window.until_ns < CALL_NS);
	/* Rows without a time are those of what is written about the same time. */
	return table->time_column < 0 && s->header.start_monotonic_ns <= c->window.until_ns;
}

/* Whether all rows of a block are in the cut. */
static bool is_inside(const struct segment_cut *c, const struct block_ref *b,
		      const struct table_schema *table)
{
	if (table->repeated != REPEAT_NEVER)
		return table->time_column < 0 || b->header.end_ns <= c->window.until_ns;
	return table->time_column >= 0 && b->header.start_ns >= c->window.from_ns &&
	       b->header.end_ns <= c->window.host_until_ns;
}

/*
 * Definitions have the time at which something was seen, which may be after the window for what is
 * in it. A recording ends with its last time.
 */
static bool keep_definition(const struct segment_cut *c, struct cut_rows *r, size_t row)
{
	int time = r->table->time_column;

	if (value_of(r, row, time) <= c->window.until_ns)
		return true;
	row_set(r->table, r->rows + row * r->table->row_size, time, c->window.until_ns);
	return r->table->id != TABLE_clock && r->table->id != TABLE_capability;
}

static bool keep_row(struct segment_cut *c, struct cut_rows *r, size_t row, uint64_t place)
{
	const struct cut_window *w = &c->window;
	const struct table_schema *table = r->table;
	int time = table->time_column, correlation = schema_column_by_name(table, "correlation");
	uint64_t time_ns = value_of(r, row, time), found;
	bool is_of_work =
		correlation >= 0 && map_get(&c->work, value_of(r, row, correlation), &found);

	if (table->repeated != REPEAT_NEVER)
		return keep_definition(c, r, row);
	if (table->gpu_work)
		return ran_in_window(c, r, row);
	if (time < 0)
		return correlation < 0 || is_of_work;
	if (table->id == TABLE_allocation && map_get(&c->live_rows, place, &found)) {
		ROW_MISSING((struct row_allocation *)(void *)(r->rows + row * table->row_size),
			    allocation, time_ns);
		return true;
	}
	if (table->id == TABLE_api_call)
		return is_of_work || (time_ns <= w->host_until_ns && ran_in_window(c, r, row));
	if (table->id == TABLE_nvtx || table->id == TABLE_collective)
		return is_of_work || (time_ns >= w->from_ns && time_ns <= w->host_until_ns);
	return ran_in_window(c, r, row);
}

/* Writes the rows that are in the cut. */
static int put_rows(struct segment_cut *c, const struct segment *s, size_t block,
		    struct cut_file *f, struct cut_rows *r)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct block_rows in = { .table = r->table, .rows = r->rows };
	struct block_header h;
	int rc;

	for (size_t i = 0; i < r->count; i++)
		if (keep_row(c, r, i, place_of(s, block, i)))
			memmove(r->rows + in.count++ * r->table->row_size,
				r->rows + i * r->table->row_size, r->table->row_size);
	if (!in.count)
		return 0;
	rc = block_build(&c->builder, &in, 0, &out, &h);
	if (rc < 0 || out.failed)
		return -ENOMEM;
	rc = put_block(f, h, out.data + sizeof(h));
	return rc < 0 ? rc : 1;
}

static int write_block(struct segment_cut *c, const struct segment *s, size_t block,
		       struct cut_file *f)
{
	const struct block_ref *b = &s->blocks[block];
	struct cut_rows r;
	int rc;

	if (is_inside(c, b, schema_table(b->header.table))) {
		rc = block_verify(s, b) ? copy_block(s, b, f) : E_FORMAT;
		return rc < 0 ? rc : 1;
	}
	rc = decode(c, s, b, &r);
	if (rc >= 0)
		rc = put_rows(c, s, block, f, &r);
	free(r.rows);
	return rc;
}

int segment_set_start(int folder, const char *name, uint64_t monotonic_ns)
{
	_cleanup_close_ int fd = folder_open_file(folder, name, O_RDWR, FOLDER_OWN);
	struct segment_header h;

	if (fd < 0)
		return fd;
	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return -EIO;
	set_start(&h, monotonic_ns);
	return pwrite(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) ? 0 : -EIO;
}

/* The process image's times are those of the window, not of a segment that began long before. */
static struct segment_header header_of(const struct segment_cut *c, const struct segment *s,
				       uint32_t number)
{
	struct segment_header h = s->header;

	h.number = number;
	set_start(&h, MAX(h.start_monotonic_ns, c->window.from_ns));
	return h;
}

uint32_t segment_cut_gap(const struct segment *before, const struct segment *s,
			 const struct cut_window *window)
{
	uint32_t expected = before ? before->header.number + 1 : 0;

	if (s->header.number <= expected || s->header.start_monotonic_ns <= window->from_ns ||
	    (before && before->header.start_monotonic_ns > window->until_ns + LATE_NS))
		return 0;
	return s->header.number - expected;
}

int segment_cut_write(struct segment_cut *c, const struct segment *s, int folder, const char *name,
		      uint32_t number, bool always)
{
	struct segment_header header = header_of(c, s, number);
	struct cut_file f;
	uint64_t rows = 0;
	int rc = get_ready(c);

	if (rc >= 0)
		rc = file_open(&f, folder, name, &header);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->block_count && rc >= 0; i++) {
		const struct table_schema *table = schema_table(s->blocks[i].header.table);

		if (!table || !s->blocks[i].header.rows || !is_wanted(c, s, &s->blocks[i], table))
			continue;
		rc = write_block(c, s, i, &f);
		if (rc == E_FORMAT || rc == -ESRCH) {
			c->counts.damaged++;
			rc = 0;
		}
		rows += rc > 0 && table->repeated == REPEAT_NEVER;
	}
	always |= rows > 0;
	if (rc >= 0 && always)
		rc = put_end(&f);
	rc = file_close(&f, rc, folder, name);
	if (rc >= 0 && !always)
		unlinkat(folder, name, 0);
	return rc < 0 ? rc : always;
}

struct segment_cut *segment_cut_new(const struct cut_window *window)
{
	struct segment_cut *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->window = *window;
	c->decoder = decoder_new();
	if (c->decoder && block_builder_init(&c->builder, BLOCK_ROWS_MAX, 1) == 0)
		return c;
	segment_cut_free(c);
	return NULL;
}

struct cut_counts segment_cut_counts(const struct segment_cut *c)
{
	return c->counts;
}

void segment_cut_free(struct segment_cut *c)
{
	if (!c)
		return;
	decoder_free(c->decoder);
	block_builder_release(&c->builder);
	map_release(&c->work);
	map_release(&c->live_at);
	map_release(&c->live_rows);
	vec_release(&c->live);
	vec_release(&c->live_times);
	free(c);
}
