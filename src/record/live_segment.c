#include "record/live_segment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "base/search.h"
#include "record/live_segments.h"

#define SEGMENTS_MAX 1024u

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

	return live_read_link(s->segment.path, link) && live_link_is_memory(link);
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

	if (!live_read_link(of->segment.path, link))
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

	if (live_read_link(of->segment.path, link) && !live_link_is_memory(link))
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
