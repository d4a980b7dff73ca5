#include "record/live_segments.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "base/io.h"
#include "base/options.h"
#include "base/path.h"
#include "format/segment.h"

#define RECORDER_THREAD "pitot" /* the writer's name */
#define LAUNCHER "pitot"

/* --- descriptors of others --- */

DIR *live_open_list(const char *path)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);

	return folder < 0 ? NULL : folder_list(folder);
}

bool live_is_number(const char *name)
{
	uint64_t number;

	return parse_u64(name, &number) == 0 && number <= INT_MAX;
}

bool live_read_link(const char *path, char link[PATH_MAX])
{
	ssize_t n = readlink(path, link, PATH_MAX - 1);

	link[MAX(n, 0)] = '\0';
	return n > 0;
}

/* Whether a process or thread, a folder in /proc, has that name. */
static bool is_named(const char *folder, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[128];

	snprintf(path, sizeof(path), "%s/comm", folder);
	return io_read_text(path, 64, &text) == 0 && strcmp(strbuf_text(&text), name) == 0;
}

/* --- segments --- */

static bool is_segment(const char *link)
{
	return has_suffix(link, SEGMENT_SUFFIX) || has_suffix(link, SEGMENT_SUFFIX " (deleted)") ||
	       live_link_is_memory(link);
}

/* Visits those of the descriptors that a folder in /proc lists; NULL: segments. */
static void visit_descriptors(const char *folder, const char *wanted, live_segment_found *found,
			      void *user)
{
	_cleanup_list_ DIR *fds = live_open_list(folder);
	char path[160], link[PATH_MAX];
	const char *fd;

	while (fds && (fd = folder_next(fds))) {
		snprintf(path, sizeof(path), "%s/%.16s", folder, fd);
		if (live_read_link(path, link) &&
		    (wanted ? !strcmp(link, wanted) : is_segment(link)))
			found(user, path, link);
	}
}

int live_segments_visit(pid_t pid, live_segment_found *found, void *user)
{
	char path[64];
	const char *task;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	_cleanup_list_ DIR *tasks = live_open_list(path);

	while (tasks && (task = folder_next(tasks))) {
		char folder[96];

		snprintf(folder, sizeof(folder), "/proc/%d/task/%.16s", (int)pid, task);
		if (!live_is_number(task) || !is_named(folder, RECORDER_THREAD))
			continue;
		snprintf(folder, sizeof(folder), "/proc/%d/task/%.16s/fd", (int)pid, task);
		visit_descriptors(folder, NULL, found, user);
	}
	return tasks ? 0 : -errno;
}

static void visit_launcher(const char *process, const char *link, live_segment_found *found,
			   void *user)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.16s", process);
	if (!is_named(path, LAUNCHER))
		return;
	snprintf(path, sizeof(path), "/proc/%.16s/fd", process);
	visit_descriptors(path, link, found, user);
}

void live_segments_visit_ring(pid_t launcher, live_segment_found *found, void *user)
{
	char process[16];

	snprintf(process, sizeof(process), "%d", (int)launcher);
	visit_launcher(process, LIVE_SEGMENT_LINK, found, user);
}

void live_launchers_visit(const char *link, live_segment_found *found, void *user)
{
	_cleanup_list_ DIR *processes = live_open_list("/proc");
	const char *name;

	while (processes && (name = folder_next(processes)))
		if (live_is_number(name))
			visit_launcher(name, link, found, user);
}
