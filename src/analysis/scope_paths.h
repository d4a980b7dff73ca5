/*
 * scope_paths.h: which ranges are scopes, their paths ("step/forward": the names of the scopes
 * around each other, outermost first), and which of them a glob means.
 */
#ifndef PITOT_ANALYSIS_SCOPE_PATHS_H
#define PITOT_ANALYSIS_SCOPE_PATHS_H

#include "analysis/nvtx_ranges.h"
#include "base/strbuf.h"

#define SCOPE_DOMAIN "pitot" /* name of the domain whose ranges are Pitot's own scopes */
#define NO_SCOPE_NAME "(no name)" /* a scope without a text */

/* Makes the paths of ranges that are paired. 0 or -ENOMEM. */
int scope_paths_find(struct nvtx_ranges *n, enum scope_choice choice) MUST_USE;

/*
 * One byte a path, to be freed: whether it or a path around it matches. A '/' in the glob separates
 * levels: "step/fwd*" are scopes whose name matches the last part, directly inside of one whose
 * name matches the part before; each as text_matches has it. A name with a '/' may match the whole
 * glob, too. NULL: no memory.
 */
uint8_t *scope_paths_match(const struct nvtx_ranges *n, const struct trace *t, const char *glob);

static inline bool scope_paths_want(const uint8_t *matches, uint32_t path)
{
	return !matches || (path != SCOPE_NONE && matches[path]);
}

/*
 * Appends "step/forward"; of a path of more than some hundred bytes the inner end. Nothing for
 * SCOPE_NONE.
 */
void scope_path_text(const struct nvtx_ranges *n, const struct trace *t, uint32_t path,
		struct strbuf *out);
/* The last name of a path. */
const char *scope_path_name(const struct nvtx_ranges *n, const struct trace *t, uint32_t path);

#endif
