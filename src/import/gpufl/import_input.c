#include "import/gpufl/import_input.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/search.h"

#define DEPTH_MAX 3u /* folders in folders */
#define PIECE_BYTES ((size_t)256 << 10)
#define TMP ".tmp"
#define LOSS_MARKER ".gpufl-transport-loss."

/* Scopes first: kernels name them. The last is the oldest releases' name of "device". */
static const char *const channels[] = { "scope", "device", "kernel", "system", "sass" };
_Static_assert(ARRAY_SIZE(channels) == INPUT_MARKER, "markers come last");

/* ---- names ---- */

/* Takes a suffix off a text of *length bytes. */
static bool take_suffix(const char *text, size_t *length, const char *suffix)
{
	size_t n = strlen(suffix);

	if (*length < n || memcmp(text + *length - n, suffix, n) != 0)
		return false;
	*length -= n;
	return true;
}

/* "train.device.12.log.gz": whose prefix has *prefix bytes. */
static bool parse_name(const char *name, struct input_file *f, size_t *prefix)
{
	size_t length = strlen(name), digits;

	f->number = UINT64_MAX;
	f->rank = take_suffix(name, &length, ".gz");
	if (!take_suffix(name, &length, ".log"))
		return false;
	for (digits = length; digits && isdigit((unsigned char)name[digits - 1]); digits--)
		;
	if (digits && digits < length && name[digits - 1] == '.' && length - digits < 19) {
		f->number = strtoull(name + digits, NULL, 10);
		length = digits - 1;
	}
	for (f->channel = 0; f->channel < ARRAY_SIZE(channels); f->channel++) {
		*prefix = length;
		if (take_suffix(name, prefix, channels[f->channel]) &&
		    (!*prefix || name[*prefix - 1] == '.'))
			return true;
	}
	return false;
}

/* ---- folders ---- */

/* `group` is the length of the session's folder in `path`, which ends with a slash. */
static int add_file(struct input *in, const char *path, size_t group, const char *name, bool tmp)
{
	struct input_file f = { .rank = 0 };
	struct strbuf full = STRBUF_INIT;
	struct stat st;
	size_t prefix = 0;

	strbuf_addf(&full, "%s%s", path, name);
	if (full.failed)
		return -ENOMEM;
	if (!strncmp(name, LOSS_MARKER, strlen(LOSS_MARKER)))
		f = (struct input_file){ .channel = INPUT_MARKER, .number = in->files.count };
	else if (!parse_name(name, &f, &prefix))
		full.length = 0;
	if (!full.length || stat(full.data, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size) {
		strbuf_release(&full);
		return 0;
	}
	f.path = full.data;
	f.group = group + (tmp ? 0 : prefix);
	f.rank += tmp ? 2 : 0;
	f.bytes = (uint64_t)st.st_size;
	return vec_push(&in->files, f);
}

static int add_folder(struct input *in, const char *path, size_t group, unsigned depth)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	int rc = 0;

	while (d && rc >= 0 && (entry = readdir(d))) {
		_cleanup_strbuf_ struct strbuf below = STRBUF_INIT;
		bool tmp = !strcmp(entry->d_name, TMP);
		struct stat st;

		if (fstatat(dirfd(d), entry->d_name, &st, 0) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			rc = add_file(in, path, group, entry->d_name, group < strlen(path));
			continue;
		}
		if (!depth || (entry->d_name[0] == '.' && !tmp))
			continue;
		strbuf_addf(&below, "%s%s/", path, entry->d_name);
		rc = below.failed ? -ENOMEM
				  : add_folder(in, below.data, tmp ? group : below.length,
					       tmp ? 0 : depth - 1);
	}
	if (d)
		closedir(d);
	return rc;
}

static int compare_groups(const struct input_file *a, const struct input_file *b)
{
	int order = memcmp(a->path, b->path, MIN(a->group, b->group));

	return order ? order : ORDER_OF(a->group, b->group);
}

ORDER(compare_files, struct input_file,
      compare_groups(a, b) ?: UP(channel) ?: UP(number) ?: UP(rank))

int input_list(const char *folder, struct input *in, struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	size_t kept = 0;
	DIR *d = opendir(folder);
	int rc;

	*in = (struct input){ .bytes = 0 };
	if (!d)
		return error_errno(e, errno, "cannot read '%s'", folder);
	closedir(d);
	strbuf_addf(&path, "%s/", folder);
	rc = path.failed ? -ENOMEM : add_folder(in, path.data, path.length, DEPTH_MAX);
	if (rc < 0)
		return error_set(e, rc, "out of memory");
	vec_sort(&in->files, compare_files);
	for (size_t i = 0; i < in->files.count; i++) {
		struct input_file f = in->files.data[i], *last = &in->files.data[kept - 1];

		if (kept && !compare_groups(&f, last) && f.channel == last->channel &&
		    f.number == last->number) {
			free(f.path);
			continue;
		}
		in->bytes += f.bytes;
		in->files.data[kept++] = f;
	}
	in->files.count = kept;
	return 0;
}

void input_release(struct input *in)
{
	for (size_t i = 0; i < in->files.count; i++)
		free(in->files.data[i].path);
	vec_release(&in->files);
}

/* ---- lines ---- */

int log_lines_open(struct log_lines *l, const char *path, struct error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	*l = (struct log_lines){ .file = NULL };
	if (fd < 0)
		return error_errno(e, errno, "cannot read '%s'", path);
	l->file = gzdopen(fd, "rb");
	if (l->file)
		return 0;
	close(fd);
	return error_set(e, -ENOMEM, "out of memory");
}

/* Reads on, behind what is left of the text. 0 or -ENOMEM. */
static int read_piece(struct log_lines *l)
{
	int n;

	if (l->at)
		memmove(l->text.data, l->text.data + l->at, l->text.length - l->at);
	l->text.length -= l->at;
	l->at = 0;
	if (!strbuf_reserve(&l->text, PIECE_BYTES))
		return -ENOMEM;
	n = gzread(l->file, l->text.data + l->text.length, PIECE_BYTES);
	if (n > 0)
		l->text.length += (size_t)n;
	l->over = n < (int)PIECE_BYTES;
	if (l->over)
		gzerror(l->file, &n);
	l->cut |= l->over && n != Z_OK && n != Z_STREAM_END;
	return 0;
}

/* The rest of a line that is too long, which has begun at l->at. */
static int skip_line(struct log_lines *l)
{
	char *end = NULL;

	l->too_long++;
	do {
		l->at = l->text.length;
		if (read_piece(l) < 0)
			return -ENOMEM;
		end = memchr(l->text.data, '\n', l->text.length);
	} while (!end && !l->over);
	l->at = end ? (size_t)(end + 1 - l->text.data) : l->text.length;
	return 0;
}

int log_lines_next(struct log_lines *l)
{
	size_t searched = 0;

	if (!l->text.data && read_piece(l) < 0)
		return -ENOMEM;
	for (;;) {
		char *line = l->text.data + l->at;
		size_t left = l->text.length - l->at;
		char *end = memchr(line + searched, '\n', left - searched);

		l->ended = end != NULL;
		if (end || (l->over && left)) {
			l->line = line;
			l->length = end ? (size_t)(end - line) : left;
			l->at += l->length + l->ended;
			return 1;
		}
		if (l->over)
			return 0;
		searched = left;
		if (left > INPUT_LINE_MAX) {
			searched = 0;
			if (skip_line(l) < 0)
				return -ENOMEM;
		} else if (read_piece(l) < 0) {
			return -ENOMEM;
		}
	}
}

void log_lines_close(struct log_lines *l)
{
	if (l->file)
		gzclose(l->file);
	strbuf_release(&l->text);
}
