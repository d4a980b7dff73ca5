#include "capture/engines/pc_names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "capture/core/log.h"

/*
 * Number of times that a name has another pointer than in the reading before, until it is certain
 * that the names are ours. One such time may be a reading from before a module was unloaded, on a
 * thread that comes late. The names of these readings leak.
 */
#define MISMATCHES 3u

static struct {
	pthread_mutex_t lock; /* held for moments, for all but `owner` and `changed` */
	atomic_int owner; /* NAMES_… */
	atomic_bool changed;
	uint64_t crc;
	uint32_t function;
	const char *name; /* pointer of `function` in an earlier reading; NULL: none */
	unsigned mismatches;
} names = { .lock = PTHREAD_MUTEX_INITIALIZER };

enum { NAMES_UNKNOWN, NAMES_CUPTIS, NAMES_OURS };

void pc_names_changed(void)
{
	atomic_store(&names.changed, true);
}

void pc_names_after_fork(void)
{
	memset(&names, 0, sizeof(names));
	pthread_mutex_init(&names.lock, NULL);
}

static void decide(int owner)
{
	atomic_store(&names.owner, owner);
	log_line("pc-sampling: names of functions are %s",
		 owner == NAMES_CUPTIS ? "CUPTI's" : "ours to free");
}

static void find_names_owner(const CUpti_PCSamplingData *d, size_t count)
{
	const char *witness;

	if (atomic_exchange(&names.changed, false)) {
		names.mismatches = 0;
		names.name = NULL;
	}
	witness = names.name;
	for (size_t i = 0; witness && i < count; i++) {
		const CUpti_PCSamplingPCData *pc = &d->pPcData[i];

		if (pc->cubinCrc != names.crc || pc->functionIndex != names.function ||
		    !pc->functionName)
			continue;
		names.name = pc->functionName;
		if (pc->functionName == witness)
			decide(NAMES_CUPTIS);
		else if (++names.mismatches == MISMATCHES)
			decide(NAMES_OURS);
		return;
	}
	if (!count || witness)
		return;
	names.crc = d->pPcData[0].cubinCrc;
	names.function = d->pPcData[0].functionIndex;
	names.name = d->pPcData[0].functionName;
}

static int compare_pointers(const void *a, const void *b)
{
	uintptr_t left = (uintptr_t) * (char *const *)a, right = (uintptr_t) * (char *const *)b;

	return left < right ? -1 : left > right;
}

static void free_names(CUpti_PCSamplingData *d, size_t count)
{
	_cleanup_free_ char **sorted = malloc((count + 1) * sizeof(*sorted));
	size_t n = 0;

	for (size_t i = 0; sorted && i < count; i++)
		if (d->pPcData[i].functionName)
			sorted[n++] = d->pPcData[i].functionName;
	if (n)
		qsort(sorted, n, sizeof(*sorted), compare_pointers);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || sorted[i] != sorted[i + 1])
			free(sorted[i]);
}

void pc_names_done(CUpti_PCSamplingData *d, size_t count)
{
	if (atomic_load(&names.owner) == NAMES_UNKNOWN) {
		pthread_mutex_lock(&names.lock);
		if (atomic_load(&names.owner) == NAMES_UNKNOWN)
			find_names_owner(d, count);
		pthread_mutex_unlock(&names.lock);
	}
	if (atomic_load(&names.owner) == NAMES_OURS)
		free_names(d, count);
	for (size_t i = 0; i < count; i++)
		d->pPcData[i].functionName = NULL;
}
