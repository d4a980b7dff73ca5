#include "capture/core/shared_area.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/io.h"
#include "base/own_fd.h"
#include "capture/core/log.h"
#include "format/segment_request.h"
#include "system/free_memory.h"

#define JOURNAL_SHARE 64u /* of the memory that is free for the process */

static struct area_head unread;
struct area_head *shared_area_head = &unread;

static struct {
	uint8_t *bytes; /* NULL: no area */
	struct own_fd fd; /* until it was sent */
	uint64_t journal_bytes;
} self;

/* Returns the area's descriptor, whose size can only be read from now on, or -1. */
static int make_memory(void)
{
	size_t size = area_offset(AREA_PART_COUNT);
	int fd;

	if (io_allowed(0, size) < size) /* it would raise SIGXFSZ */
		return -1;
	fd = memfd_create("pitot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (own_fd_set(&self.fd, fd) < 0)
		return -1;
	fd = self.fd.fd;
	if (ftruncate(fd, (off_t)size) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	own_fd_close(&self.fd);
	return -1;
}

void shared_area_open(void)
{
	size_t size = area_offset(AREA_PART_COUNT);
	struct area_head *head;
	void *p;
	int fd;

	if (self.bytes)
		return;
	fd = make_memory();
	if (fd < 0)
		return;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED) {
		own_fd_close(&self.fd);
		return;
	}
	madvise(p, size, MADV_DONTDUMP);
	self.bytes = p;
	self.journal_bytes =
		MIN(AREA_JOURNAL_BYTES, free_memory("") / JOURNAL_SHARE) / AREA_PAGE * AREA_PAGE;
	head = shared_area_part(AREA_HEAD);
	head->layout = AREA_LAYOUT;
	head->pid = (uint32_t)getpid();
	head->correlation_half = UINT32_MAX;
	memcpy(head->magic, AREA_MAGIC, sizeof(head->magic));
	shared_area_head = head;
}

void shared_area_send(const char *launcher)
{
	int err;

	if (!self.bytes || !own_fd_valid(&self.fd))
		return;
	err = segment_send_memory(launcher, self.fd.fd);
	if (err < 0)
		log_line("the launcher does not hold our memory: %s", strerror(-err));
	own_fd_close(&self.fd);
}

void *shared_area_part(enum area_part part)
{
	return self.bytes ? self.bytes + area_offset(part) : NULL;
}

struct journal *shared_area_journal(uint64_t *bytes)
{
	*bytes = self.journal_bytes;
	return self.journal_bytes ? shared_area_part(AREA_JOURNAL) : NULL;
}

struct journal *shared_area_marks(void)
{
	struct journal *j = shared_area_part(AREA_JOURNAL);

	return j && atomic_load_explicit(&j->session, memory_order_relaxed) ? j : NULL;
}

int shared_area_release(void *memory, size_t bytes)
{
	uint8_t *p = memory;
	bool is_shared =
		self.bytes && p >= self.bytes && p < self.bytes + area_offset(AREA_PART_COUNT);

	return madvise(memory, bytes, is_shared ? MADV_REMOVE : MADV_DONTNEED);
}

/*
 * The mapping is the parent's: private memory takes its place. Nothing of it is readable until its
 * users make it so.
 */
void shared_area_after_fork(void)
{
	if (!self.bytes)
		return;
	mmap(self.bytes, area_offset(AREA_PART_COUNT), PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	own_fd_close(&self.fd);
	self.bytes = NULL;
	shared_area_head = &unread;
}
