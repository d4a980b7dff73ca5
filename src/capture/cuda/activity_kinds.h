/*
 * activity_kinds.h: which kinds of activity CUPTI records, as the open sessions want it. On the
 * vendor thread once that runs, and on the thread that initializes CUDA before.
 */
#ifndef PITOT_CAPTURE_CUDA_ACTIVITY_KINDS_H
#define PITOT_CAPTURE_CUDA_ACTIVITY_KINDS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "schema/settings.h"

/* A row of capability for each kind that is not wanted. */
void activity_kinds_note_unwanted(const struct settings *wanted);

/*
 * Has CUPTI record what is wanted, no more and no less. has_past: CUDA has worked without us, and
 * CUPTI, from 12 on, is to say which contexts and streams there are. What it refuses is a row of
 * capability and is not tried again while it is wanted.
 */
void activity_kinds_follow(const struct cupti *cupti, const struct settings *wanted, bool has_past);

/*
 * cuptiActivityEnable refuses records of kernels while contexts are sampled (NOT_COMPATIBLE; 13.0),
 * so they are on from before the first such context, and stay on while there is one. To be called
 * while none is sampled. And records of kernels one after the other are on from before the first
 * context, where an engine needs them.
 */
void activity_kinds_hold_kernels(const struct cupti *cupti);
/* Records of kernels are on, and no window is open. */
bool activity_kinds_hold(void);

/* `hold`: not those of kernels, if they are held. What they record is nobody's. */
void activity_kinds_disable(const struct cupti *cupti, bool hold);

/*
 * CUPTI gives one record for each launch of a graph. It is switched on only while no graph exists,
 * so whenever it is on, each launch of a graph since the recording began has or gets its record.
 * Any thread.
 */
bool activity_kinds_launch_records(void);
/* CUPTI has kernels run one after the other, and records them. Any thread. */
bool activity_kinds_serialized(void);
/* It was wanted and refused: nodes are recorded instead. */
bool activity_kinds_launch_records_refused(void);

/* In the child of a fork. */
void activity_kinds_reset(void);

#endif
