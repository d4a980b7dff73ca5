#include "base/output_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"

#define ALIGNMENT ((size_t)4096) /* of offset, length and memory of direct writes */
#define BLOCK_BYTES ((size_t)1 << 20) /* length of a direct write */

void output_sink_init(struct output_sink *s, int fd, bool may_be_direct)
{
	*s = (struct output_sink){ .fd = fd,
				   .may_be_direct = may_be_direct,
				   .trial_bytes = SINK_TRIAL_BYTES,
				   .run_bytes = SINK_RUN_BYTES,
				   .limit = SINK_TRIAL_BYTES };
}

void output_sink_release(struct output_sink *s)
{
	free(s->block);
	s->block = NULL;
}

static int write_plain(struct output_sink *s, const void *bytes, size_t length)
{
	s->offset += length;
	return io_write_all(s->fd, bytes, length);
}

static bool set_direct(struct output_sink *s, bool direct)
{
	int flags = fcntl(s->fd, F_GETFL);

	if (flags < 0)
		return false;
	return fcntl(s->fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* Leaves direct I/O; the rest of the block goes through the page cache. */
static int leave_direct(struct output_sink *s)
{
	size_t left = s->block_used;

	s->direct = false;
	s->block_used = 0;
	if (!set_direct(s, false))
		return -errno;
	return write_plain(s, s->block, left);
}

/* The offset must be aligned. */
static void enter_direct(struct output_sink *s)
{
	if (!s->block && posix_memalign((void **)&s->block, ALIGNMENT, BLOCK_BYTES) != 0)
		s->block = NULL;
	s->direct = s->block && set_direct(s, true);
	s->may_be_direct = s->direct;
}

/*
 * Writes a full block. Falls back to the page cache on file systems that accept O_DIRECT but refuse
 * or shorten such writes.
 */
static int write_block(struct output_sink *s)
{
	size_t done = 0;

	while (done < BLOCK_BYTES) {
		ssize_t n = write(s->fd, s->block + done, BLOCK_BYTES - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EINVAL)
			return -errno;
		if (n <= 0 || (size_t)n % ALIGNMENT) {
			done += n > 0 ? (size_t)n : 0;
			s->offset += done;
			s->may_be_direct = false;
			memmove(s->block, s->block + done, BLOCK_BYTES - done);
			s->block_used = BLOCK_BYTES - done;
			return leave_direct(s);
		}
		done += (size_t)n;
	}
	s->offset += BLOCK_BYTES;
	s->block_used = 0;
	return 0;
}

/* Consumes as many bytes as one step can use. Returns their number or -errno. */
static ssize_t write_some(struct output_sink *s, const unsigned char *bytes, size_t length)
{
	size_t n;
	int rc;

	if (!s->direct) {
		rc = write_plain(s, bytes, length);
		return rc < 0 ? rc : (ssize_t)length;
	}
	n = MIN(length, BLOCK_BYTES - s->block_used);
	memcpy(s->block + s->block_used, bytes, n);
	s->block_used += n;
	rc = s->block_used == BLOCK_BYTES ? write_block(s) : 0;
	return rc < 0 ? rc : (ssize_t)n;
}

/* Writes through the page cache up to an offset where direct writes can begin. */
static int align(struct output_sink *s, const unsigned char **bytes, size_t *length)
{
	size_t n = MIN(*length, (size_t)(-s->offset % ALIGNMENT));
	int rc = write_plain(s, *bytes, n);

	*bytes += n;
	*length -= n;
	return rc;
}

/* After a trial: a long run with the faster method. After a run: a trial of the other one. */
static int reconsider(struct output_sink *s, const unsigned char **bytes, size_t *length)
{
	uint64_t other = s->cost[!s->direct];
	bool was_trial = s->limit == s->trial_bytes, change;
	int rc = 0;

	s->cost[s->direct] = s->time_ns * 1000 / s->bytes + 1;
	change = !was_trial || other < s->cost[s->direct];
	s->limit = was_trial && other ? s->run_bytes : s->trial_bytes;
	if (was_trial && other && change) /* the trial lost: trials become rarer */
		s->run_bytes *= 2;
	s->bytes = s->time_ns = 0;
	if (change && s->direct)
		return leave_direct(s);
	if (change)
		rc = align(s, bytes, length);
	if (change && rc >= 0 && s->offset % ALIGNMENT == 0)
		enter_direct(s);
	return rc;
}

int output_sink_write(struct output_sink *s, const void *data, size_t length)
{
	const unsigned char *bytes = data;
	uint64_t began_ns = clock_monotonic_ns();
	int rc = 0;

	if (s->may_be_direct && s->bytes >= s->limit)
		rc = reconsider(s, &bytes, &length);
	s->bytes += length;
	while (length && rc >= 0) {
		ssize_t n = write_some(s, bytes, length);

		rc = n < 0 ? (int)n : 0;
		bytes += rc < 0 ? 0 : n;
		length -= rc < 0 ? 0 : (size_t)n;
	}
	s->time_ns += clock_monotonic_ns() - began_ns;
	return rc;
}

int output_sink_end(struct output_sink *s)
{
	return s->direct ? leave_direct(s) : 0;
}
