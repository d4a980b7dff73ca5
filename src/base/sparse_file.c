#include "base/sparse_file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reserve.h"

#define PAGE UINT64_C(4096)
#define CHUNK_SHIFT 14
#define SIZE_BYTES_MAX ((uint64_t)1 << 40) /* of address space, not of memory */

int sparse_file_open(struct sparse_file *f, int fd, uint64_t size)
{
	*f = (struct sparse_file){ .size = size, .fd = fd };
	if (size <= SIZE_BYTES_MAX) {
		f->kept_end = (size + PAGE - 1) & ~(PAGE - 1);
		f->chunks = calloc((size >> CHUNK_SHIFT) / 64 + 1, sizeof(*f->chunks));
		f->bytes = reserve_memory(f->kept_end);
	}
	if (f->chunks && f->bytes)
		return 0;
	sparse_file_close(f);
	return -ENOMEM;
}

void sparse_file_detach(struct sparse_file *f)
{
	fd_close(&f->fd);
}

void sparse_file_close(struct sparse_file *f)
{
	if (f->bytes && f->kept_end > f->kept)
		munmap(f->bytes + f->kept, f->kept_end - f->kept);
	free(f->chunks);
	sparse_file_detach(f);
	*f = (struct sparse_file){ .fd = -1 };
}

static bool has_chunk(const struct sparse_file *f, uint64_t chunk)
{
	return f->chunks[chunk / 64] >> (chunk % 64) & 1;
}

/*
 * Returns where data begins at or after `offset`: `end` when a hole of the file reaches that far.
 * Holes take no memory.
 */
static uint64_t skip_hole(const struct sparse_file *f, uint64_t offset, uint64_t end)
{
	off_t data = lseek(f->fd, (off_t)offset, SEEK_DATA);
	struct stat st;

	if (data >= 0)
		return MIN(MAX((uint64_t)data, offset), end);
	/* without data until its end, which may be nearer than it was */
	if (errno == ENXIO && fstat(f->fd, &st) == 0 && (uint64_t)st.st_size >= end)
		return end;
	return offset;
}

/* Reads [offset, end), which is whole chunks or ends at the end of the file. */
static bool read_bytes(struct sparse_file *f, uint64_t offset, uint64_t end)
{
	while ((offset = skip_hole(f, offset, end)) < end) {
		ssize_t n = pread(f->fd, f->bytes + offset, end - offset, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		offset += (uint64_t)n;
		f->read_bytes += (uint64_t)n;
	}
	return true;
}

bool sparse_file_load(struct sparse_file *f, uint64_t offset, uint64_t size)
{
	uint64_t end, last;

	if (offset > f->size || size > f->size - offset)
		return false;
	if (!size)
		return true;
	end = offset + size;
	if (offset < f->kept || end > f->kept_end)
		return false;
	last = (end - 1) >> CHUNK_SHIFT;
	for (uint64_t chunk = offset >> CHUNK_SHIFT, after; chunk <= last; chunk = after) {
		uint64_t start = MAX(chunk << CHUNK_SHIFT, f->kept);

		after = chunk + 1;
		if (has_chunk(f, chunk))
			continue;
		while (after <= last && !has_chunk(f, after))
			after++;
		if (f->fd < 0 ||
		    !read_bytes(f, start, MIN(MIN(after << CHUNK_SHIFT, f->size), f->kept_end)))
			return false;
		for (uint64_t i = chunk; i < after; i++)
			f->chunks[i / 64] |= UINT64_C(1) << (i % 64);
	}
	return true;
}

void sparse_file_trim(struct sparse_file *f, uint64_t offset, uint64_t size)
{
	uint64_t start = MAX(offset & ~(PAGE - 1), f->kept);
	uint64_t end = MIN((offset + size + PAGE - 1) & ~(PAGE - 1), f->kept_end);

	if (start >= end)
		return;
	if (start > f->kept)
		munmap(f->bytes + f->kept, start - f->kept);
	if (end < f->kept_end)
		munmap(f->bytes + end, f->kept_end - end);
	f->kept = start;
	f->kept_end = end;
}
