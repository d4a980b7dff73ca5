/*
 * flame_formats.h: the formats that a flame graph can be written in. A new one is a file, and a
 * line in FLAME_FORMATS.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_FORMATS_H
#define PITOT_EXPORT_FLAME_FLAME_FORMATS_H

#include <signal.h>

#include "analysis/flame/flame.h"
#include "base/output.h"
#include "base/strbuf.h"
#include "export/file_format.h"

/*
 * F(name, suffixes, description, by_address, diff): members of struct flame_format;
 * flame_<name>_write writes it. The first suffix that fits counts: .speedscope.json before .json.
 */
/* clang-format off */
#define FLAME_FORMATS(F)                                                                                               \
	F(folded, ".folded .folded.gz .collapsed .txt", "a line a stack, for flamegraph.pl, inferno, speedscope", false, true) \
	F(svg, ".svg", "a picture that can be zoomed and searched in a browser", false, true)                          \
	F(html, ".html .htm", "a page that can be zoomed and searched, for large graphs", false, true)                 \
	F(pprof, ".pb.gz .pb .pprof .pprof.gz", "pprof's protobuf, for go tool pprof, Parca, Pyroscope", true, false)  \
	F(speedscope, ".speedscope.json .speedscope.json.gz", "for speedscope.app", false, false)                      \
	F(firefox, ".json .json.gz", "for profiler.firefox.com", false, false)
/* clang-format on */

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
	struct file_format file;
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
const struct flame_format *flame_format_by_path(const char *path);

/*
 * Writes to path, or to standard output when it is "-"; *bytes before compression. 0, -ECANCELED or
 * another negative code.
 */
int flame_write(const struct flame *f, const struct flame_format *format,
		const struct flame_write *w, const char *path, bool overwrite, uint64_t *bytes,
		struct error *e) MUST_USE;

#define FLAME_WRITER(name, suffixes, description, by_address, diff)                                \
	int flame_##name##_write(const struct flame *f, const struct flame_write *w,               \
				 struct output *out);
FLAME_FORMATS(FLAME_WRITER)

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
