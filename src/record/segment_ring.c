#include "record/segment_ring.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/io.h"
#include "base/options.h"
#include "format/segment.h"
#include "base/folder.h"

#define SEGMENTS_MAX 4096u
#define COPY_BYTES ((size_t)1 << 20)

int segment_ring_parse(const char *text, uint64_t *bytes, uint64_t *age_ns)
{
	size_t length = strlen(text);
	bool is_time = length && strchr("smh", text[length - 1]);

	*bytes = RING_BYTES;
	*age_ns = 0;
	if (is_time ? parse_duration(text, age_ns) < 0 : parse_size(text, bytes) < 0)
		return -EINVAL;
	return (is_time ? *age_ns : *bytes / (64 << 10)) ? 0 : -EINVAL;
}

static uint64_t written_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

static bool is_same_process(const struct ring_segment *a, const struct ring_segment *b)
{
	return a->writer == b->writer && a->pid == b->pid;
}

/* Process ids in the names of files are what the process says. */
static bool is_same_writer(const struct ring_segment *a, const struct ring_segment *b)
{
	return a->writer == b->writer;
}

/* The segment ends where the next one of its process begins; the last one when it was written. */
static uint64_t end_of(const struct segment_ring *ring, size_t i)
{
	const struct ring_segment *segment = &ring->segments.data[i];
	uint64_t real_ns = clock_read_ns(CLOCK_REALTIME), now = clock_monotonic_ns(), age_ns;
	struct stat st = { 0 };

	for (size_t next = i + 1; next < ring->segments.count; next++)
		if (is_same_process(&ring->segments.data[next], segment))
			return ring->segments.data[next].begun_ns;
	(void)!fstat(segment->fd, &st);
	age_ns = real_ns - MIN(real_ns, written_ns(&st));
	return now - MIN(now, age_ns);
}

static void close_writer(struct ring_segment *segment)
{
	segment->is_ended = true;
	fd_close(&segment->process);
}

static void drop(struct segment_ring *ring, size_t i)
{
	ring->complete_ns = MAX(ring->complete_ns, end_of(ring, i));
	close_writer(&ring->segments.data[i]);
	close(ring->segments.data[i].fd);
	ring->segments.count--;
	memmove(&ring->segments.data[i], &ring->segments.data[i + 1],
		(ring->segments.count - i) * sizeof(ring->segments.data[0]));
	ring->dropped++;
}

/* Returns false if all segments are being written. */
static bool drop_oldest(struct segment_ring *ring)
{
	for (size_t i = 0; i < ring->segments.count; i++)
		if (ring->segments.data[i].is_ended) {
			drop(ring, i);
			return true;
		}
	return false;
}

/*
 * A process has ended its segment when it begins another one, whatever id it says: of those that it
 * may still be writing only the newest RING_PARTS_MAX are left.
 */
static void end_older(struct segment_ring *ring, const struct ring_segment *added)
{
	unsigned written = 0;

	for (size_t i = ring->segments.count - 1; i-- > 0;) {
		struct ring_segment *s = &ring->segments.data[i];

		if (s->is_ended || !is_same_writer(s, added))
			continue;
		if (is_same_process(s, added) || ++written >= RING_PARTS_MAX)
			close_writer(s);
	}
}

int segment_ring_add(struct segment_ring *ring, uint32_t pid, pid_t writer, uint32_t *number)
{
	struct ring_segment segment = {
		.pid = pid, .writer = writer, .process = -1, .begun_ns = clock_monotonic_ns()
	};
	uint64_t *next = map_at(&ring->numbers, pid, 0);
	struct ring_segment *added;
	int passed;

	segment_ring_trim(ring);
	if (!next)
		return -ENOMEM;
	if (ring->segments.count >= SEGMENTS_MAX && !drop_oldest(ring))
		return E_LIMIT;
	segment.fd = memfd_create("pitot segment", MFD_CLOEXEC);
	passed = segment.fd < 0 ? -1 : fcntl(segment.fd, F_DUPFD_CLOEXEC, 0);
	if (passed < 0 || vec_push(&ring->segments, segment) < 0) {
		int err = passed < 0 ? -errno : -ENOMEM;

		fd_close(&segment.fd);
		fd_close(&passed);
		return err;
	}
	*number = (uint32_t)MAX(*next, *number);
	*next = (uint64_t)*number + 1;
	end_older(ring, &segment);
	added = &ring->segments.data[ring->segments.count - 1];
	added->number = *number;
	added->process = (int)syscall(SYS_pidfd_open, writer, 0);
	added->is_ended = added->process < 0 && errno == ESRCH;
	return passed;
}

bool process_has_ended(int process)
{
	struct pollfd polled = { .fd = process, .events = POLLIN };

	return poll(&polled, 1, 0) > 0;
}

/* <linux/pidfd.h> of Linux 6.15. */
struct process_info {
	uint64_t mask, unused;
	uint32_t ids[11];
	int32_t status; /* as that of waitpid() */
};
#define PROCESS_INFO _IOWR(0xff, 11, struct process_info)
#define PROCESS_INFO_EXIT (UINT64_C(1) << 3)
_Static_assert(sizeof(struct process_info) == 64, "what the OS kernel expects");

int process_exit_status(int process)
{
	struct process_info info = { .mask = PROCESS_INFO_EXIT };

	if (ioctl(process, PROCESS_INFO, &info) < 0)
		return errno == ESRCH ? -EAGAIN : -ENOTSUP;
	if (!(info.mask & PROCESS_INFO_EXIT))
		return -EAGAIN;
	return WIFSIGNALED(info.status) ? 128 + WTERMSIG(info.status) : WEXITSTATUS(info.status);
}

/*
 * Small segments count for more than they have, so that a process cannot have more than
 * RING_PARTS_MAX, and leaves room for those of others.
 */
void segment_ring_trim(struct segment_ring *ring)
{
	uint64_t now = clock_read_ns(CLOCK_REALTIME);
	_cleanup_(map_release) struct map newer =
		MAP_INIT; /* writer -> bytes of its ended segments, the newest first */
	struct stat st;

	for (size_t i = ring->segments.count; i-- > 0;) {
		struct ring_segment *segment = &ring->segments.data[i];
		uint64_t *bytes;

		if (segment->process >= 0 && process_has_ended(segment->process))
			close_writer(segment);
		if (!segment->is_ended || fstat(segment->fd, &st) < 0)
			continue;
		bytes = map_at(&newer, (uint64_t)segment->writer, 0);
		if (bytes)
			*bytes += MAX((uint64_t)st.st_size, ring->bytes / RING_PARTS_MAX);
		if ((ring->age_ns && written_ns(&st) + ring->age_ns < now) ||
		    (bytes && *bytes > ring->bytes))
			drop(ring, i);
	}
}

int segment_copy(int from, int folder, const char *name, uint64_t bytes)
{
	_cleanup_close_ int to = folder_create_file(folder, name);
	uint8_t *buffer = malloc(COPY_BYTES);
	uint64_t at = 0;
	int err = to < 0 ? to : buffer ? 0 : -ENOMEM;
	ssize_t n;

	while (err == 0 && at < bytes &&
	       (n = pread(from, buffer, MIN(COPY_BYTES, bytes - at), (off_t)at)) != 0) {
		if (n < 0)
			err = -errno;
		else
			err = io_write_all(to, buffer, (size_t)n);
		at += n > 0 ? (uint64_t)n : 0;
	}
	free(buffer);
	if (err < 0 && to >= 0)
		unlinkat(folder, name, 0);
	return err;
}

/* CLOCK_REALTIME at which the segment began. */
static uint64_t begun_ns(const struct ring_segment *segment)
{
	return clock_read_ns(CLOCK_REALTIME) - (clock_monotonic_ns() - segment->begun_ns);
}

static bool is_within(const struct ring_segment *segment, const struct segment_interval *interval,
		      const struct stat *st)
{
	return written_ns(st) >= interval->from_ns &&
	       (!interval->until_ns || begun_ns(segment) <= interval->until_ns);
}

int segment_ring_write(const struct segment_ring *ring, int folder,
		       const struct segment_interval *interval)
{
	int count = 0, err;

	for (size_t i = ring->segments.count; i-- > 0;) {
		const struct ring_segment *segment = &ring->segments.data[i];
		char name[40];
		struct stat st;

		if (fstat(segment->fd, &st) < 0 || !st.st_size ||
		    !is_within(segment, interval, &st))
			continue;
		snprintf(name, sizeof(name), "%u.%u" SEGMENT_SUFFIX, segment->pid, segment->number);
		/* A hostile process may have made it larger, and longer while it is copied. */
		err = segment_copy(segment->fd, folder, name,
				   MIN((uint64_t)st.st_size, ring->bytes + BLOCK_BYTES_MAX));
		if (err < 0)
			return err;
		count++;
	}
	return count;
}

void segment_ring_release(struct segment_ring *ring)
{
	while (ring->segments.count)
		drop(ring, ring->segments.count - 1);
	vec_release(&ring->segments);
	map_release(&ring->numbers);
}
