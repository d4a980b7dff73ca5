#include "record/dump_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/timed_work.h"
#include "format/rows.h"
#include "record/monitor.h"
#include "record/stack_dump.h"

#define LIMIT_NS (PITOT_SLOWNESS * NS_PER_S)

/* --- threads --- */

struct thread_part {
	int folder;
	VEC(pid_t) pids;
	struct thread_stacks found;
	struct error e;
	int rc;
};

static void read_threads(void *context)
{
	struct thread_part *p = context;
	struct folder_id id;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->folder);
	p->rc = folder_identify(p->folder, &id);
	if (p->rc >= 0)
		p->rc = stack_dump_write(p->pids.data, p->pids.count, path, &id, LIMIT_NS / 2,
					 &p->found, &p->e);
}

static void release_threads(void *context)
{
	struct thread_part *p = context;

	thread_stacks_release(&p->found);
	vec_release(&p->pids);
	fd_close(&p->folder);
	free(p);
}

/* The processes that write into the ring, each once. */
static int add_processes(const struct segment_ring *ring, struct thread_part *p)
{
	for (size_t i = 0; i < ring->segments.count; i++) {
		const struct ring_segment *s = &ring->segments.data[i];
		bool is_known = s->process < 0 || process_has_ended(s->process);

		for (size_t k = 0; k < p->pids.count && !is_known; k++)
			is_known = p->pids.data[k] == s->writer;
		if (!is_known && vec_push(&p->pids, s->writer) < 0)
			return -ENOMEM;
	}
	return 0;
}

static struct timed_work *begin_threads(const struct recording *r, int folder)
{
	struct thread_part *p = calloc(1, sizeof(*p));
	struct timed_work *work = NULL;

	if (!p)
		return NULL;
	p->folder = fcntl(folder, F_DUPFD_CLOEXEC, 3);
	if (p->folder >= 0 && add_processes(&r->segments.ring, p) == 0 && p->pids.count)
		work = timed_work_start(read_threads, release_threads, p);
	if (!work)
		release_threads(p);
	return work;
}

static void write_threads(struct writer *w, const struct thread_part *p)
{
	size_t without = 0, count = p->found.all.count;
	int error = 0;
	char text[200];

	for (size_t i = 0; i < count; i++)
		if (p->found.all.data[i].error) {
			without++;
			error = p->found.all.data[i].error;
		}
	if (p->rc < 0)
		snprintf(text, sizeof(text), "%.180s",
			 p->e.code ? p->e.text : error_code_text(p->rc));
	else if (without)
		snprintf(text, sizeof(text), "%zu of %zu thread%s have no stack: %s", without,
			 count, plural(count), error_code_text(error));
	else
		snprintf(text, sizeof(text), "%zu thread%s%s%.120s", count, plural(count),
			 p->found.python.code ? "; no Python frames: " : "", p->found.python.text);
	rows_capability(w, feature_threads,
			p->rc < 0 || (without && without == count) ? capability_state_unavailable
			: without || p->found.python.code          ? capability_state_degraded
								   : capability_state_on,
			NULL, NULL, text);
}

/* --- GPUs --- */

/*
 * It stays open for the next dump. While a thread hangs in it, nobody else may use it, as NVML is
 * for one thread at a time.
 */
static struct monitor gpus = MONITOR_INIT;
static bool gpus_are_open;
static atomic_bool gpus_are_in_use;

static void read_gpus(void *context)
{
	struct error e;

	(void)context;
	gpus_are_open = gpus_are_open || monitor_open(&gpus, &e) == 0;
	if (gpus_are_open && gpus.gpu_count)
		monitor_read(&gpus);
}

static void release_gpus(void *context)
{
	(void)context;
	atomic_store(&gpus_are_in_use, false);
}

static struct timed_work *begin_gpus(void)
{
	struct timed_work *work;

	if (atomic_exchange(&gpus_are_in_use, true))
		return NULL;
	work = timed_work_start(read_gpus, release_gpus, NULL);
	if (!work)
		atomic_store(&gpus_are_in_use, false);
	return work;
}

/* --- both --- */

struct dump_parts dump_parts_begin(const struct recording *r, int folder)
{
	return (struct dump_parts){ .threads = begin_threads(r, folder),
				    .gpus = begin_gpus(),
				    .begun_ns = clock_monotonic_ns() };
}

void dump_parts_finish(struct recording *r, struct dump_parts *parts)
{
	uint64_t end_ns = parts->begun_ns + LIMIT_NS;

	if (parts->threads && timed_work_await(parts->threads, end_ns))
		write_threads(r->writer, timed_work_context(parts->threads));
	else if (parts->threads)
		rows_capability(r->writer, feature_threads, capability_state_unavailable, NULL,
				NULL, "the processes could not be read within a second");
	if (!parts->gpus || !timed_work_await(parts->gpus, end_ns))
		rows_capability(r->writer, feature_nvml, capability_state_unavailable, NULL, NULL,
				"the driver of the GPUs did not answer `pitot record` within a "
				"second, when the dump was made");
	else if (gpus_are_open)
		monitor_write_gpus(&gpus, r->writer);
	timed_work_leave(parts->threads);
	timed_work_leave(parts->gpus);
}
