/* find_recording.c: the recording that a command works on: the one named, or the newest here. */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/ui.h"
#include "format/segment.h"

#define RECORDING_SUFFIX ".pitot"

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static bool is_recording_name(const char *name)
{
	size_t length = strlen(name), suffix = strlen(RECORDING_SUFFIX);

	return length > suffix && name[0] != '.' &&
	       !strcmp(name + length - suffix, RECORDING_SUFFIX);
}

/* `pitot record` that was interrupted at once leaves a folder without anything to read. */
static bool has_segments(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	bool found = false;

	while (folder && !found && (entry = readdir(folder))) {
		size_t length = strlen(entry->d_name), suffix = strlen(SEGMENT_SUFFIX);

		found = length > suffix && !strcmp(entry->d_name + length - suffix, SEGMENT_SUFFIX);
	}
	if (folder)
		closedir(folder);
	return found;
}

/* The newest directory *.pitot in the current folder. 1 and *name (to be freed), 0 for none, -errno. */
static int newest_recording(char **name)
{
	DIR *folder = opendir(".");
	struct timespec newest = { 0 };
	struct dirent *entry;
	struct stat st;
	char *copy;

	*name = NULL;
	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		if (!is_recording_name(entry->d_name) || stat(entry->d_name, &st) < 0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		if ((*name && !is_newer(&st.st_mtim, &newest)) || !has_segments(entry->d_name))
			continue;
		copy = strdup(entry->d_name);
		if (!copy) {
			free(*name);
			closedir(folder);
			return -ENOMEM;
		}
		free(*name);
		*name = copy;
		newest = st.st_mtim;
	}
	closedir(folder);
	return *name ? 1 : 0;
}

char *cli_find_recording(const struct context *c, const char *argument, struct error *e)
{
	char *name = NULL;
	int r;

	if (argument) {
		name = strdup(argument);
		if (!name)
			error_set(e, -ENOMEM, "out of memory");
		return name;
	}
	r = newest_recording(&name);
	if (r < 0)
		error_errno(e, -r, "cannot look for recordings in the current folder");
	else if (!r)
		error_set(e, -ENOENT,
			  "no recording (*%s) in the current folder: name one, or make one with "
			  "`pitot record`",
			  RECORDING_SUFFIX);
	else
		cli_note(c, "reading %s", name);
	return name;
}

int cli_open_trace(const struct context *c, int argc, char **argv, struct progress *progress,
		   char **path, struct trace **trace)
{
	struct trace_options options = { .progress = progress_update, .progress_user = progress };
	struct error e = { 0 };
	_cleanup_free_ char *found = NULL;
	int r;

	if (argc > 2)
		return cli_usage(c, "one recording at a time: what is '%s'?", argv[2]);
	found = cli_find_recording(c, argc > 1 ? argv[1] : NULL, &e);
	if (!found)
		return cli_fail(c, &e);
	progress_start(progress, c, "reading");
	r = trace_open(found, &options, trace, &e);
	if (r < 0) {
		progress_end(progress);
		return cli_fail(c, &e);
	}
	if (path) {
		*path = found;
		found = NULL;
	}
	return EXIT_DONE;
}
