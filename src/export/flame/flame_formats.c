#include "export/flame/flame_formats.h"

#include <errno.h>
#include <string.h>

#include "base/output.h"

/* The first suffix that fits counts: .speedscope.json before .json. */
const struct flame_format flame_formats[] = {
	{ "folded", ".folded .folded.gz .collapsed .txt",
	  "a line a stack, for flamegraph.pl, inferno, speedscope", false, true,
	  flame_folded_write },
	{ "svg", ".svg", "a picture that can be zoomed and searched in a browser", false, true,
	  flame_svg_write },
	{ "html", ".html .htm", "a page that can be zoomed and searched, for large graphs", false,
	  true, flame_html_write },
	{ "pprof", ".pb.gz .pb .pprof .pprof.gz",
	  "pprof's protobuf, for go tool pprof, Parca, Pyroscope", true, false, flame_pprof_write },
	{ "speedscope", ".speedscope.json .speedscope.json.gz", "for speedscope.app", false, false,
	  flame_speedscope_write },
	{ "firefox", ".json .json.gz", "for profiler.firefox.com", false, false,
	  flame_firefox_write },
	{ .name = NULL },
};

const struct flame_format *flame_format_by_name(const char *name)
{
	for (const struct flame_format *x = flame_formats; x->name; x++)
		if (!strcmp(x->name, name))
			return x;
	return NULL;
}

const struct flame_format *flame_format_by_path(const char *path)
{
	for (const struct flame_format *x = flame_formats; x->name; x++)
		if (output_path_ends(path, x->suffixes))
			return x;
	return NULL;
}

int flame_write(const struct flame *f, const struct flame_format *format,
		const struct flame_write *w, const char *path, bool overwrite, uint64_t *bytes,
		struct error *e)
{
	struct output *out = output_open(path, overwrite, e);
	int r;

	if (!out)
		return e && e->code ? e->code : -EIO;
	r = format->write(f, w, out);
	if (r >= 0 && w->cancel && *w->cancel)
		r = -ECANCELED;
	if (r < 0) {
		output_abort(&out);
		return error_set(e, r, "cannot write '%s': %s", path, error_code_text(r));
	}
	*bytes = output_bytes(out);
	return output_commit(&out, e);
}
