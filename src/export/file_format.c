#include "export/file_format.h"

#include <string.h>

#include "base/output.h"

static const struct file_format *next(const struct file_format *f, size_t size)
{
	return (const void *)((const char *)f + size);
}

const void *file_format_by_path(const void *table, size_t size, const char *path)
{
	for (const struct file_format *f = table; f->name; f = next(f, size))
		if (output_path_ends(path, f->suffixes))
			return f;
	return NULL;
}

void file_formats_list(const void *table, size_t size, struct strbuf *out)
{
	for (const struct file_format *f = table; f->name; f = next(f, size))
		strbuf_addf(out, "%s%s (%.*s)", f == table ? "" : ", ", f->name,
			    (int)strcspn(f->suffixes, " "), f->suffixes);
}
