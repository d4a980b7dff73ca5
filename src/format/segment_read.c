#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/io.h"
#include "base/vec.h"
#include "format/reader.h"

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
static bool read_header(const struct segment *s, uint64_t offset, struct block_header *h)
{
	size_t left = s->size - (size_t)offset;

	if (left < sizeof(*h))
		return false;
	memcpy(h, s->bytes + offset, sizeof(*h));
	return header_is_good(h) && h->payload_bytes <= left - sizeof(*h);
}

static bool trailer_is_good(const struct segment *s, struct segment_trailer *t)
{
	if (s->size < s->header.header_bytes + sizeof(*t))
		return false;
	memcpy(t, s->bytes + s->size - sizeof(*t), sizeof(*t));
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

/* Whether the file ends with a trailer and a complete index; *index is the index block's header. */
static bool index_is_good(const struct segment *s, struct segment_trailer *t,
			  struct block_header *index)
{
	const uint8_t *entries;

	if (!trailer_is_good(s, t) || t->index_offset < s->header.header_bytes ||
	    t->index_offset > s->size - sizeof(*t) || !read_header(s, t->index_offset, index) ||
	    index->table != BLOCK_TABLE_INDEX ||
	    index->payload_bytes != index->rows * sizeof(struct index_entry) ||
	    t->index_offset + sizeof(*index) + index->payload_bytes + sizeof(*t) != s->size)
		return false;
	entries = s->bytes + t->index_offset + sizeof(*index);
	return crc32c(0, entries, index->payload_bytes) == index->payload_crc;
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
static int read_index(struct segment *s)
{
	uint64_t end = s->header.header_bytes;
	struct segment_trailer t;
	struct block_header index;
	size_t capacity = 0;

	if (!index_is_good(s, &t, &index))
		return 0;
	for (uint32_t i = 0; i < index.rows; i++) {
		struct index_entry entry;
		struct block_header block;

		memcpy(&entry, s->bytes + t.index_offset + sizeof(index) + i * sizeof(entry),
		       sizeof(entry));
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

/* Returns the offset of the next valid block header after `from`, or the end of the file. */
static uint64_t find_header(const struct segment *s, uint64_t from)
{
	static const uint8_t magic[4] = { 'P', 'B', 'L', 'K' };
	struct block_header h;

	while (from < s->size) {
		const uint8_t *p =
			memmem(s->bytes + from, s->size - (size_t)from, magic, sizeof(magic));

		if (!p)
			return s->size;
		from = (uint64_t)(p - s->bytes);
		if (read_header(s, from, &h))
			return from;
		from++;
	}
	return s->size;
}

/* Called when nothing valid follows `at`: the file is closed here, or ends inside a block. */
static void end_walk(struct segment *s, uint64_t at)
{
	struct segment_trailer t;
	struct block_header index;

	s->parsed_bytes = at;
	if (trailer_is_good(s, &t) && at <= s->size - sizeof(t)) {
		s->damaged_blocks += at < s->size - sizeof(t);
		s->skipped_bytes += s->size - sizeof(t) - at;
		s->closed = index_is_good(s, &t, &index);
		s->parsed_bytes = s->size;
	} else if (at < s->size) {
		s->skipped_bytes += s->size - at;
		s->truncated = true;
	}
}

/*
 * Walks over the blocks from parsed_bytes on. An incomplete block at the end is left for the next
 * call, because it may be being written.
 */
static int walk_blocks(struct segment *s)
{
	size_t capacity = s->block_count;
	uint64_t at = s->parsed_bytes, next;
	struct block_header h;

	for (;;) {
		if (at < s->size && read_header(s, at, &h)) {
			if (add_block(s, &capacity, at, &h) < 0)
				return -ENOMEM;
			at += sizeof(h) + h.payload_bytes;
			continue;
		}
		next = at < s->size ? find_header(s, at + 1) : s->size;
		if (next == s->size) {
			end_walk(s, at);
			return 0;
		}
		s->damaged_blocks++;
		s->skipped_bytes += next - at;
		at = next;
	}
}

/* Whether the bytes after the last valid block are the beginning of a block or trailer. */
static bool is_cut_off(const struct segment *s)
{
	size_t left = s->size - (size_t)s->parsed_bytes;
	struct block_header h;

	if (s->block_count && s->blocks[s->block_count - 1].header.table == BLOCK_TABLE_INDEX)
		return left < sizeof(struct segment_trailer);
	if (left < sizeof(h))
		return true;
	memcpy(&h, s->bytes + s->parsed_bytes, sizeof(h));
	return header_is_good(&h);
}

int segment_walk(const struct segment *s, struct segment *all, struct error *e)
{
	*all = (struct segment){ .bytes = s->bytes,
				 .size = s->size,
				 .header = s->header,
				 .parsed_bytes = s->header.header_bytes,
				 .lists_all = true };
	if (walk_blocks(all) < 0) {
		segment_release(all);
		return error_set(e, -ENOMEM, "no memory for the list of blocks");
	}
	all->damaged_blocks += all->truncated && !is_cut_off(all);
	return 0;
}

static int check_segment_header(struct segment *s, struct error *e)
{
	const struct segment_header *h = &s->header;

	if (s->size < sizeof(*h) || memcmp(s->bytes, SEGMENT_MAGIC, 8) != 0)
		return error_set(e, E_FORMAT, "not a segment of a recording");
	memcpy(&s->header, s->bytes, sizeof(*h));
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

int segment_open_bytes(const void *bytes, size_t size, struct segment *s, struct error *e)
{
	int r;

	*s = (struct segment){ .bytes = bytes, .size = size };
	r = check_segment_header(s, e);
	if (r < 0)
		return r;
	s->parsed_bytes = s->header.header_bytes;
	r = read_index(s);
	if (r == 0)
		r = walk_blocks(s);
	if (r < 0) {
		free(s->blocks);
		s->blocks = NULL;
		return error_set(e, r, "no memory for the list of blocks");
	}
	return 0;
}

/* Maps the file with its current size. */
static int map_file(struct segment *s, int fd, struct error *e)
{
	struct stat st;
	void *bytes;

	if (fstat(fd, &st) < 0)
		return error_errno(e, errno, "cannot read segment");
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return error_set(e, E_FORMAT, "not a segment of a recording");
	if (s->bytes &&
	    (st.st_dev != s->device || st.st_ino != s->inode || (uint64_t)st.st_size <= s->size))
		return 0;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return error_errno(e, errno, "cannot map segment");
	if (s->bytes)
		munmap((void *)(uintptr_t)s->bytes, s->size);
	s->bytes = bytes;
	s->size = (size_t)st.st_size;
	s->device = st.st_dev;
	s->inode = st.st_ino;
	return 0;
}

/* Maps the file at a path and closes it, because recordings can have thousands of segments. */
static int map_path(struct segment *s, const char *path, struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? error_errno(e, errno, "cannot open") : map_file(s, fd, e);
}

int segment_open(const char *path, struct segment *s, struct error *e)
{
	struct segment mapped = { .path = strdup(path) };
	int r;

	*s = (struct segment){ 0 };
	r = mapped.path ? map_path(&mapped, path, e) : error_set(e, -ENOMEM, "out of memory");
	if (r == 0)
		r = segment_open_bytes(mapped.bytes, mapped.size, s, e);
	if (r < 0) {
		error_prefix(e, "segment '%s'", path);
		segment_release(&mapped);
		return r;
	}
	s->path = mapped.path;
	s->device = mapped.device;
	s->inode = mapped.inode;
	return 0;
}

void segment_release(struct segment *s)
{
	if (s->path && s->bytes)
		munmap((void *)(uintptr_t)s->bytes, s->size);
	free(s->path);
	free(s->blocks);
	*s = (struct segment){ 0 };
}

void segment_drop_pages(const struct segment *s)
{
	if (s->path && s->bytes)
		madvise((void *)(uintptr_t)s->bytes, s->size, MADV_DONTNEED);
}

/*
 * Reads the block after the header again. It can become a loss block and change; no other bytes are
 * ever rewritten.
 */
static int refresh_reserve(struct segment *s)
{
	uint64_t offset = s->header.header_bytes;
	size_t capacity = s->block_count;
	struct block_header h;

	if (!read_header(s, offset, &h) || h.table == BLOCK_TABLE_PADDING)
		return 0;
	for (size_t i = 0; i < s->block_count; i++) {
		if (s->blocks[i].offset == offset) {
			s->blocks[i].header = h;
			return 0;
		}
	}
	return add_block(s, &capacity, offset, &h);
}

int segment_refresh(struct segment *s, struct error *e)
{
	size_t before = s->block_count, old_size = s->size;
	int r;

	if (s->closed || !s->path)
		return 0;
	r = map_path(s, s->path, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = refresh_reserve(s);
	if (r == 0 && s->size > old_size) {
		if (s->truncated)
			s->skipped_bytes -= old_size - s->parsed_bytes;
		s->truncated = false;
		r = walk_blocks(s);
	}
	if (r < 0)
		return error_set(e, r, "no memory for the list of blocks");
	return (int)(s->block_count - before);
}
