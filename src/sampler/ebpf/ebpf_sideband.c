#include "sampler/ebpf/ebpf_state.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>

#include "sampler/perf/perf_record.h"

#define RING_BYTES (128u << 10)
#define PROCESSORS_MAX 65536

static int open_event(int cpu, bool at_once)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type =
			PERF_SAMPLE_FIELDS & ~(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER),
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.exclude_kernel = 1,
		.watermark = 1,
		.wakeup_watermark = at_once ? 1 : RING_BYTES / 2,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Adds the ring of a processor, if it is online. */
static int add_ring(struct ebpf_sideband *s, int cpu, bool at_once, struct error *e)
{
	int fd = open_event(cpu, at_once), r;

	if (fd < 0)
		return errno == ENODEV
			       ? 0
			       : error_errno(e, errno, "cannot record the mappings of processes");
	r = perf_ring_map(&s->rings.rings[s->rings.count], fd, RING_BYTES);
	if (r < 0) {
		close(fd);
		return error_errno(e, -r, "cannot map the ring of a perf event");
	}
	s->files[s->rings.count++] = fd;
	return 0;
}

int ebpf_sideband_open(struct ebpf_sideband *s, bool at_once, struct error *e)
{
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	int cpus = (int)MAX(1, MIN(configured, PROCESSORS_MAX)), r = 0;

	*s = (struct ebpf_sideband){ .rings.times = perf_record_times };
	s->files = calloc((size_t)cpus, sizeof(*s->files));
	s->rings.rings = calloc((size_t)cpus, sizeof(*s->rings.rings));
	s->rings.scratch = malloc(PERF_RECORD_BYTES_MAX);
	if (!s->files || !s->rings.rings || !s->rings.scratch)
		r = error_set(e, -ENOMEM, "out of memory");
	for (int cpu = 0; cpu < cpus && r == 0; cpu++)
		r = add_ring(s, cpu, at_once, e);
	if (r < 0)
		ebpf_sideband_close(s);
	return r;
}

void ebpf_sideband_close(struct ebpf_sideband *s)
{
	for (unsigned i = 0; i < s->rings.count; i++) {
		perf_ring_unmap(&s->rings.rings[i]);
		close(s->files[i]);
	}
	free(s->files);
	free(s->rings.rings);
	free(s->rings.scratch);
	*s = (struct ebpf_sideband){ 0 };
}
