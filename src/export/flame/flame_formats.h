/*
 * flame_formats.h: the formats of flame graphs. A new format is one file and one line in
 * FLAME_FORMATS.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_FORMATS_H
#define PITOT_EXPORT_FLAME_FLAME_FORMATS_H

#include <signal.h>

#include "analysis/flame/flame.h"
#include "base/output.h"
#include "base/strbuf.h"
#include "export/file_format.h"

/*
 * F(name, suffixes, by_address, diff): members of struct flame_format;
 * flame_<name>_write writes it. The first matching suffix wins: .speedscope.json precedes .json.
 */
#define FLAME_FORMATS(F)                                                                           \
	F(folded, ".folded .folded.gz .collapsed .txt", false, true)                               \
	F(svg, ".svg", false, true)                                                                \
	F(html, ".html .htm", false, true)                                                         \
	F(pprof, ".pb.gz .pb .pprof .pprof.gz", true, false)                                       \
	F(speedscope, ".speedscope.json .speedscope.json.gz", false, false)                        \
	F(firefox, ".json .json.gz", false, false)                                                 \
	F(otlp, ".otlp .otlp.gz", true, false)

/* What profilers call the kinds of time: "gpu". */
extern const char *const flame_type_names[FLAME_KINDS];

struct flame_attribute {
	const char *name, *value;
};

struct flame_write {
	const char *title; /* the recorded command */
	const char *recording; /* path of the recording */
	const char *before; /* path of the recording compared with, or NULL */
	const char *notes; /* readable list of missing data; "" if there is none */
	/* pprof, otlp: what it is of; until_ns 0: the whole recording */
	uint64_t from_ns, until_ns;
	const struct flame_attribute *attributes; /* otlp: of the resource */
	size_t attribute_count;
	bool xpu_perf; /* folded: samples at 50 Hz instead of microseconds */
	/* if nonzero at the end, the file is removed; may be NULL */
	const volatile sig_atomic_t *cancel;
};

struct flame_format {
	struct file_format file;
	bool by_address; /* needs STACK_ADDRESSES and all kinds; levels become labels */
	bool diff; /* supports comparisons */
	/*
	 * Writes a finished flame graph. The caller detects errors of the output. Returns 0 or a
	 * negative code.
	 */
	int (*write)(const struct flame *f, const struct flame_write *w, struct output *out);
};

/* The last entry has no name. */
extern const struct flame_format flame_formats[];

/* Finds a format by a file name's suffix; NULL if none fits. */
const struct flame_format *flame_format_by_path(const char *path);

/*
 * Writes to path, or to standard output if path is "-". *bytes is the size before compression.
 * Returns 0, -ECANCELED or another negative code.
 */
int flame_write(const struct flame *f, const struct flame_format *format,
		const struct flame_write *w, const char *path, bool overwrite, uint64_t *bytes,
		struct error *e) MUST_USE;

#define FLAME_WRITER(name, suffixes, by_address, diff)                                             \
	int flame_##name##_write(const struct flame *f, const struct flame_write *w,               \
				 struct output *out);
FLAME_FORMATS(FLAME_WRITER)

/*
 * For the writers: passes the buffer to the output, if there is one, if it is large, or at the end.
 * Returns 0 or -ENOMEM.
 */
#define FLAME_CHUNK ((size_t)64 << 10)
static inline int flame_flush(struct strbuf *buffer, struct output *out, bool all)
{
	if (buffer->failed)
		return -ENOMEM;
	if (out && (all || buffer->length >= FLAME_CHUNK)) {
		output_write(out, strbuf_text(buffer), buffer->length);
		strbuf_clear(buffer);
	}
	return 0;
}

#endif
