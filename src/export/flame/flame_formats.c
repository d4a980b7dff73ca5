#include "export/flame/flame_formats.h"

#include <errno.h>

#include "base/output.h"

#define FORMAT_ROW(name, suffixes, by_address, diff)                                               \
	{ { #name, suffixes }, by_address, diff, flame_##name##_write },
const struct flame_format flame_formats[] = { FLAME_FORMATS(FORMAT_ROW){
	.file = { .name = NULL } } };

const char *const flame_type_names[FLAME_KINDS] = {
	[FLAME_CPU] = "cpu",
	[FLAME_GPU] = "gpu",
	[FLAME_WAIT] = "wait",
	[FLAME_LAUNCHES] = "launch_time",
	[FLAME_OFF_CPU] = "off_cpu",
	[FLAME_STALLS] = "stalls",
	[FLAME_MEMORY] = "memory_peak",
};

const struct flame_format *flame_format_by_path(const char *path)
{
	return file_format_by_path(flame_formats, sizeof(*flame_formats), path);
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
	return output_commit(&out, bytes, e);
}
