#include "import/import_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/plural.h"
#include "base/search.h"

#define FILES_MAX 65536u
#define PIECE_BYTES ((size_t)1 << 20)

struct file_name {
	char *text;
};
ORDER(compare_names, struct file_name, strcmp(a->text, b->text))

/* Lists the files of a folder, by name. */
static int list_files(const struct import_source *source, struct file_name **names, size_t *count,
		      struct error *e)
{
	_cleanup_list_ DIR *list = folder_list(source->folder);
	VEC(struct file_name) all = VEC_INIT;
	const char *name;
	int rc = 0;

	if (!list)
		return error_errno(e, errno, "cannot read '%s'", source->path);
	while (rc == 0 && all.count < FILES_MAX && (name = folder_next(list))) {
		struct file_name copy = { strdup(name) };

		rc = copy.text ? vec_push(&all, copy) : -ENOMEM;
		if (rc < 0)
			free(copy.text);
	}
	vec_sort(&all, compare_names);
	*names = all.data;
	*count = all.count;
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

static void free_names(struct file_name *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i].text);
	free(names);
}

/* Opens a file of the folder; a result of input_open() that is not 0 is no reason to stop. */
static int open_name(const struct import_source *source, const char *name, struct input *in)
{
	return input_open(in, folder_open_file(source->folder, name, O_RDONLY, FOLDER_ANY), name,
			  source->input.cancel, NULL);
}

static int read_folder(struct import_files *f, struct import_source *source, struct error *e)
{
	struct file_name *names = NULL;
	size_t count = 0, others = 0;
	uint64_t sessions = f->result->sessions;
	const char *other = NULL;
	struct stat st;
	int rc = list_files(source, &names, &count, e);

	for (size_t i = 0; i < count; i++)
		if (folder_stat(source->folder, names[i].text, &st) == 0 && S_ISREG(st.st_mode))
			f->total_bytes += (uint64_t)st.st_size;
	for (size_t i = 0; i < count && rc >= 0; i++) {
		struct input in = { .fd = -1 };

		if (open_name(source, names[i].text, &in) == 0 && f->format->sniff(&in)) {
			in.cancel = f->options->cancel;
			rc = f->format->read(f, &in, names[i].text, e);
			if (rc == -ENODATA)
				import_note(f->result, "%s", e->text);
			if (rc == -ENODATA)
				rc = 0;
		} else if (!others++) {
			other = names[i].text;
		}
		f->done_bytes += in.raw_bytes;
		input_close(&in);
	}
	if (rc >= 0 && others)
		import_note(f->result,
			    "left out: %zu file%s or folder%s that %s no trace, such as '%s'",
			    others, plural(others), plural(others), plural_of(others, "is", "are"),
			    other);
	if (rc >= 0 && f->result->sessions == sessions)
		rc = error_set(e, -ENODATA, "no %s in '%s'", f->format->name, source->path);
	free_names(names, count);
	return rc;
}

int import_files(struct import_files *f, struct import_source *source, struct error *e)
{
	struct stat st;

	f->source = source;
	if (source->folder >= 0)
		return read_folder(f, source, e);
	if (fstat(source->input.fd, &st) == 0)
		f->total_bytes = (uint64_t)st.st_size;
	return f->format->read(f, &source->input, source->path, e);
}

void import_files_progress(struct import_files *f, const struct input *in)
{
	if (f->options->progress)
		f->options->progress(f->options->progress_user, f->done_bytes + in->raw_bytes,
				     f->total_bytes);
}

int import_read_all(struct import_files *f, struct input *in, const char *path, size_t max,
		    struct strbuf *out, struct error *e)
{
	ssize_t n;

	do {
		if (!strbuf_reserve(out, PIECE_BYTES))
			return error_set(e, -ENOMEM, "out of memory");
		n = input_read(in, out->data + out->length, PIECE_BYTES);
		out->length += n > 0 ? (size_t)n : 0;
		import_files_progress(f, in);
	} while (n > 0 && out->length <= max);
	if (n < 0)
		return error_set(e, (int)n, "%s", error_code_text((int)n));
	return n ? error_set(e, E_LIMIT, "'%s' has more than %zu MiB", path, max >> 20) : 0;
}

int import_files_sniff(const struct import_format *format, const struct import_source *source)
{
	struct file_name *names = NULL;
	size_t count = 0;
	int score = 0;

	if (source->folder < 0)
		return format->sniff(&source->input);
	if (list_files(source, &names, &count, NULL) < 0)
		count = 0;
	for (size_t i = 0; i < count && !score; i++) {
		struct input in = { .fd = -1 };

		if (strstr(names[i].text, format->part) &&
		    open_name(source, names[i].text, &in) == 0)
			score = MAX(format->sniff(&in) - 10, 0);
		input_close(&in);
	}
	free_names(names, count);
	return score;
}
