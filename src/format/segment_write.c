#include "format/segment_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/io.h"
#include "format/block_build.h"
#include "format/segment_request.h"

#define FILE_NUMBERS_MAX 1000000u

/* Opens the file after the target has taken its descriptor. */
static int open_again(struct segment_file *f)
{
	_cleanup_close_ int folder = folder_open_known(f->directory, &f->folder);
	struct own_fd again;
	int fd = folder_open_file(folder, f->name, O_WRONLY, FOLDER_ANY), rc;

	rc = fd < 0 ? fd : own_fd_set(&again, fd);
	if (rc < 0)
		return rc;
	if (again.device != f->own.device || again.inode != f->own.inode) {
		own_fd_close(&again);
		return -EBADF;
	}
	f->own = again;
	return 0;
}

static size_t write_at(struct segment_file *f, const void *bytes, size_t length, uint64_t offset,
		       int *error)
{
	size_t room = io_allowed(offset, length), done = 0;

	if (!own_fd_valid(&f->own) && open_again(f) < 0) {
		*error = EBADF;
		return 0;
	}
	while (done < room) {
		ssize_t n = pwrite(f->own.fd, (const uint8_t *)bytes + done, room - done,
				   (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			*error = n < 0 ? errno : EIO;
			return done;
		}
		done += (size_t)n;
	}
	if (done < length)
		*error = EFBIG;
	return done;
}

/* Creates the file with the first free number from *number on. */
static int create_numbered(struct segment_file *f, int folder, const char *prefix, uint32_t *number)
{
	int fd = folder < 0 ? folder : -EEXIST;

	for (; fd == -EEXIST && *number < FILE_NUMBERS_MAX; ++*number) {
		snprintf(f->name, sizeof(f->name), "%s.%u" SEGMENT_SUFFIX, prefix, *number);
		fd = folder_create_file(folder, f->name);
	}
	if (fd < 0)
		return fd;
	--*number;
	fchmod(fd, 0600); /* regardless of the program's umask */
	return fd;
}

/*
 * In the folder of another user, the launcher creates the file, so that it belongs to whoever
 * records.
 */
static int create_file(struct segment_file *f, const struct segment_identity *id,
		       uint32_t *file_number)
{
	_cleanup_close_ int folder = folder_open_known(id->directory, &id->folder);
	bool ask_first = id->launcher && folder >= 0 && !folder_is_own(folder);
	uint32_t number = *file_number;
	int fd = ask_first ? -EACCES : create_numbered(f, folder, id->prefix, &number), asked = -1;

	f->directory = id->directory;
	f->folder = id->folder;
	if (fd < 0 && id->launcher) {
		number = *file_number;
		asked = segment_request(id->launcher, id->pid, fd, &number);
	}
	if (asked >= 0) {
		snprintf(f->name, sizeof(f->name), "%s.%u" SEGMENT_SUFFIX, id->prefix, number);
		fd = asked;
	} else if (ask_first) {
		fd = create_numbered(f, folder, id->prefix, &number);
	}
	if (fd < 0)
		return fd;
	*file_number = number + 1;
	return own_fd_set(&f->own, fd);
}

static void put_header(uint8_t *to, const struct segment_identity *id)
{
	struct segment_header h = { .version = SEGMENT_VERSION,
				    .header_bytes = sizeof(h),
				    .session = id->session,
				    .pid = id->pid,
				    .number = id->number };

	memcpy(h.magic, SEGMENT_MAGIC, sizeof(h.magic));
	h.start_monotonic_ns = clock_monotonic_ns();
	h.start_realtime_ns = clock_read_ns(CLOCK_REALTIME);
	h.crc = crc32c(0, &h, offsetof(struct segment_header, crc));
	memcpy(to, &h, sizeof(h));
}

/* Writes a padding block of `length` bytes including its header. */
static void put_padding(uint8_t *to, size_t length)
{
	struct block_header h = { .magic = BLOCK_MAGIC,
				  .table = BLOCK_TABLE_PADDING,
				  .payload_bytes = (uint32_t)(length - sizeof(h)) };

	memset(to, 0, length);
	block_header_seal(&h, to + sizeof(h));
	memcpy(to, &h, sizeof(h));
}

static void remove_file(const char *directory, const struct folder_id *id, const char *name)
{
	_cleanup_close_ int folder = folder_open_known(directory, id);

	if (folder >= 0)
		unlinkat(folder, name, 0);
}

void segment_file_remove(const struct segment_identity *id, uint32_t number)
{
	char name[SEGMENT_NAME_MAX];

	snprintf(name, sizeof(name), "%s.%u" SEGMENT_SUFFIX, id->prefix, number);
	remove_file(id->directory, &id->folder, name);
}

int segment_file_create(struct segment_file *f, const struct segment_identity *id,
			uint32_t *file_number, struct error *e)
{
	uint8_t head[SEGMENT_START_BYTES];
	int rc = create_file(f, id, file_number), error = 0;

	f->end = f->block_count = 0;
	f->reserve_used = false;
	if (rc == 0) {
		put_header(head, id);
		put_padding(head + sizeof(struct segment_header), RESERVE_BYTES);
		if (write_at(f, head, sizeof(head), 0, &error) == sizeof(head)) {
			f->end = sizeof(head);
			return 0;
		}
		rc = -error;
		remove_file(f->directory, &f->folder, f->name);
		if (id->launcher)
			segment_report_lost(id->launcher, id->pid, rc);
	}
	error_set(e, rc, "cannot create segment '%s/%s': %s", id->directory, f->name,
		  error_code_text(rc));
	segment_file_release(f);
	return rc;
}

size_t segment_file_write(struct segment_file *f, const void *bytes, size_t length, int *error)
{
	return write_at(f, bytes, length, f->end, error);
}

void segment_file_accept(struct segment_file *f, size_t good, size_t written)
{
	f->end += good;
	if (written > good && own_fd_valid(&f->own) && ftruncate(f->own.fd, (off_t)f->end) < 0)
		return; /* readers skip an incomplete block at the end */
}

static struct index_entry index_entry(const struct block_header *h, uint64_t offset)
{
	return (struct index_entry){
		.offset = offset,
		.payload_bytes = h->payload_bytes,
		.payload_crc = h->payload_crc,
		.table = h->table,
		.columns = h->columns,
		.rows = h->rows,
		.start_ns = h->start_ns,
		.end_ns = h->end_ns,
		.number = h->number,
	};
}

void segment_file_index(struct segment_file *f, const struct block_header *header, uint64_t offset)
{
	if (f->block_count < INDEX_BLOCKS_MAX)
		f->index[f->block_count] = index_entry(header, offset);
	f->block_count++;
}

int segment_file_write_reserve(struct segment_file *f, const void *block, size_t length)
{
	uint8_t reserve[RESERVE_BYTES];
	struct block_header header;
	int error = 0;

	if (length + sizeof(struct block_header) > sizeof(reserve))
		return -E2BIG;
	memcpy(reserve, block, length);
	put_padding(reserve + length, sizeof(reserve) - length);
	if (write_at(f, reserve, sizeof(reserve), sizeof(struct segment_header), &error) <
	    sizeof(reserve))
		return -error;
	memcpy(&header, block, sizeof(header));
	f->reserve_entry = index_entry(&header, sizeof(struct segment_header));
	f->reserve_used = true;
	return 0;
}

/* Appends the index block and the trailer to buffer, which has room for them. */
static void put_index(const struct segment_file *f, struct strbuf *buffer)
{
	struct block_header h = { .magic = BLOCK_MAGIC, .table = BLOCK_TABLE_INDEX };
	struct segment_trailer t = { .index_offset = f->end };
	size_t start = buffer->length;

	h.rows = (uint32_t)(f->block_count + f->reserve_used);
	h.payload_bytes = (uint32_t)(h.rows * sizeof(struct index_entry));
	h.number = f->block_count;
	buffer->length += sizeof(h);
	if (f->reserve_used)
		strbuf_add(buffer, &f->reserve_entry, sizeof(f->reserve_entry));
	strbuf_add(buffer, f->index, f->block_count * sizeof(struct index_entry));
	block_header_seal(&h, buffer->data + start + sizeof(h));
	memcpy(buffer->data + start, &h, sizeof(h));
	memcpy(t.magic, TRAILER_MAGIC, sizeof(t.magic));
	t.crc = crc32c(crc32c(0, t.magic, sizeof(t.magic)), &t,
		       offsetof(struct segment_trailer, crc));
	strbuf_add(buffer, &t, sizeof(t));
}

size_t segment_file_end_bytes(size_t blocks)
{
	return sizeof(struct block_header) + (blocks + 1) * sizeof(struct index_entry) +
	       sizeof(struct segment_trailer);
}

int segment_file_finish(struct segment_file *f, struct strbuf *buffer)
{
	size_t written;
	int error = 0;

	strbuf_clear(buffer);
	if (f->block_count > INDEX_BLOCKS_MAX) {
		segment_file_release(f);
		return 0;
	}
	if (!strbuf_reserve(buffer, segment_file_end_bytes(f->block_count))) {
		buffer->failed = false;
		segment_file_release(f);
		return -ENOMEM;
	}
	put_index(f, buffer);
	written = segment_file_write(f, buffer->data, buffer->length, &error);
	segment_file_accept(f, written == buffer->length ? written : 0, written);
	strbuf_clear(buffer);
	segment_file_release(f);
	return -error;
}

bool segment_file_own_table(struct segment_file *f)
{
	if (!helper_thread_own_descriptors(f->own.fd))
		return false;
	if (!own_fd_valid(&f->own))
		close(f->own.fd); /* the target's; the next write opens the file again */
	return true;
}

void segment_file_release(struct segment_file *f)
{
	own_fd_close(&f->own);
}
