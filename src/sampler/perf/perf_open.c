#include "sampler/perf/perf_open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/plural.h"
#include "sampler/perf/perf_record.h"
#include "sampler/proc_tree.h"

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define STACK_BYTES_MAX (32u << 10)
#define STACK_BYTES_MIN (8u << 10)
#define SAMPLE_BYTES 1024u /* bytes of a sample without its stack */
#define RING_BYTES_MIN (64u << 10)
#define RING_BYTES_MAX (16u << 20)
#define RINGS_BYTES_MAX (128u << 20) /* all rings together */
#define RING_MS 1000u /* time for which a ring should hold a busy processor's samples */
#define RING_MS_MIN 150u /* with less, the stack copies are made smaller */
#define PERF_FORMAT_LOST_ (UINT64_C(1) << 4) /* missing in older headers */

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : io_above_standard(fd);
}

static struct perf_event_attr attributes(const struct perf_events *events, bool kernel,
					 bool on_exec)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.size = sizeof(struct perf_event_attr),
		.sample_period = events->period_ns,
		.read_format = events->counts_lost ? PERF_FORMAT_LOST_ : 0,
		.sample_type = PERF_SAMPLE_FIELDS | (kernel ? PERF_SAMPLE_CALLCHAIN : 0) |
			       (events->reads ? PERF_SAMPLE_READ : 0),
		.disabled = 1,
		.inherit = 1,
		.inherit_stat = 1,
		.enable_on_exec = on_exec,
		.exclude_kernel = !kernel,
		.exclude_callchain_kernel = !kernel,
		.exclude_callchain_user = 1,
		.exclude_hv = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.context_switch = events->reads_python,
		/* wake up at half a ring; else at each sample */
		.watermark = !events->reads_python,
		.wakeup_events = events->reads_python,
		.sample_regs_user = PERF_REGISTERS,
		.sample_stack_user = (uint32_t)events->stack_bytes,
	};
}

/* --- reasons --- */

static int paranoid_level(void)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int level;

	if (io_read_file(PARANOID, 64, &text) < 0 || sscanf(strbuf_text(&text), "%d", &level) != 1)
		return -2;
	return level;
}

static int explain(int err, pid_t pid, struct error *e)
{
	int level = paranoid_level();

	switch (-err) {
	case EACCES:
		if (level > 2)
			return error_set(
				e, E_UNSUPPORTED,
				"kernel.perf_event_paranoid is %d: sampling needs 2 or less, "
				"root or CAP_PERFMON",
				level);
		return error_set(
			e, E_UNSUPPORTED,
			"process %d belongs to another user: run pitot as that user or as root",
			(int)pid);
	case EPERM:
	case ENOSYS:
		if (level == -2)
			return error_set(e, E_UNSUPPORTED, "this kernel has no perf events");
		return error_set(e, E_UNSUPPORTED,
				 "perf_event_open is not permitted: allow it in the container's "
				 "seccomp filter");
	case ESRCH:
		return error_set(e, -ESRCH, "there is no process %d", (int)pid);
	case EMFILE:
	case ENFILE:
		return error_set(
			e, E_UNSUPPORTED,
			"too many open files, of which each thread needs one per processor: "
			"raise 'ulimit -n'");
	case ENOMEM:
		return error_set(e, err, "out of memory");
	}
	error_errno(e, -err, "perf_event_open");
	return E_UNSUPPORTED;
}

static int explain_ring(int err, struct error *e)
{
	error_errno(
		e, -err,
		"cannot map a ring of samples: raise kernel.perf_event_mlock_kb or 'ulimit -l'");
	return E_UNSUPPORTED;
}

/* --- events --- */

static void close_all(struct perf_events *events)
{
	for (unsigned i = 0; i < events->rings.count; i++)
		perf_ring_unmap(&events->rings.rings[i]);
	for (size_t i = 0; i < events->files.count; i++)
		close(events->files.data[i]);
	events->files.count = events->found.count = 0;
	events->rings.count = 0;
	events->threads = events->refused_threads = events->foreign_threads = 0;
	events->no_ring = false;
	map_clear(&events->owners);
	map_clear(&events->opened);
}

void perf_events_close(struct perf_events *events)
{
	close_all(events);
	vec_release(&events->files);
	vec_release(&events->found);
	map_release(&events->owners);
	map_release(&events->opened);
	free(events->rings.rings);
	free(events->rings.scratch);
}

/* --- rings --- */

static uint64_t power_of_two(uint64_t size)
{
	uint64_t power = RING_BYTES_MIN;

	while (power < size)
		power *= 2;
	return power;
}

static uint64_t bytes_in(const struct perf_events *events, uint64_t ms)
{
	return ms * NS_PER_MS / events->period_ns * (events->stack_bytes + SAMPLE_BYTES);
}

static void unmap_all(struct perf_events *events)
{
	for (unsigned i = 0; i < events->rings.count; i++)
		perf_ring_unmap(&events->rings.rings[i]);
}

/* Maps all rings with one size. */
static int map_all(struct perf_events *events, uint64_t size)
{
	int r = 0;

	for (unsigned i = 0; i < events->rings.count && r >= 0; i++)
		r = perf_ring_map(&events->rings.rings[i], events->rings.rings[i].fd, size);
	if (r < 0)
		unmap_all(events);
	return r;
}

/* Maps all rings, as large as requested or, failing that, as allowed. */
static int map_rings(struct perf_events *events)
{
	uint64_t size = MIN(power_of_two(bytes_in(events, RING_MS)), RING_BYTES_MAX);
	int r;

	while (size > RING_BYTES_MIN && size * events->rings.count > RINGS_BYTES_MAX)
		size /= 2;
	for (r = map_all(events, size); (r == -EPERM || r == -ENOMEM) && size > RING_BYTES_MIN;) {
		size /= 2;
		r = map_all(events, size);
	}
	return r;
}

/* --- threads --- */

/* Adds an event of a thread. */
static int add_event(struct perf_events *events, int fd, pid_t tid)
{
	uint64_t id;

	if (ioctl(fd, PERF_EVENT_IOC_ID, &id) < 0) {
		close(fd);
		return -errno;
	}
	if (vec_push(&events->files, fd) < 0) {
		close(fd);
		return -ENOMEM;
	}
	return map_put(&events->owners, id, (uint64_t)tid);
}

/*
 * Opens the events of a thread, one per processor. The first thread's events have the rings, into
 * which the others write too.
 */
static int open_thread(struct perf_events *events, struct perf_event_attr *attr, pid_t tid)
{
	bool first = events->rings.count == 0;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t before = events->files.count;
	int r = 0;

	for (int cpu = 0, ring = 0; cpu < cpus && r >= 0; cpu++) {
		int fd = open_event(attr, tid, cpu);

		if (fd == -ENODEV) /* offline */
			continue;
		r = fd < 0 ? fd : add_event(events, fd, tid);
		if (r < 0)
			break;
		if (first)
			events->rings.rings[ring++] = (struct perf_ring){ .fd = fd, .cpu = cpu };
		else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, events->rings.rings[ring++].fd) < 0)
			r = -errno;
		events->rings.count = MAX(events->rings.count, (unsigned)ring);
	}
	if (r == 0 && events->files.count == before)
		r = -ENODEV;
	while (r < 0 && events->files.count > before)
		close(events->files.data[--events->files.count]);
	if (r >= 0 && first) {
		r = map_rings(events);
		events->no_ring = r < 0;
	} else if (first) {
		events->rings.count = 0;
	}
	events->threads += r >= 0;
	return r;
}

/* Opens the events of a running thread. Where that fails, the thread may still inherit some. */
static int add_thread(struct perf_events *events, struct perf_event_attr *attr, pid_t pid,
		      pid_t tid)
{
	int r = open_thread(events, attr, tid),
	    err = map_put(&events->opened, (uint64_t)tid, r >= 0);

	if (err >= 0 && r >= 0)
		err = vec_push(&events->found, ((struct perf_thread_id){ pid, tid }));
	if ((r == -EMFILE || r == -ENFILE) && events->threads)
		events->refused_threads++;
	else if ((r == -EACCES || r == -EPERM) && events->threads && !events->no_ring)
		events->foreign_threads++;
	else if (r < 0 && r != -ESRCH)
		return r;
	return err;
}

/* Opens the events of a process's new threads. Returns whether there were any, or -errno. */
static int add_threads(struct perf_events *events, struct perf_event_attr *attr, pid_t pid)
{
	_cleanup_list_ DIR *tasks = folder_list_process(pid, "task");
	const char *name;
	bool any = false;
	int r = 0;

	while (tasks && r >= 0 && (name = folder_next(tasks))) {
		pid_t tid = (pid_t)strtol(name, NULL, 10);
		uint64_t known;

		if (tid <= 0 || map_get(&events->opened, (uint64_t)tid, &known))
			continue;
		any = true;
		r = add_thread(events, attr, pid, tid);
	}
	return r < 0 ? r : any;
}

/*
 * Opens the events of all threads of running processes and their descendants. Threads started
 * meanwhile inherit events from threads that have them; others are found when /proc is read again.
 */
static int open_running(struct perf_events *events, struct perf_event_attr *attr,
			const struct cpu_roots *roots)
{
	_cleanup_(proc_tree_release) struct proc_tree tree = { 0 };
	bool any = true;
	int r = 0;

	while (any && r >= 0) {
		any = false;
		r = proc_tree_read(&tree, roots->pids, roots->count);
		for (size_t i = 0; i < tree.pids.count && r >= 0; i++) {
			r = add_threads(events, attr, tree.pids.data[i]);
			any |= r > 0;
		}
	}
	return r < 0 ? r : events->threads ? 0 : -ESRCH;
}

/* Opens all events, with or without the operating system's kernel. */
static int try_open(struct perf_events *events, const struct cpu_roots *roots, bool kernel)
{
	struct perf_event_attr attr = attributes(events, kernel, !roots->running);
	int r;

	close_all(events);
	r = roots->running ? open_running(events, &attr, roots)
			   : open_thread(events, &attr, roots->pids[0]);
	/* Older kernels lack features: give up the newest first. */
	if (r == -EINVAL && (events->reads || events->counts_lost)) {
		events->counts_lost = events->reads;
		events->reads = false;
		return try_open(events, roots, kernel);
	}
	if (r < 0)
		close_all(events);
	else
		events->kernel = kernel;
	return r;
}

/* --- opening and closing --- */

static int prepare(struct perf_events *events, const struct cpu_options *options)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit limit;

	*events = (struct perf_events){ .period_ns = NS_PER_S / MAX(options->hz, 1u),
					.stack_bytes = STACK_BYTES_MAX,
					.reads = true,
					.counts_lost = true,
					.owners = MAP_INIT,
					.opened = MAP_INIT };
	events->rings.times = perf_record_times;
	events->rings.rings = calloc((size_t)MAX(cpus, 1), sizeof(*events->rings.rings));
	events->rings.scratch = malloc(PERF_RECORD_BYTES_MAX);
	/* Raise our limit; the command has been started, so its own limit does not change. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return events->rings.rings && events->rings.scratch ? 0 : -ENOMEM;
}

/* Appends what these events cannot sample. */
static void add_limits(const struct perf_events *events, const struct cpu_options *options,
		       const struct cpu_roots *roots, enum cpu_python python, struct strbuf *reason)
{
	if (options->kernel && !events->kernel)
		strbuf_addf(reason,
			    "time in the kernel is not sampled (kernel.perf_event_paranoid is %d: "
			    "set it to "
			    "1 or grant CAP_PERFMON); ",
			    paranoid_level());
	else if (!events->kernel)
		strbuf_adds(reason, "time in the kernel is not sampled; ");
	if (options->off_cpu)
		strbuf_adds(reason, "no time off the CPU; ");
	if (events->stack_bytes < STACK_BYTES_MAX)
		strbuf_addf(reason,
			    "stacks are cut after %zu KiB: raise kernel.perf_event_mlock_kb or "
			    "'ulimit -l'; ",
			    events->stack_bytes >> 10);
	if (events->refused_threads)
		strbuf_addf(reason, "not sampled: %u of %u thread%s: raise 'ulimit -n'; ",
			    events->refused_threads, events->refused_threads + events->threads,
			    plural(events->refused_threads + events->threads));
	if (events->foreign_threads)
		strbuf_addf(reason, "only root can sample %u thread%s of other users; ",
			    events->foreign_threads, plural(events->foreign_threads));
	strbuf_adds(reason, "setuid programs are not sampled");
	if (python == CPU_PYTHON_READ)
		return;
	strbuf_adds(reason, "; ");
	if (options->timers_inside)
		strbuf_adds(reason,
			    "Python frames only in processes that load the recorder (by its "
			    "timer)");
	else
		cpu_explain_no_python(roots, options->method == CPU_METHOD_PERF, python, reason);
}

int perf_events_open(struct perf_events *events, const struct cpu_options *options,
		     const struct cpu_roots *roots, enum cpu_python python, struct strbuf *reason,
		     struct error *e)
{
	int r = prepare(events, options);

	events->reads_python = python == CPU_PYTHON_READ;
	while (r >= 0) {
		r = -EACCES;
		if (options->kernel)
			r = try_open(events, roots, true);
		if ((r == -EACCES || r == -EPERM) && !events->no_ring)
			r = try_open(events, roots, false);
		if (r < 0) {
			r = events->no_ring ? explain_ring(r, e) : explain(r, roots->pids[0], e);
			break;
		}
		if (events->stack_bytes == STACK_BYTES_MIN ||
		    events->rings.rings[0].size >= bytes_in(events, RING_MS_MIN)) {
			add_limits(events, options, roots, python, reason);
			break;
		}
		events->stack_bytes /= 2;
	}
	if (r < 0) {
		perf_events_close(events);
		return r;
	}
	for (size_t i = 0; roots->running && i < events->files.count; i++)
		ioctl(events->files.data[i], PERF_EVENT_IOC_ENABLE, 0);
	return 0;
}

void perf_events_stop(struct perf_events *events, uint64_t *cpu_ns, uint64_t *lost)
{
	size_t words = events->counts_lost ? 2 : 1;

	*cpu_ns = *lost = 0;
	for (size_t i = 0; i < events->files.count; i++) {
		uint64_t counts[2] = { 0 };
		int fd = events->files.data[i];

		ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
		if (read(fd, counts, words * sizeof(*counts)) > 0) {
			*cpu_ns += counts[0];
			*lost += counts[1];
		}
	}
}

int perf_events_check(struct error *e)
{
	struct perf_events events = { .period_ns = NS_PER_S, .stack_bytes = STACK_BYTES_MIN };
	struct perf_event_attr attr = attributes(&events, false, false);
	int fd = open_event(&attr, 0, -1);

	/* An inherited event of all processors can be opened; it just cannot have a ring. */
	if (fd < 0)
		return explain(fd, getpid(), e);
	close(fd);
	return 0;
}
