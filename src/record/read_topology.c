/*
 * read_topology.c: the machine's devices and links, once at the start of a recording.
 *
 * Linux shows the PCI bus at once. NVML, which knows the NVLinks, may take seconds or hang with a
 * GPU, while the processes of the command need answers: another thread asks it. What it has not
 * said when the recording ends is missing.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "format/rows.h"
#include "record/recording.h"
#include "system/topology.h"

#define STACK_BYTES (1u << 20)
/* NVML is waited for at most so long when the command has ended. */
#define WAIT_NS NS_PER_S
#define NO_ANSWER "NVML does not answer"

/* Belongs to the thread as well, which may hang: it is then never freed. */
struct topology_reading {
	struct topology bus;
	/* The thread writes these before it posts. */
	struct topology whole;
	struct strbuf why; /* NVML's reason; "": it has answered */
	sem_t answered;
};

/* NVML is used by one thread at a time. One that hangs may be of an earlier recording. */
static atomic_flag asking = ATOMIC_FLAG_INIT;

static void *ask_nvml(void *argument)
{
	struct topology_reading *t = argument;

	if (nvml_load(&(struct metric_sink){ 0 }, &t->why)) {
		topology_add_nvml(&t->whole);
		nvml_unload();
	}
	atomic_flag_clear(&asking);
	sem_post(&t->answered);
	return NULL;
}

static void free_reading(struct topology_reading *t)
{
	topology_release(&t->bus);
	topology_release(&t->whole);
	strbuf_release(&t->why);
	sem_destroy(&t->answered);
	free(t);
}

static void write_rows(const struct recording *r, const struct topology *t, const char *why)
{
	topology_write(t, r->writer);
	rows_capability(r->writer, feature_topology,
			*why ? capability_state_degraded : capability_state_on, NULL,
			*why ? "PCI bus" : NULL, *why ? why : NULL);
}

void record_read_topology(struct recording *r)
{
	struct topology_reading *t = r->request->cpu_only ? NULL : calloc(1, sizeof(*t));

	if (!t)
		return;
	t->why = (struct strbuf)STRBUF_INIT;
	sem_init(&t->answered, 0, 0);
	if (topology_find(&t->bus) < 0 || topology_find(&t->whole) < 0 || !t->bus.gpus) {
		free_reading(t);
	} else if (!topology_has_nvml_gpus(&t->bus)) {
		write_rows(r, &t->bus, "");
		free_reading(t);
	} else if (atomic_flag_test_and_set(&asking)) {
		write_rows(r, &t->bus, NO_ANSWER);
		free_reading(t);
	} else if (helper_thread_start(ask_nvml, t, STACK_BYTES) < 0) {
		atomic_flag_clear(&asking);
		write_rows(r, &t->bus, "NVML was not asked: no thread could be started");
		free_reading(t);
	} else {
		r->topology = t;
	}
}

void record_write_topology(struct recording *r, bool last)
{
	struct topology_reading *t = r->topology;
	uint64_t until_ns = clock_read_ns(CLOCK_REALTIME) + WAIT_NS;
	struct timespec until = { (time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S) };
	int rc;

	if (!t)
		return;
	do
		rc = last ? sem_timedwait(&t->answered, &until) : sem_trywait(&t->answered);
	while (rc < 0 && errno == EINTR);
	if (rc < 0 && !last)
		return;
	r->topology = NULL;
	if (rc < 0) {
		write_rows(r, &t->bus, NO_ANSWER);
		return;
	}
	write_rows(r, &t->whole, strbuf_text(&t->why));
	free_reading(t);
}
