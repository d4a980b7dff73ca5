/*
 * source_page.h: kernel samples beside source and instructions, as JSON and as a self-contained
 * page.
 */
#ifndef PITOT_EXPORT_SOURCE_SOURCE_PAGE_H
#define PITOT_EXPORT_SOURCE_SOURCE_PAGE_H

#include "analysis/source_view.h"
#include "base/json.h"
#include "base/output.h"

/*
 * Writes one object, see docs/source.md. `file` limits the source text to matching files
 * (text_matches; NULL: all). Samples of all files are included, so that sums are complete.
 */
void source_json(const struct source_view *v, const char *file, struct json *j);
/* Appends the page. */
void source_page(const struct source_view *v, const char *file, const char *recording,
		 struct strbuf *out);
/* Writes it to path, or to standard output if path is "-". Returns 0 or a negative code. */
int source_page_write(const struct source_view *v, const char *file, const char *recording,
		      const char *path, bool overwrite, uint64_t *bytes, struct error *e) MUST_USE;

#endif
