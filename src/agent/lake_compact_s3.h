/*
 * lake_compact_s3.h: compacts a bucket, in steps that may end at any moment (lake_manifest.h):
 *
 *  1. Adds objects with the rows of others. Nobody reads them.
 *  2. Waits. Who has listed the objects of a table before, and reads manifests after that, has to
 *     be done with it: the objects of step 1 are not in that list.
 *  3. Adds manifests: from now on the objects of step 1 are read, and the others are not.
 *  4. Waits. Who has read manifests before has to be done with listing and reading objects.
 *  5. Removes what is replaced, and what a run has left that was killed, or was too late, in step 1
 *     or 2: objects that were made for a generation which has a manifest that does not name them.
 */
#ifndef PITOT_AGENT_LAKE_COMPACT_S3_H
#define PITOT_AGENT_LAKE_COMPACT_S3_H

#include "agent/lake_compact.h"

/* lake_compact() of a bucket. */
int lake_compact_bucket(const struct lake *lake, const struct lake_compact_options *options,
			struct error *e) MUST_USE;

#endif
