/*
 * source_page.h: samples of kernels beside source and instructions: as JSON, and as a page that
 * stands alone.
 */
#ifndef PITOT_EXPORT_SOURCE_SOURCE_PAGE_H
#define PITOT_EXPORT_SOURCE_SOURCE_PAGE_H

#include "analysis/source_view.h"
#include "base/json.h"
#include "base/output.h"

/*
 * One object: docs/source.md. `file`: only the text of such files, see text_matches (NULL: all).
 * The samples of the others are there all the same, so that all sums are kept.
 */
void source_json(const struct source_view *v, const char *file, struct json *j);
/* Writes to a path, or to standard output when it is "-". 0 or a negative code. */
int source_page_write(const struct source_view *v, const char *file, const char *recording,
		      const char *path, bool overwrite, uint64_t *bytes, struct error *e) MUST_USE;

#endif
