/* find_recording.c: the newest recording of the current folder. */
#include "record/find_recording.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

char *find_newest_recording(struct error *e)
{
	char *name;
	int r = newest_recording(&name);

	if (r < 0)
		error_errno(e, -r, "cannot search the current folder for recordings");
	else if (!r)
		error_set(e, -ENOENT,
			  "no recording (*%s) in the current folder; name one, or make one with "
			  "`pitot record`",
			  RECORDING_SUFFIX);
	return name;
}
