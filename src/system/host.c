#include "system/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/folder.h"

/* What all but /proc/stat costs is three quarters of a reading: 70 us. */
#define COST_SHARE 2000u /* see pace.h */
#define SLOW_NS (500 * NS_PER_MS)
#define TEXT_BYTES (256u << 10) /* three times the /proc/stat of a machine with 512 processors */

static const struct file {
	const char *path; /* NULL: getrusage() */
	enum host_part part;
	uint32_t first, count; /* ids of metrics */
	proc_parser *parse;
	uint64_t interval_ns;
} files[] = {
	{ "/proc/stat", HOST_MACHINE, METRIC_host_cpu_busy, 3, .parse = proc_parse_stat },
	{ "/proc/meminfo", HOST_MACHINE, METRIC_host_memory_used, 3, .parse = proc_parse_meminfo,
	  .interval_ns = SLOW_NS },
	{ "/proc/pressure/cpu", HOST_MACHINE, METRIC_host_cpu_pressure, 1,
	  .parse = proc_parse_cpu_pressure, .interval_ns = SLOW_NS },
	{ "/proc/pressure/memory", HOST_MACHINE, METRIC_host_memory_pressure, 2,
	  .parse = proc_parse_memory_pressure, .interval_ns = SLOW_NS },
	{ "/proc/pressure/io", HOST_MACHINE, METRIC_host_io_pressure, 2,
	  .parse = proc_parse_io_pressure, .interval_ns = SLOW_NS },
	{ "/proc/diskstats", HOST_MACHINE, METRIC_host_disk_read, 2, .parse = proc_parse_diskstats,
	  .interval_ns = SLOW_NS },
	{ "/proc/net/dev", HOST_MACHINE, METRIC_host_network_received, 2,
	  .parse = proc_parse_network, .interval_ns = SLOW_NS },
	{ NULL, HOST_PROCESS, METRIC_process_cpu, 5, .parse = NULL },
	{ "/proc/self/statm", HOST_PROCESS, METRIC_process_memory, 1, .parse = proc_parse_statm },
	{ "/proc/self/io", HOST_PROCESS, METRIC_process_disk_read, 2, .parse = proc_parse_io },
};
_Static_assert(ARRAY_SIZE(files) <= HOST_FILES_MAX, "each has a descriptor in struct host");
_Static_assert(METRIC_HOST_END - METRIC_HOST_FIRST <= 64, "bits of host.seen");

static uint64_t bit_of(uint32_t id)
{
	return UINT64_C(1) << (id - METRIC_HOST_FIRST);
}

static void report_absent(struct host *h, const struct file *file, const char *why,
			  const struct metric_sink *sink)
{
	for (uint32_t id = file->first; id < file->first + file->count; id++) {
		if ((h->seen | h->reported) & bit_of(id))
			continue;
		h->reported |= bit_of(id);
		if (sink->absent)
			sink->absent(sink->user, id, why);
	}
}

/*
 * Lists the names in a folder of /sys that belong to hardware, so that traffic through a partition,
 * a bridge or a mapping is not counted twice. If there are none, as in a container, all are
 * counted.
 */
static size_t list_hardware(const char *folder, char *out)
{
	_cleanup_list_ DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t length = 0;

	while (dir && (entry = readdir(dir))) {
		size_t size = strlen(entry->d_name) + 1;
		char path[512];

		snprintf(path, sizeof(path), "%s/%s/device", folder, entry->d_name);
		if (entry->d_name[0] == '.' || length + size > HOST_NAMES_BYTES ||
		    access(path, F_OK) < 0)
			continue;
		memcpy(out + length, entry->d_name, size);
		length += size;
	}
	return length;
}

static bool open_file(struct host *h, size_t i, const struct metric_sink *sink)
{
	if (own_fd_set(&h->files[i], open(files[i].path, O_RDONLY | O_CLOEXEC)) == 0)
		return true;
	report_absent(h, &files[i], strerror(errno), sink);
	return false;
}

int host_open(struct host *h, unsigned parts, const struct metric_sink *sink)
{
	*h = (struct host){ .parts = parts, .text = malloc(TEXT_BYTES) };
	if (!h->text)
		return -ENOMEM;
	h->units.ticks_per_s = (uint64_t)MAX(sysconf(_SC_CLK_TCK), 1L);
	h->units.page_bytes = (uint64_t)MAX(sysconf(_SC_PAGESIZE), 1L);
	h->units.disks = h->disks;
	h->units.networks = h->networks;
	h->units.disks_length = list_hardware("/sys/block", h->disks);
	h->units.networks_length = list_hardware("/sys/class/net", h->networks);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if ((files[i].part & parts) && files[i].path)
			open_file(h, i, sink);
	return 0;
}

struct emitter {
	struct host *host;
	const struct metric_sink *sink;
	uint64_t time_ns;
};

static void emit(void *user, uint32_t id, int64_t value)
{
	struct emitter *e = user;

	if (id < METRIC_HOST_END)
		e->host->seen |= bit_of(id);
	e->sink->value(e->sink->user, id, e->time_ns, value);
}

static void read_usage(struct emitter *e)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return;
	emit(e, METRIC_process_cpu,
	     (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
		     u.ru_stime.tv_usec);
	emit(e, METRIC_process_page_faults, u.ru_minflt);
	emit(e, METRIC_process_major_faults, u.ru_majflt);
	emit(e, METRIC_process_switches_voluntary, u.ru_nvcsw);
	emit(e, METRIC_process_switches_involuntary, u.ru_nivcsw);
}

static void read_file(struct host *h, size_t i, struct emitter *e)
{
	ssize_t n;

	if (!own_fd_valid(&h->files[i]) && !open_file(h, i, e->sink))
		return;
	n = pread(h->files[i].fd, h->text, TEXT_BYTES, 0);
	if (n < 0) {
		report_absent(h, &files[i], strerror(errno), e->sink);
		own_fd_close(&h->files[i]);
		return;
	}
	files[i].parse(h->text, (size_t)n, &h->units, emit, e);
	report_absent(h, &files[i], "the system does not say", e->sink);
}

void host_read(struct host *h, uint64_t now_ns, const struct metric_sink *sink)
{
	uint64_t cpu_ns = 0, before_ns; /* 0: not read yet, which takes a system call */

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct emitter e = { .host = h, .sink = sink };

		if (!(files[i].part & h->parts) || (files[i].path && !h->files[i].fd) ||
		    !pace_is_due(&h->paces[i], files[i].interval_ns, now_ns))
			continue;
		before_ns = cpu_ns ? cpu_ns : clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
		e.time_ns = clock_monotonic_ns();
		if (files[i].path)
			read_file(h, i, &e);
		else
			read_usage(&e);
		cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
		pace_add(&h->paces[i], cpu_ns - before_ns, COST_SHARE);
	}
}

void host_after_fork(struct host *h)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		own_fd_close(&h->files[i]);
	*h = (struct host){ 0 };
}

void host_close(struct host *h)
{
	free(h->text);
	host_after_fork(h);
}
