/*
 * segment_read.c: opens segments and lists their blocks.
 *
 * Files are read, never mapped: whoever truncates a mapped file, also by copying another one over
 * it, would end this process. What is no longer there is damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/io.h"
#include "base/vec.h"
#include "format/reader.h"

/*
 * Files that stay open, in the whole process, at most a quarter of those that it may have: a
 * recording that is removed can still be read. The others are opened for each read.
 */
#define FILES_OPEN_MAX 128
#define VIEW_BYTES 4096 /* at least read at once */
#define SEARCH_BYTES ((size_t)64 << 10)

static atomic_int files_open;

/* Opens the segment's file, unless it stays open. Returns -1 also when another one is there. */
static int open_again(const struct segment *s)
{
	int fd = s->fd;
	struct stat st;

	if (s->stays_open)
		return fd;
	fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == s->device &&
	    st.st_ino == s->inode)
		return fd;
	fd_close(&fd);
	return -1;
}

static void close_again(const struct segment *s, int fd)
{
	if (fd >= 0 && !s->stays_open)
		close(fd);
}

bool segment_read(const struct segment *s, uint64_t offset, void *to, size_t size)
{
	size_t done;
	int fd;

	if (offset > s->size || size > s->size - offset)
		return false;
	if (s->bytes) {
		memcpy(to, s->bytes + offset, size);
		return true;
	}
	fd = open_again(s);
	done = fd < 0 ? 0 : io_read_at(fd, offset, to, size);
	close_again(s, fd);
	return done == size;
}

/* A part of a segment's file in memory, which moves. */
struct view {
	const struct segment *s;
	int fd;
	uint8_t *buffer;
	size_t room;
	uint64_t start;
	size_t length; /* bytes in the buffer, from `start` */
	bool no_memory; /* there was none, so bytes seemed to be missing */
};

static void view_open(struct view *v, const struct segment *s)
{
	*v = (struct view){ .s = s, .fd = s->bytes ? -1 : open_again(s) };
}

/* Returns r, or -ENOMEM when that is why something was not found. */
static int view_close(struct view *v, int r)
{
	close_again(v->s, v->fd);
	free(v->buffer);
	return v->no_memory ? -ENOMEM : r;
}

/* Returns these bytes of the segment until the next call; NULL: they cannot be read. */
static const uint8_t *view_at(struct view *v, uint64_t offset, size_t size)
{
	size_t wanted = MAX(size, VIEW_BYTES);

	if (offset > v->s->size || size > v->s->size - offset)
		return NULL;
	if (v->s->bytes)
		return v->s->bytes + offset;
	if (offset < v->start || offset - v->start > v->length ||
	    size > v->length - (size_t)(offset - v->start)) {
		if (wanted > v->room) {
			free(v->buffer);
			v->buffer = malloc(wanted);
			v->room = v->buffer ? wanted : 0;
			v->no_memory |= !v->buffer;
		}
		v->start = offset;
		v->length =
			v->fd < 0 || !v->buffer ? 0 : io_read_at(v->fd, offset, v->buffer, wanted);
		if (v->length < size)
			return NULL;
	}
	return v->buffer + (offset - v->start);
}

static bool is_within_limits(const struct block_header *h)
{
	return h->rows <= BLOCK_ROWS_MAX && h->payload_bytes <= BLOCK_BYTES_MAX;
}

static bool header_is_good(const struct block_header *h)
{
	struct block_header copy = *h;

	copy.header_crc = 0;
	return h->magic == BLOCK_MAGIC && crc32c(0, &copy, sizeof(copy)) == h->header_crc &&
	       is_within_limits(h);
}

/* Whether a complete block begins at `offset` (<= size). */
static bool read_header(struct view *v, uint64_t offset, struct block_header *h)
{
	const uint8_t *bytes = view_at(v, offset, sizeof(*h));

	if (!bytes)
		return false;
	memcpy(h, bytes, sizeof(*h));
	return header_is_good(h) && h->payload_bytes <= v->s->size - offset - sizeof(*h);
}

static bool trailer_is_good(struct view *v, struct segment_trailer *t)
{
	const uint8_t *bytes = v->s->size < v->s->header.header_bytes + sizeof(*t)
				       ? NULL
				       : view_at(v, v->s->size - sizeof(*t), sizeof(*t));

	if (!bytes)
		return false;
	memcpy(t, bytes, sizeof(*t));
	return memcmp(t->magic, TRAILER_MAGIC, sizeof(t->magic)) == 0 &&
	       crc32c(crc32c(0, t->magic, sizeof(t->magic)), t,
		      offsetof(struct segment_trailer, crc)) == t->crc;
}

static int add_block(struct segment *s, size_t *capacity, uint64_t offset,
		     const struct block_header *h)
{
	if (!s->lists_all && (h->table == BLOCK_TABLE_PADDING || h->table == BLOCK_TABLE_INDEX))
		return 0;
	if (vec_grow((void **)&s->blocks, capacity, s->block_count + 1, sizeof(*s->blocks)) < 0)
		return -ENOMEM;
	s->blocks[s->block_count++] = (struct block_ref){ offset, *h };
	return 0;
}

/*
 * Returns the entries of the index, until the view moves, if the file ends with a trailer and a
 * complete index; else NULL. *index is the index block's header.
 */
static const uint8_t *find_index(struct view *v, struct segment_trailer *t,
				 struct block_header *index)
{
	const struct segment *s = v->s;
	const uint8_t *entries;

	if (!trailer_is_good(v, t) || t->index_offset < s->header.header_bytes ||
	    t->index_offset > s->size - sizeof(*t) || !read_header(v, t->index_offset, index) ||
	    index->table != BLOCK_TABLE_INDEX ||
	    index->payload_bytes != index->rows * sizeof(struct index_entry) ||
	    t->index_offset + sizeof(*index) + index->payload_bytes + sizeof(*t) != s->size)
		return NULL;
	entries = view_at(v, t->index_offset + sizeof(*index), index->payload_bytes);
	return entries && crc32c(0, entries, index->payload_bytes) == index->payload_crc ? entries
											 : NULL;
}

/* Returns the header that an index entry describes; header_crc is 0. */
static struct block_header header_of(const struct index_entry *e)
{
	return (struct block_header){
		.magic = BLOCK_MAGIC,
		.payload_bytes = e->payload_bytes,
		.payload_crc = e->payload_crc,
		.table = e->table,
		.columns = e->columns,
		.rows = e->rows,
		.start_ns = e->start_ns,
		.end_ns = e->end_ns,
		.number = e->number,
	};
}

/*
 * Reads the blocks from the index. Returns 1; 0 and changes nothing when there is no valid index;
 * or -ENOMEM.
 */
static int read_index(struct segment *s, struct view *v)
{
	uint64_t end = s->header.header_bytes;
	struct segment_trailer t;
	struct block_header index;
	const uint8_t *entries = find_index(v, &t, &index);
	size_t capacity = 0;

	if (!entries)
		return 0;
	for (uint32_t i = 0; i < index.rows; i++) {
		struct index_entry entry;
		struct block_header block;

		memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
		block = header_of(&entry);
		if (!is_within_limits(&block) || entry.offset < end ||
		    entry.offset > t.index_offset - sizeof(block) ||
		    block.payload_bytes > t.index_offset - sizeof(block) - entry.offset) {
			s->block_count = 0;
			return 0;
		}
		end = entry.offset + sizeof(block) + block.payload_bytes;
		if (add_block(s, &capacity, entry.offset, &block) < 0)
			return -ENOMEM;
	}
	s->closed = true;
	s->parsed_bytes = s->size;
	return 1;
}

/* Returns where data begins at or after `from`: in a hole of the file there is no header. */
static uint64_t skip_hole(const struct view *v, uint64_t from)
{
	off_t data = v->fd < 0 ? (off_t)from : lseek(v->fd, (off_t)from, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? v->s->size : from;
	return (uint64_t)data;
}

/*
 * Searches [from, from + length), which holds at least a header, for a valid one. Returns its
 * offset, or sets *next to where the search continues and returns 0.
 */
static uint64_t search_header(struct view *v, uint64_t from, size_t length, uint64_t *next)
{
	static const uint8_t magic[4] = { 'P', 'B', 'L', 'K' };
	const uint8_t *bytes = view_at(v, from, length), *p;
	struct block_header h;
	size_t at = 0;

	*next = bytes ? from + length - (sizeof(magic) - 1) : v->s->size;
	while (bytes && (p = memmem(bytes + at, length - at, magic, sizeof(magic)))) {
		at = (size_t)(p - bytes);
		if (length - at < sizeof(h)) {
			*next = from + at;
			break;
		}
		if (read_header(v, from + at, &h))
			return from + at;
		at++;
	}
	return 0;
}

/* Returns the offset of the next valid block header after `from`, or the end of the file. */
static uint64_t find_header(struct view *v, uint64_t from)
{
	const uint64_t size = v->s->size;

	while ((from = skip_hole(v, from)) < size && size - from >= sizeof(struct block_header)) {
		uint64_t found = search_header(v, from, MIN(SEARCH_BYTES, size - from), &from);

		if (found)
			return found;
	}
	return size;
}

/* Whether the bytes after the last valid block begin with the header of another one. */
static bool next_header(const struct segment *s, struct view *v, struct block_header *h)
{
	const uint8_t *bytes = s->size - s->parsed_bytes < sizeof(*h)
				       ? NULL
				       : view_at(v, s->parsed_bytes, sizeof(*h));

	if (bytes)
		memcpy(h, bytes, sizeof(*h));
	return bytes && header_is_good(h);
}

/* Called when nothing valid follows `at`: the file is closed here, or ends inside a block. */
static void end_walk(struct segment *s, struct view *v, uint64_t at)
{
	struct segment_trailer t;
	struct block_header index, h;

	s->parsed_bytes = at;
	s->missing_bytes = 0;
	if (trailer_is_good(v, &t) && at <= s->size - sizeof(t)) {
		s->damaged_blocks += at < s->size - sizeof(t);
		s->skipped_bytes += s->size - sizeof(t) - at;
		s->closed = find_index(v, &t, &index) != NULL;
		s->parsed_bytes = s->size;
	} else if (at < s->size) {
		s->skipped_bytes += s->size - at;
		s->truncated = true;
		if (next_header(s, v, &h) && sizeof(h) + h.payload_bytes > s->size - at)
			s->missing_bytes = sizeof(h) + h.payload_bytes - (s->size - at);
	}
}

/*
 * Walks over the blocks from parsed_bytes on. An incomplete block at the end is left for the next
 * call, because it may be being written.
 */
static int walk_blocks(struct segment *s, struct view *v)
{
	size_t capacity = s->block_count;
	uint64_t at = s->parsed_bytes, next;
	struct block_header h;

	for (;;) {
		if (at < s->size && read_header(v, at, &h)) {
			if (add_block(s, &capacity, at, &h) < 0)
				return -ENOMEM;
			at += sizeof(h) + h.payload_bytes;
			continue;
		}
		next = at < s->size ? find_header(v, at + 1) : s->size;
		if (next == s->size) {
			end_walk(s, v, at);
			return 0;
		}
		s->damaged_blocks++;
		s->skipped_bytes += next - at;
		at = next;
	}
}

/* Whether the bytes after the last valid block are the beginning of a block or trailer. */
static bool is_cut_off(const struct segment *s, struct view *v)
{
	size_t left = s->size - (size_t)s->parsed_bytes;
	struct block_header h;

	if (s->block_count && s->blocks[s->block_count - 1].header.table == BLOCK_TABLE_INDEX)
		return left < sizeof(struct segment_trailer);
	return left < sizeof(h) || next_header(s, v, &h);
}

int segment_walk(const struct segment *s, struct segment *all, struct error *e)
{
	struct view view;
	int rc;

	*all = (struct segment){ .header = s->header,
				 .size = s->size,
				 .parsed_bytes = s->header.header_bytes,
				 .lists_all = true };
	view_open(&view, s);
	rc = walk_blocks(all, &view);
	if (rc == 0)
		all->damaged_blocks += all->truncated && !is_cut_off(all, &view);
	rc = view_close(&view, rc);
	if (rc == 0)
		return 0;
	segment_release(all);
	return error_set(e, -ENOMEM, "no memory for the list of blocks");
}

static int check_segment_header(struct segment *s, struct view *v, struct error *e)
{
	const struct segment_header *h = &s->header;
	const uint8_t *bytes = view_at(v, 0, sizeof(*h));

	if (!bytes || memcmp(bytes, SEGMENT_MAGIC, 8) != 0)
		return error_set(e, E_FORMAT, "not a segment of a recording");
	memcpy(&s->header, bytes, sizeof(*h));
	if (h->version > SEGMENT_VERSION)
		return error_set(
			e, E_VERSION,
			"written in version %u of the format, this program reads up to %u; "
			"use a newer pitot",
			h->version, SEGMENT_VERSION);
	if (crc32c(0, h, offsetof(struct segment_header, crc)) != h->crc ||
	    h->header_bytes < sizeof(*h) || h->header_bytes > s->size)
		return error_set(e, E_FORMAT, "damaged segment header");
	return 0;
}

/* Lists the blocks of a file or bytes that were opened; on failure, none are allocated. */
static int list_blocks(struct segment *s, struct error *e)
{
	struct view view;
	int rc;

	view_open(&view, s);
	rc = check_segment_header(s, &view, e);
	if (rc == 0) {
		s->parsed_bytes = s->header.header_bytes;
		rc = read_index(s, &view);
		if (rc == 0)
			rc = walk_blocks(s, &view);
	}
	rc = view_close(&view, rc);
	if (rc >= 0)
		return 0;
	free(s->blocks);
	s->blocks = NULL;
	return rc == -ENOMEM ? error_set(e, rc, "no memory for the list of blocks") : rc;
}

int segment_open_bytes(const void *bytes, size_t size, struct segment *s, struct error *e)
{
	*s = (struct segment){ .bytes = bytes, .size = size };
	return list_blocks(s, e);
}

/* Opens the file. It stays open unless many do, because recordings can have thousands. */
static int open_file(struct segment *s, struct error *e)
{
	struct stat st;

	s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (s->fd < 0)
		return error_errno(e, errno, "cannot open");
	s->stays_open = true;
	atomic_fetch_add(&files_open, 1);
	if (fstat(s->fd, &st) < 0)
		return error_errno(e, errno, "cannot read segment");
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return error_set(e, E_FORMAT, "not a segment of a recording");
	s->size = (size_t)st.st_size;
	s->device = st.st_dev;
	s->inode = st.st_ino;
	return 0;
}

static void close_file(struct segment *s)
{
	if (!s->stays_open)
		return;
	close(s->fd);
	atomic_fetch_sub(&files_open, 1);
	s->stays_open = false;
}

static bool too_many_are_open(void)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	getrlimit(RLIMIT_NOFILE, &limit);
	return (rlim_t)atomic_load(&files_open) > MIN(limit.rlim_cur / 4, FILES_OPEN_MAX);
}

int segment_open(const char *path, struct segment *s, struct error *e)
{
	int rc;

	*s = (struct segment){ .path = strdup(path) };
	rc = s->path ? open_file(s, e) : error_set(e, -ENOMEM, "out of memory");
	if (rc == 0)
		rc = list_blocks(s, e);
	if (rc < 0) {
		error_prefix(e, "segment '%s'", path);
		segment_release(s);
		return rc;
	}
	if (too_many_are_open())
		close_file(s);
	return 0;
}

void segment_release(struct segment *s)
{
	close_file(s);
	free(s->path);
	free(s->blocks);
	*s = (struct segment){ 0 };
}

/*
 * Reads the block after the header again. It can become a loss block and change; no other bytes are
 * ever rewritten.
 */
static int refresh_reserve(struct segment *s, struct view *v)
{
	uint64_t offset = s->header.header_bytes;
	size_t capacity = s->block_count;
	struct block_header h;

	if (!read_header(v, offset, &h) || h.table == BLOCK_TABLE_PADDING)
		return 0;
	for (size_t i = 0; i < s->block_count; i++) {
		if (s->blocks[i].offset == offset) {
			s->blocks[i].header = h;
			return 0;
		}
	}
	return add_block(s, &capacity, offset, &h);
}

/* Takes the file's new size. Returns whether there is something to read. */
static bool has_grown(struct segment *s, const struct view *v)
{
	struct stat st;

	if (v->fd < 0 || fstat(v->fd, &st) < 0)
		return false;
	if ((uint64_t)MAX(st.st_size, 0) <= s->size)
		return false;
	s->size = (size_t)st.st_size;
	return true;
}

int segment_refresh(struct segment *s, struct error *e)
{
	size_t before = s->block_count, old_size = s->size;
	struct view view;
	bool grown;
	int rc;

	if (s->closed || !s->path)
		return 0;
	view_open(&view, s);
	grown = has_grown(s, &view);
	rc = refresh_reserve(s, &view);
	if (rc == 0 && grown) {
		if (s->truncated)
			s->skipped_bytes -= old_size - s->parsed_bytes;
		s->truncated = false;
		rc = walk_blocks(s, &view);
	}
	rc = view_close(&view, rc);
	if (rc < 0)
		return error_set(e, rc, "no memory for the list of blocks");
	return (int)(s->block_count - before);
}
