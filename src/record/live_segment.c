#include "record/live_segment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/options.h"
#include "base/path.h"
#include "base/search.h"

#define RECORDER_THREAD "pitot" /* the writer's name */
#define SEGMENT_LINK "/memfd:pitot segment (deleted)"
#define SEGMENTS_MAX 1024u

/* --- descriptors of others --- */

static DIR *open_list(const char *path)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);

	return folder < 0 ? NULL : folder_list(folder);
}

static bool is_number(const char *name)
{
	uint64_t number;

	return parse_u64(name, &number) == 0 && number <= INT_MAX;
}

/* Sets *link to what a descriptor is. */
static bool read_link(const char *path, char link[PATH_MAX])
{
	ssize_t n = readlink(path, link, PATH_MAX - 1);

	link[MAX(n, 0)] = '\0';
	return n > 0;
}

static bool is_named(const char *folder, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[128];

	snprintf(path, sizeof(path), "%s/comm", folder);
	return io_read_text(path, 64, &text) == 0 && strcmp(strbuf_text(&text), name) == 0;
}

static bool visit_files(const char *folder, const char *link,
			bool (*visit)(void *user, const char *path), void *user)
{
	_cleanup_list_ DIR *fds = NULL;
	char path[128], found[PATH_MAX];
	const char *fd;

	snprintf(path, sizeof(path), "%s/fd", folder);
	fds = open_list(path);
	while (fds && (fd = folder_next(fds))) {
		snprintf(path, sizeof(path), "%s/fd/%.16s", folder, fd);
		if (read_link(path, found) && (!link || strcmp(found, link) == 0) &&
		    visit(user, path))
			return true;
	}
	return false;
}

void launcher_files(const char *link, bool (*visit)(void *user, const char *path), void *user)
{
	_cleanup_list_ DIR *processes = open_list("/proc");
	const char *name;

	while (processes && (name = folder_next(processes))) {
		char folder[64];

		snprintf(folder, sizeof(folder), "/proc/%.16s", name);
		if (is_number(name) && is_named(folder, "pitot") &&
		    visit_files(folder, link, visit, user))
			return;
	}
}

/* --- the segment that is being written --- */

int live_segment_open(int fd, struct live_segment *out)
{
	char path[40];
	int rc;

	*out = (struct live_segment){ .fd = fd };
	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = segment_open(path, &out->segment, NULL);
	if (rc < 0) {
		close(fd);
		*out = (struct live_segment){ .fd = -1 };
	}
	return rc;
}

void live_segment_release(struct live_segment *s)
{
	if (s->segment.path) {
		segment_release(&s->segment);
		close(s->fd);
	}
	*s = (struct live_segment){ .fd = -1 };
}

struct newest {
	uint64_t session; /* 0: any */
	struct live_segment *found;
};

bool live_segment_is_memory(const struct live_segment *s)
{
	char link[PATH_MAX];

	return read_link(s->segment.path, link) && strcmp(link, SEGMENT_LINK) == 0;
}

/* Of several recordings of the process the one that began last has the most rows to come. */
static bool consider(void *user, const char *path)
{
	const struct newest *newest = user;
	struct live_segment *best = newest->found, s;
	char link[PATH_MAX];

	if (!read_link(path, link) ||
	    (!has_suffix(link, SEGMENT_SUFFIX) && !has_suffix(link, SEGMENT_SUFFIX " (deleted)") &&
	     strcmp(link, SEGMENT_LINK) != 0))
		return false;
	if (live_segment_open(io_open_file(path, NULL), &s) < 0)
		return false;
	if (s.segment.closed || (newest->session && s.segment.header.session != newest->session) ||
	    (best->segment.path &&
	     best->segment.header.start_monotonic_ns >= s.segment.header.start_monotonic_ns)) {
		live_segment_release(&s);
		return false;
	}
	live_segment_release(best);
	*best = s;
	return false;
}

/* Visits the descriptors of the recorder's threads. Returns 0 or a negative errno. */
static int visit_recorder(pid_t pid, bool (*visit)(void *user, const char *path), void *user)
{
	char path[64];
	const char *task;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	_cleanup_list_ DIR *tasks = open_list(path);

	while (tasks && (task = folder_next(tasks))) {
		char folder[96];

		snprintf(folder, sizeof(folder), "/proc/%d/task/%.16s", (int)pid, task);
		if (is_number(task) && is_named(folder, RECORDER_THREAD) &&
		    visit_files(folder, NULL, visit, user))
			break;
	}
	return tasks ? 0 : -errno;
}

int live_segment_find(pid_t pid, uint64_t session, struct live_segment *out)
{
	struct newest newest = { session, out };
	int rc;

	*out = (struct live_segment){ .fd = -1 };
	rc = visit_recorder(pid, consider, &newest);
	return rc < 0 ? rc : out->segment.path ? 0 : -ESRCH;
}

struct same_file {
	const struct segment *segment;
	bool is_found;
};

static bool is_same_file(void *user, const char *path)
{
	struct same_file *same = user;
	struct stat st;

	same->is_found = stat(path, &st) == 0 && st.st_dev == same->segment->device &&
			 st.st_ino == same->segment->inode;
	return same->is_found;
}

bool live_segment_is_written(const struct live_segment *s, pid_t pid)
{
	struct same_file same = { &s->segment, false };

	return visit_recorder(pid, is_same_file, &same) == 0 && same.is_found;
}

/* --- the others of its session --- */

struct search {
	const struct segment_header *of; /* NULL: of whatever session */
	struct live_segments *found;
	bool has_no_memory;
};

static bool is_new(const struct search *x, const struct live_segment *s)
{
	const struct segment_header *h = &s->segment.header;

	if (!x->of)
		return true;
	for (size_t i = 0; i < x->found->all.count; i++)
		if (x->found->all.data[i].segment.header.number == h->number)
			return false;
	return h->session == x->of->session && h->number != x->of->number;
}

/* Takes the descriptor. */
static void add(struct search *x, int fd)
{
	struct live_segment s;

	if (live_segment_open(fd, &s) < 0)
		return;
	if (x->found->all.count >= SEGMENTS_MAX || !is_new(x, &s)) {
		live_segment_release(&s);
		return;
	}
	if (vec_push(&x->found->all, s) < 0) {
		live_segment_release(&s);
		x->has_no_memory = true;
	}
}

static bool add_memory(void *user, const char *path)
{
	add(user, io_open_file(path, NULL));
	return false;
}

/* Files in the folder of a path. `prefix` NULL: whose names begin like its own, up to the dot. */
static void add_folder(struct search *x, char *path, const char *prefix)
{
	char *name = strrchr(path, '/');
	_cleanup_close_ int folder = -1;
	_cleanup_list_ DIR *list = NULL;
	size_t length;
	const char *other;

	if (!name || name == path)
		return;
	*name++ = '\0';
	length = prefix ? strlen(prefix) : strcspn(name, ".") + 1;
	folder = folder_open(path, FOLDER_ANY);
	list = folder < 0 ? NULL : folder_list(folder);
	while (list && (other = folder_next(list)))
		if (strncmp(other, prefix ? prefix : name, length) == 0 &&
		    has_suffix(other, SEGMENT_SUFFIX))
			add(x, folder_open_file(folder, other, O_RDONLY, FOLDER_ANY));
}

ORDER(by_number, struct live_segment, UP(segment.header.number))

int live_segments_find(const struct live_segment *of, struct live_segments *out)
{
	struct search x = { .of = &of->segment.header, .found = out };
	char link[PATH_MAX];

	if (!read_link(of->segment.path, link))
		return 0;
	if (strcmp(link, SEGMENT_LINK) == 0)
		launcher_files(SEGMENT_LINK, add_memory, &x);
	else
		add_folder(&x, link, NULL);
	vec_sort(&out->all, by_number);
	return x.has_no_memory ? -ENOMEM : 0;
}

int live_segments_beside(const struct live_segment *of, const char *prefix,
			 struct live_segments *out)
{
	struct search x = { .found = out };
	char link[PATH_MAX];

	if (read_link(of->segment.path, link) && strcmp(link, SEGMENT_LINK) != 0)
		add_folder(&x, link, prefix);
	vec_sort(&out->all, by_number);
	return x.has_no_memory ? -ENOMEM : 0;
}

void live_segments_release(struct live_segments *s)
{
	for (size_t i = 0; i < s->all.count; i++)
		live_segment_release(&s->all.data[i]);
	vec_release(&s->all);
}
