#include "gpufl/gpufl_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/search.h"
#include "base/strbuf.h"

#define LOSS_MARKER ".gpufl-transport-loss."

/* Strips a suffix from a text of *length bytes. */
static bool strip_suffix(const char *text, size_t *length, const char *suffix)
{
	size_t n = strlen(suffix);

	if (*length < n || memcmp(text + *length - n, suffix, n) != 0)
		return false;
	*length -= n;
	return true;
}

/* Parses a name such as "train.device.12.log.gz", whose prefix has *prefix bytes. */
static bool parse_name(const char *name, const char *const channels[GPUFL_LOG_CHANNELS],
		       struct gpufl_window *w, size_t *prefix)
{
	size_t length = strlen(name), digits;

	w->number = UINT64_MAX;
	w->rank = strip_suffix(name, &length, ".gz");
	if (!strip_suffix(name, &length, ".log"))
		return false;
	for (digits = length; digits && isdigit((unsigned char)name[digits - 1]); digits--)
		;
	if (digits && digits < length && name[digits - 1] == '.' && length - digits < 19) {
		w->number = strtoull(name + digits, NULL, 10);
		length = digits - 1;
	}
	for (w->channel = 0; w->channel < GPUFL_LOG_CHANNELS; w->channel++) {
		*prefix = length;
		if (strip_suffix(name, prefix, channels[w->channel]) &&
		    (!*prefix || name[*prefix - 1] == '.'))
			return true;
	}
	return false;
}

/* `group` is the length of the session's folder in `path`, which ends with a slash. */
static int add_file(struct gpufl_folder *out, const char *path, size_t group, const char *name,
		    const char *const *channels)
{
	struct gpufl_window w = { .channel = GPUFL_LOSS_MARKER, .number = out->windows.count };
	bool tmp = group < strlen(path);
	struct stat st;
	size_t prefix = 0;
	int rc;

	if (strncmp(name, LOSS_MARKER, strlen(LOSS_MARKER)) != 0 &&
	    !parse_name(name, channels, &w, &prefix))
		return 0;
	if (asprintf(&w.path, "%s%s", path, name) < 0)
		return -ENOMEM;
	w.group = group + (tmp ? 0 : prefix);
	w.rank += tmp ? 2 : 0;
	if (stat(w.path, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size) {
		free(w.path);
		return 0;
	}
	w.bytes = (uint64_t)st.st_size;
	rc = vec_push(&out->windows, w);
	if (rc < 0)
		free(w.path);
	return rc;
}

static int add_folder(struct gpufl_folder *out, const char *path, size_t group, unsigned depth,
		      const char *const *channels)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	int rc = 0;

	while (d && rc == 0 && (entry = readdir(d))) {
		_cleanup_strbuf_ struct strbuf below = STRBUF_INIT;
		bool tmp = !strcmp(entry->d_name, ".tmp");
		struct stat st;

		if (fstatat(dirfd(d), entry->d_name, &st, 0) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			rc = add_file(out, path, group, entry->d_name, channels);
			continue;
		}
		if (!depth || (entry->d_name[0] == '.' && !tmp))
			continue;
		strbuf_addf(&below, "%s%s/", path, entry->d_name);
		rc = below.failed ? -ENOMEM
				  : add_folder(out, below.data, tmp ? group : below.length,
					       tmp ? 0 : depth - 1, channels);
	}
	if (d)
		closedir(d);
	return rc;
}

static int compare_groups(const struct gpufl_window *a, const struct gpufl_window *b)
{
	int order = memcmp(a->path, b->path, MIN(a->group, b->group));

	return order ? order : ORDER_OF(a->group, b->group);
}

ORDER(compare_windows, struct gpufl_window,
      compare_groups(a, b) ?: UP(channel) ?: UP(number) ?: UP(rank))

int gpufl_folder_list(const char *path, unsigned depth,
		      const char *const channels[GPUFL_LOG_CHANNELS], struct gpufl_folder *out)
{
	_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT;
	size_t kept = 0;
	DIR *d = opendir(path);
	int rc;

	*out = (struct gpufl_folder){ 0 };
	if (!d)
		return -errno;
	closedir(d);
	strbuf_addf(&folder, "%s/", path);
	rc = folder.failed ? -ENOMEM : add_folder(out, folder.data, folder.length, depth, channels);
	vec_sort(&out->windows, compare_windows);
	for (size_t i = 0; i < out->windows.count; i++) {
		struct gpufl_window w = out->windows.data[i], *last = &out->windows.data[kept - 1];

		if (kept && !compare_groups(&w, last) && w.channel == last->channel &&
		    w.number == last->number)
			free(w.path);
		else
			out->windows.data[kept++] = w;
	}
	out->windows.count = kept;
	return rc;
}

void gpufl_folder_release(struct gpufl_folder *f)
{
	for (size_t i = 0; i < f->windows.count; i++)
		free(f->windows.data[i].path);
	vec_release(&f->windows);
}
