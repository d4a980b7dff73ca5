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
#include "format/segment.h"

#define RECORDER_THREAD "pitot" /* the writer's name */
#define LAUNCHER "pitot"
#define SEGMENTS_MAX 1024u

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

static bool read_link(const char *path, char link[PATH_MAX])
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
		if (read_link(path, link) && (wanted ? !strcmp(link, wanted) : is_segment(link)))
			found(user, path, link);
	}
}

int live_segments_visit(pid_t pid, live_segment_found *found, void *user)
{
	_cleanup_list_ DIR *tasks = folder_list_process(pid, "task");
	const char *task;

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

	return read_link(s->segment.path, link) && live_link_is_memory(link);
}

/* Of several recordings of the process the one that began last has the most rows to come. */
static void consider(void *user, const char *path, const char *link)
{
	const struct newest *newest = user;
	struct live_segment *best = newest->found, s;

	(void)link;
	if (live_segment_open(io_open_file(path, NULL), &s) < 0)
		return;
	if (s.segment.closed || (newest->session && s.segment.header.session != newest->session) ||
	    (best->segment.path &&
	     best->segment.header.start_monotonic_ns >= s.segment.header.start_monotonic_ns)) {
		live_segment_release(&s);
		return;
	}
	live_segment_release(best);
	*best = s;
}

int live_segment_find(pid_t pid, uint64_t session, struct live_segment *out)
{
	struct newest newest = { session, out };
	int rc;

	*out = (struct live_segment){ .fd = -1 };
	rc = live_segments_visit(pid, consider, &newest);
	return rc < 0 ? rc : out->segment.path ? 0 : -ESRCH;
}

struct same_file {
	const struct segment *segment;
	bool is_found;
};

static void is_same_file(void *user, const char *path, const char *link)
{
	struct same_file *same = user;
	struct stat st;

	(void)link;
	same->is_found |= stat(path, &st) == 0 && st.st_dev == same->segment->device &&
			  st.st_ino == same->segment->inode;
}

bool live_segment_is_written(const struct live_segment *s, pid_t pid)
{
	struct same_file same = { &s->segment, false };

	return live_segments_visit(pid, is_same_file, &same) == 0 && same.is_found;
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

static void add_memory(void *user, const char *path, const char *link)
{
	(void)link;
	add(user, io_open_file(path, NULL));
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
	if (live_link_is_memory(link))
		live_launchers_visit(LIVE_SEGMENT_LINK, add_memory, &x);
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

	if (read_link(of->segment.path, link) && !live_link_is_memory(link))
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
