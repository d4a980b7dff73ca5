#include "cpu/ebpf_sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/bytes.h"

#define RING_PAGES 64u /* a power of two */
#define RECORD_MAX 65535u
#define TRAILER 16u /* of each record: pid, tid, time */
#define PROT_EXECUTE 4u

struct sideband_ring {
	int fd; /* -1: the processor is off line */
	struct perf_event_mmap_page *page;
};

struct ebpf_sideband {
	unsigned cpu_count;
	size_t page_bytes, ring_bytes;
	uint8_t *record; /* one that wraps around the ring's end */
	struct sideband_ring rings[];
};

static int open_ring(struct ebpf_sideband *s, unsigned cpu, struct error *e)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.exclude_kernel = 1,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(s->ring_bytes / 2),
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	struct sideband_ring *ring = &s->rings[cpu];
	void *page;

	ring->fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return errno == ENODEV ? 0
				       : error_errno(e, errno, "cannot follow what processes map");
	page = mmap(NULL, s->page_bytes + s->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		    ring->fd, 0);
	if (page == MAP_FAILED)
		return error_errno(e, errno, "cannot map the ring of a perf event");
	ring->page = page;
	return 0;
}

int ebpf_sideband_open(struct ebpf_sideband **out, struct error *e)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF), page = sysconf(_SC_PAGESIZE);
	unsigned count = cpus > 0 && cpus < 65536 ? (unsigned)cpus : 1;
	struct ebpf_sideband *s = calloc(1, sizeof(*s) + count * sizeof(s->rings[0]));
	int r = 0;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->cpu_count = count;
	s->page_bytes = (size_t)page;
	s->ring_bytes = RING_PAGES * s->page_bytes;
	s->record = malloc(RECORD_MAX + 1);
	for (unsigned i = 0; i < count; i++)
		s->rings[i].fd = -1;
	for (unsigned i = 0; i < count && r == 0; i++)
		r = open_ring(s, i, e);
	if (r == 0 && !s->record)
		r = error_set(e, -ENOMEM, "out of memory");
	if (r < 0) {
		ebpf_sideband_free(s);
		return r;
	}
	*out = s;
	return 0;
}

void ebpf_sideband_free(struct ebpf_sideband *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->cpu_count; i++) {
		if (s->rings[i].page)
			munmap(s->rings[i].page, s->page_bytes + s->ring_bytes);
		if (s->rings[i].fd >= 0)
			close(s->rings[i].fd);
	}
	free(s->record);
	free(s);
}

static void copy_out(const struct ebpf_sideband *s, const uint8_t *data, uint64_t at, void *out,
		     size_t size)
{
	size_t start = at & (s->ring_bytes - 1), first = MIN(size, s->ring_bytes - start);

	memcpy(out, data + start, first);
	memcpy((uint8_t *)out + first, data, size - first);
}

static void collect_ring(struct ebpf_sideband *s, struct sideband_ring *ring, struct ebpf_queue *q,
			 uint32_t source)
{
	const uint8_t *data = (const uint8_t *)ring->page + s->page_bytes;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;

	while (head - tail >= sizeof(struct perf_event_header)) {
		struct perf_event_header h;

		copy_out(s, data, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size > head - tail)
			break;
		copy_out(s, data, tail, s->record, h.size);
		if (h.size >= sizeof(h) + TRAILER)
			ebpf_queue_put(q, load_u64(s->record + h.size - 8), source, s->record,
				       h.size);
		tail += h.size;
	}
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}

void ebpf_sideband_collect(struct ebpf_sideband *s, struct ebpf_queue *q, uint32_t source)
{
	for (unsigned i = 0; i < s->cpu_count; i++)
		if (s->rings[i].page)
			collect_ring(s, &s->rings[i], q, source);
}

/* --- records: linux/perf_event.h has their layouts --- */

/* A terminated text between `at` and the trailer; NULL: it is not. */
static const char *text_at(const uint8_t *bytes, size_t at, size_t end)
{
	return at < end && memchr(bytes + at, 0, end - at) ? (const char *)bytes + at : NULL;
}

static void decode_map(const uint8_t *b, size_t end, struct sideband_record *out)
{
	if (end < 73 || !(load_u32(b + 64) & PROT_EXECUTE))
		return;
	out->pid = load_u32(b + 8);
	out->tid = load_u32(b + 12);
	out->start = load_u64(b + 16);
	out->length = load_u64(b + 24);
	out->file_offset = load_u64(b + 32);
	out->device = makedev(load_u32(b + 40), load_u32(b + 44));
	out->inode = load_u64(b + 48);
	out->text = text_at(b, 72, end);
	if (out->text)
		out->kind = SIDEBAND_MAP;
}

void sideband_decode(const void *bytes, size_t size, struct sideband_record *out)
{
	const uint8_t *b = bytes;
	struct perf_event_header h;
	size_t end = size - TRAILER;

	*out = (struct sideband_record){ .kind = SIDEBAND_OTHER };
	if (size < sizeof(h) + TRAILER)
		return;
	memcpy(&h, b, sizeof(h));
	if (h.type == PERF_RECORD_MMAP2) {
		decode_map(b, end, out);
	} else if (h.type == PERF_RECORD_COMM && end >= 16) {
		out->pid = load_u32(b + 8);
		out->tid = load_u32(b + 12);
		out->text = text_at(b, 16, end);
		if (out->text)
			out->kind =
				h.misc & PERF_RECORD_MISC_COMM_EXEC ? SIDEBAND_EXEC : SIDEBAND_NAME;
	} else if (h.type == PERF_RECORD_FORK && end >= 24) {
		out->kind = SIDEBAND_FORK;
		out->pid = load_u32(b + 8);
		out->parent = load_u32(b + 12);
		out->tid = load_u32(b + 16);
	} else if (h.type == PERF_RECORD_LOST && end >= 24) {
		out->kind = SIDEBAND_LOST;
		out->count = load_u64(b + 16);
	}
}
