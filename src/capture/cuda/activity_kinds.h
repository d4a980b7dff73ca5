/*
 * activity_kinds.h: enables the kinds of activity records that the open sessions request. Must be
 * called on the vendor thread once it runs, and before that on the thread that initializes CUDA.
 */
#ifndef PITOT_CAPTURE_CUDA_ACTIVITY_KINDS_H
#define PITOT_CAPTURE_CUDA_ACTIVITY_KINDS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "schema/settings.h"

/* Writes a capability row for each kind that is not requested. */
void activity_kinds_note_unwanted(const struct settings *requested);

/*
 * Enables exactly the requested kinds. has_past: CUDA was in use while the recorder was not
 * subscribed, and CUPTI, from 12 on, is to report the existing contexts and streams. A kind that
 * CUPTI refuses gets a capability row and is not tried again while it is requested.
 */
void activity_kinds_apply(const struct cupti *cupti, const struct settings *requested,
			  bool has_past);

void activity_kinds_disable(void);

/*
 * Whether CUPTI makes one record per graph launch. This is enabled only while no graph exists;
 * therefore, while it is enabled, each graph launch since the recording began has or will get its
 * record. Any thread.
 */
bool activity_kinds_launch_records(void);
/* Whether launch records were requested and refused: nodes are recorded instead. */
bool activity_kinds_launch_records_refused(void);

/* Called in the child of a fork. */
void activity_kinds_reset(void);

#endif
