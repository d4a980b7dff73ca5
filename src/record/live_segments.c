#include "record/live_segments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "base/io.h"
#include "base/options.h"
#include "base/path.h"

#define RECORDER_THREAD "pitot" /* the writer's name */
#define SEGMENT_LINK "/memfd:pitot segment (deleted)"

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

bool live_is_named(const char *folder, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[128];

	snprintf(path, sizeof(path), "%s/comm", folder);
	return io_read_text(path, 64, &text) == 0 && strcmp(strbuf_text(&text), name) == 0;
}

/* --- segments --- */

bool live_link_is_memory(const char *link)
{
	return strcmp(link, SEGMENT_LINK) == 0;
}

static bool is_segment(const char *link)
{
	return has_suffix(link, SEGMENT_SUFFIX) || has_suffix(link, SEGMENT_SUFFIX " (deleted)") ||
	       live_link_is_memory(link);
}

/* Visits the segments among the descriptors that a folder in /proc lists. */
static void visit_descriptors(const char *folder, bool only_memory, live_segment_found *found,
			      void *user)
{
	_cleanup_list_ DIR *fds = live_open_list(folder);
	char path[160], link[PATH_MAX];
	const char *fd;

	while (fds && (fd = folder_next(fds))) {
		snprintf(path, sizeof(path), "%s/%.16s", folder, fd);
		if (live_read_link(path, link) &&
		    (only_memory ? live_link_is_memory(link) : is_segment(link)))
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
		if (!live_is_number(task) || !live_is_named(folder, RECORDER_THREAD))
			continue;
		snprintf(folder, sizeof(folder), "/proc/%d/task/%.16s/fd", (int)pid, task);
		visit_descriptors(folder, false, found, user);
	}
	return tasks ? 0 : -errno;
}

void live_segments_visit_ring(pid_t launcher, live_segment_found *found, void *user)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)launcher);
	if (!live_is_named(path, LIVE_LAUNCHER))
		return;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)launcher);
	visit_descriptors(path, true, found, user);
}

/* --- copies --- */

static int copy_bytes(const struct segment *s, uint64_t offset, size_t size, int to)
{
	_cleanup_free_ uint8_t *bytes = malloc(size);

	if (!bytes)
		return -ENOMEM;
	return segment_read(s, offset, bytes, size) ? io_write_all(to, bytes, size) : -ESRCH;
}

int live_segment_copy(const struct segment *s, live_block_wanted *wanted, void *user, int to)
{
	int rc = copy_bytes(s, 0, sizeof(s->header), to);

	for (size_t i = 0; i < s->block_count && rc == 0; i++) {
		const struct block_ref *b = &s->blocks[i];

		if (wanted(user, b))
			rc = copy_bytes(s, b->offset,
					sizeof(b->header) + (size_t)b->header.payload_bytes, to);
	}
	return rc;
}
