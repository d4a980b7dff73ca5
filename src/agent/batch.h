/*
 * batch.h: makes rows of a lake (fleet_tables.h) of the blocks that a segment has got: each block
 * is read exactly once, so sums over all objects are those of the recording.
 *
 * The blocks are copied into memory with the definitions before them, and read as a recording.
 */
#ifndef PITOT_AGENT_BATCH_H
#define PITOT_AGENT_BATCH_H

#include "agent/fleet_tables.h"
#include "agent/agent_sources.h"
#include "agent/profile.h"

#define SKETCH_NS (10 * NS_PER_S)
#define SKETCH_NAMES_MAX 60u /* kernels of a process in a span; the others are added up */

/* Where profiles of batches go. */
struct batch_profiles {
	struct spool *spool;
	enum profile_kind kind;
};

/*
 * Appends the rows of the next blocks of a source, at most so many that memory stays small, and
 * moves the source behind them. With `profiles` (may be NULL), what cannot become a profile is a
 * loss. Returns 1 if there were some, 0, or a negative code; then the
 * source has not moved. To be called again until it returns 0.
 */
int batch_read(struct fleet_rows *rows, const struct sources *sources, struct source *source,
	       const struct batch_profiles *profiles, struct error *e) MUST_USE;
/* Nothing is new: appends the steps that were over before. */
void batch_end_steps(struct fleet_rows *rows, struct source *source);

#endif
