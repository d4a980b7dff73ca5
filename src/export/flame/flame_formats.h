/*
 * flame_formats.h: the formats that a flame graph can be written in. A new one is a file, and a
 * line in the table of flame_formats.c.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_FORMATS_H
#define PITOT_EXPORT_FLAME_FLAME_FORMATS_H

#include <signal.h>

#include "analysis/flame/flame.h"
#include "base/output.h"
#include "base/strbuf.h"

struct flame_write {
	const char *title; /* the recorded command */
	const char *recording; /* path of the recording */
	const char *before; /* path of the one that it is compared with, or NULL */
	const char *notes; /* what is missing, for people; "" if nothing */
	bool xpu_perf; /* folded: samples at 50 Hz instead of microseconds */
	const volatile sig_atomic_t
		*cancel; /* not 0 at the end: the file is removed; may be NULL */
};

struct flame_format {
	const char *name; /* of --format */
	const char *suffixes; /* of file names, separated by blanks */
	const char *description; /* one line, lower case, no full stop */
	bool by_address; /* wants STACK_ADDRESSES, all kinds, and levels as labels */
	bool diff; /* can show a comparison */
	/*
	 * Writes a finished flame graph; errors of the output are found by the caller. 0 or a
	 * negative code.
	 */
	int (*write)(const struct flame *f, const struct flame_write *w, struct output *out);
};

/* Ends with an entry without a name. */
extern const struct flame_format flame_formats[];

/* NULL when there is none. */
const struct flame_format *flame_format_by_name(const char *name);
const struct flame_format *flame_format_by_path(const char *path);

/*
 * Writes to path, or to standard output when it is "-"; *bytes before compression. 0, -ECANCELED or
 * another negative code.
 */
int flame_write(const struct flame *f, const struct flame_format *format,
		const struct flame_write *w, const char *path, bool overwrite, uint64_t *bytes,
		struct error *e) MUST_USE;

/* The formats' writers. */
int flame_folded_write(const struct flame *f, const struct flame_write *w, struct output *out);
int flame_svg_write(const struct flame *f, const struct flame_write *w, struct output *out);
int flame_html_write(const struct flame *f, const struct flame_write *w, struct output *out);
int flame_pprof_write(const struct flame *f, const struct flame_write *w, struct output *out);
int flame_speedscope_write(const struct flame *f, const struct flame_write *w, struct output *out);
int flame_firefox_write(const struct flame *f, const struct flame_write *w, struct output *out);

/*
 * Helper of the writers: hands the buffer on when it has become large, or at the end. 0 or -ENOMEM.
 */
#define FLAME_CHUNK ((size_t)64 << 10)
static inline int flame_flush(struct strbuf *buffer, struct output *out, bool all)
{
	if (buffer->failed)
		return -ENOMEM;
	if (all || buffer->length >= FLAME_CHUNK) {
		output_write(out, strbuf_text(buffer), buffer->length);
		strbuf_clear(buffer);
	}
	return 0;
}

#endif
