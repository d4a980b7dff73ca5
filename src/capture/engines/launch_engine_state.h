/*
 * launch_engine_state.h: what the files of the engines that measure launches share: launch_engine.c
 * (a measurement), launch_calls.c (launches of the program), launch_client.c (CUPTI) and
 * launch_sessions.c (what is measured, and when).
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_ENGINE_STATE_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_ENGINE_STATE_H

#include "capture/engines/launch_engine.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "capture/core/refusals.h"

#define ABANDONED_MAX 32u /* contexts, as many as an engine uses */

struct launch_engine_state {
	/* Chosen by this or an earlier session; set before `wanted`. */
	_Atomic(const struct launch_engine *) engine;
	_Atomic(const struct cupti *) cupti; /* NULL: not attached */
	atomic_uint inside; /* callbacks in progress, except ends of launches */
	/* A window is open, and launches remain to be measured. */
	atomic_bool active;
	atomic_bool open; /* a session with this engine has an open window */
	atomic_bool wanted; /* a current session requests this engine */
	struct refusal refusal;
	atomic_bool graphs_noted;
	bool keeps_code; /* copies the code of loaded modules */
	struct settings chosen; /* what is measured; only its owner changes it */
	atomic_bool is_next; /* `next` will be chosen as soon as the engine can be acquired */
	struct settings next;
	pthread_mutex_t lock; /* of `next` and of activate(), held briefly */
	atomic_int measure; /* SETTING_MEASURE_…, readable by all */
	atomic_uint sessions; /* so far */
	atomic_bool any; /* something was measured for `chosen` */
	atomic_bool finished; /* the last launch of `chosen` is over; until then `active` stays */
	atomic_bool selected; /* a kernel of `chosen` was launched, or its launch captured */

	/* Set by the owner: */
	uint32_t correlation;
	uint64_t begun_ns, ended_ns;
	unsigned failures;

	_Atomic(CUcontext) abandoned[ABANDONED_MAX]; /* destroyed while another thread measured */
	/* Counts since their last rows. */
	atomic_uint_fast64_t unmeasured, lost;

	/* Used by the collector only: */
	struct map numbers; /* ids of metrics in this recording, by address */
	uint64_t since_ns; /* when costs and losses were last written */
};
extern struct launch_engine_state launches;

/* --- launch_engine.c; the first three are called by the owner --- */

/* Returns whether the launch or range that begins is measured. */
bool launch_measure_begin(const struct cupti *cupti, CUcontext context, uint32_t correlation,
			  const struct marked_range *marked);
void launch_measure_end(const struct cupti *cupti, bool valid);
/* The launch failed and has no record, or its kernel runs unpatched. */
void launch_measure_unmark(void);
/* Gives up the engine if there is no measurement with this --measure now, and returns NULL. */
const struct cupti *launch_measure_owned(int measure, bool owned);

/* --- launch_sessions.c --- */

/*
 * For launches_client. Times: start and end of the kernel's last run, which ends with the call,
 * because the driver keeps the call until all runs are over; they are returned only once. An end
 * that is not the kernel's own: of a launch that ran patched code.
 */
bool launch_sessions_adjust(struct writer *w, uint32_t correlation, uint64_t began_ns,
			    uint64_t *start_ns, uint64_t *end_ns);

#endif
#endif
