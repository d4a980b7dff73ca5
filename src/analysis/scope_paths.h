/*
 * scope_paths.h: which ranges are scopes, their paths ("step/forward": names of nested scopes,
 * outermost first), and matching paths with globs.
 */
#ifndef PITOT_ANALYSIS_SCOPE_PATHS_H
#define PITOT_ANALYSIS_SCOPE_PATHS_H

#include "analysis/nvtx_ranges.h"
#include "base/strbuf.h"

#define SCOPE_DOMAIN "pitot" /* the domain whose ranges are Pitot's own scopes */
#define NO_SCOPE_NAME "(no name)" /* stands for the name of a scope without text */

/* Builds the paths of paired ranges. 0 or -ENOMEM. */
int scope_paths_find(struct nvtx_ranges *n, enum scope_choice choice) MUST_USE;

/*
 * Returns one byte per path: whether it or a path around it matches. The caller frees the array;
 * NULL: out of memory. A '/' in the glob separates levels: "step/fwd*" matches scopes whose name
 * matches the last part, directly inside of a scope whose name matches the first part; parts match
 * as in text_matches. A name that contains a '/' may also match the whole glob.
 */
uint8_t *scope_paths_match(const struct nvtx_ranges *n, const struct trace *t, const char *glob);

static inline bool scope_path_selected(const uint8_t *matches, uint32_t path)
{
	return !matches || (path != SCOPE_NONE && matches[path]);
}

/* Appends "step/forward"; cuts the outer part of very long paths. Nothing for SCOPE_NONE. */
void scope_path_text(const struct nvtx_ranges *n, const struct trace *t, uint32_t path,
		struct strbuf *out);
/* The last name of a path. */
const char *scope_path_name(const struct nvtx_ranges *n, const struct trace *t, uint32_t path);

#endif
