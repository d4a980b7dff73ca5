#include "agent/agent_sources.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/path.h"
#include "base/search.h"
#include "record/live_segment.h"
#include "sampler/proc_tree.h"

#define SEARCH_NS (5 * NS_PER_S)
#define SEARCH_SHARE 500u /* see pace.h */
#define FOLDERS_MAX 4096u
#define GAP_SEARCHES 2u

/* --- sources --- */

static void release_segment(struct source_segment *s)
{
	if (s->fd < 0)
		return;
	rule_segment_free(s->rules);
	s->rules = NULL;
	segment_release(&s->segment);
	close(s->fd);
	s->fd = -1;
}

void source_free(struct source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->segments.count; i++)
		release_segment(&source->segments.data[i]);
	vec_release(&source->segments);
	vec_release(&source->work.devices);
	free(source->identity.job);
	free(source->identity.host);
	free(source->last_window);
	step_ranges_release(&source->steps);
	free(source);
}

/* Of sources that are gone, the one that was seen first makes room. */
static bool drop_oldest(struct sources *s)
{
	size_t oldest = SIZE_MAX;

	for (size_t i = 0; i < s->all.count; i++)
		if (!s->all.data[i]->is_live && s->all.data[i]->used < s->searches &&
		    (oldest == SIZE_MAX || s->all.data[i]->used < s->all.data[oldest]->used))
			oldest = i;
	if (oldest == SIZE_MAX)
		return false;
	source_free(s->all.data[oldest]);
	s->all.data[oldest] = s->all.data[--s->all.count];
	return true;
}

/* Finds or adds a source; NULL: no memory, or too many. */
static struct source *sources_at(struct sources *s, uint64_t session, uid_t owner, uint32_t pid)
{
	struct source *source;

	for (size_t i = 0; i < s->all.count; i++)
		if (s->all.data[i]->session == session && s->all.data[i]->owner == owner)
			return s->all.data[i];
	if (s->all.count >= SOURCES_MAX && !drop_oldest(s))
		return NULL;
	source = calloc(1, sizeof(*source));
	if (!source || vec_push(&s->all, source) < 0) {
		free(source);
		return NULL;
	}
	*source = (struct source){ .session = session,
				   .owner = owner,
				   .pid = pid,
				   .used = s->searches,
				   .identity.rank = TRACE_NO_RANK };
	return source;
}

/* --- segments --- */

/* Whether nothing is to be done about a file. */
static bool is_known(struct sources *s, const struct stat *st, bool is_live)
{
	for (size_t i = 0; i < s->all.count; i++) {
		struct source *source = s->all.data[i];

		for (size_t k = 0; k < source->segments.count; k++) {
			struct source_segment *segment = &source->segments.data[k];

			if (segment->device != st->st_dev || segment->inode != st->st_ino)
				continue;
			segment->is_seen = true;
			source->is_live |= is_live;
			source->used = s->searches;
			if (segment->fd >= 0 || segment->is_read || segment->size == st->st_size)
				return true;
			memmove(segment, segment + 1,
				(--source->segments.count - k) * sizeof(*segment));
			return false;
		}
	}
	return false;
}

static size_t count_held(const struct source *source)
{
	size_t count = 0;

	for (size_t i = 0; i < source->segments.count; i++)
		count += source->segments.data[i].fd >= 0 && !source->segments.data[i].is_read;
	return count;
}

/* Holds a segment unless it was read, or is there already, or is not among the next ones. */
static int add_segment(struct source *source, struct source_segment *new)
{
	size_t at = source->segments.count;

	while (at > 0 && source->segments.data[at - 1].number >= new->number)
		at--;
	if (new->number < source->number ||
	    (at < source->segments.count && source->segments.data[at].number == new->number)) {
		release_segment(new); /* it is only known from now on */
		new->is_read = true;
	} else if (count_held(source) >= SOURCE_SEGMENTS_MAX) {
		return E_LIMIT; /* a later search finds it again */
	}
	if (vec_push(&source->segments, *new) < 0)
		return -ENOMEM;
	memmove(&source->segments.data[at + 1], &source->segments.data[at],
		(source->segments.count - 1 - at) * sizeof(*new));
	source->segments.data[at] = *new;
	return 0;
}

/* Takes a descriptor of a file that may be a segment. */
static void consider(struct sources *s, int fd, const struct stat *st, bool is_live)
{
	struct source_segment new = { st->st_dev, st->st_ino, .fd = fd, .is_seen = true };
	struct source *source;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (segment_open(path, &new.segment, NULL) < 0) { /* its header may come */
		close(fd);
		return;
	}
	new.number = new.segment.header.number;
	source = sources_at(s, new.segment.header.session, st->st_uid, new.segment.header.pid);
	if (!source || add_segment(source, &new) < 0) {
		release_segment(&new);
		return;
	}
	source->is_live |= is_live;
	source->used = s->searches;
}

/* --- folders --- */

/* Segments of processes: CPU samples, names and `pitot record`'s own rows are in others. */
static bool is_of_process(const char *name)
{
	return isdigit((unsigned char)*name) && has_suffix(name, SEGMENT_SUFFIX);
}

ORDER(compare_names, char *, strverscmp(*a, *b))

static void search_file(struct sources *s, int folder, const char *name)
{
	struct stat st;
	int fd;

	if (folder_stat(folder, name, &st) < 0 || is_known(s, &st, false))
		return;
	fd = folder_open_file(folder, name, O_RDONLY, FOLDER_ANY);
	if (fd >= 0 && fstat(fd, &st) == 0)
		consider(s, fd, &st, false);
	else if (fd >= 0)
		close(fd);
}

/* In the order of numbers, since only the next ones are held. */
static void search_folder(struct sources *s, int folder)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	VEC(char *) names = VEC_INIT;
	const char *name;

	while (list && (name = folder_next(list))) {
		char *copy = is_of_process(name) ? strdup(name) : NULL;

		if (copy && vec_push(&names, copy) < 0)
			free(copy);
	}
	vec_sort(&names, compare_names);
	for (size_t i = 0; i < names.count; i++) {
		search_file(s, folder, names.data[i]);
		free(names.data[i]);
	}
	vec_release(&names);
}

void sources_watch(struct sources *s, const char *path)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);
	struct watched_folder watched = { .path = NULL };

	if (folder_identify(folder, &watched.id) < 0 || s->folders.count >= FOLDERS_MAX)
		return;
	for (size_t i = 0; i < s->folders.count; i++)
		if (s->folders.data[i].id.device == watched.id.device &&
		    s->folders.data[i].id.inode == watched.id.inode)
			return;
	watched.path = realpath(path, NULL);
	if (!watched.path || vec_push(&s->folders, watched) < 0)
		free(watched.path);
}

/* A root has folders of recordings, or is one. */
static void search_root(struct sources *s, const char *root)
{
	_cleanup_close_ int folder = folder_open(root, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	const char *name;
	struct stat st;

	while (list && (name = folder_next(list))) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

		if (is_of_process(name))
			sources_watch(s, root);
		if (folder_stat(folder, name, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		strbuf_addf(&path, "%s/%s", root, name);
		if (!path.failed)
			sources_watch(s, strbuf_text(&path));
	}
}

/* Folders that are gone need not be watched. */
static void search_folders(struct sources *s)
{
	size_t kept = 0;

	for (size_t i = 0; s->roots && s->roots[i]; i++)
		search_root(s, s->roots[i]);
	for (size_t i = 0; i < s->folders.count; i++) {
		struct watched_folder *watched = &s->folders.data[i];
		_cleanup_close_ int folder = folder_open_known(watched->path, &watched->id);

		if (folder == -ENOENT || folder == E_MOVED) {
			free(watched->path);
			continue;
		}
		search_folder(s, folder);
		s->folders.data[kept++] = *watched;
	}
	s->folders.count = kept;
}

/* --- processes --- */

/* The folder in which a segment is written, if it is where the process says. */
static void watch_folder_of(struct sources *s, const char *link, const struct stat *st)
{
	_cleanup_free_ char *path = strdup(link);
	char *slash = path ? strrchr(path, '/') : NULL;
	_cleanup_close_ int folder = -1;
	struct stat found;

	if (!slash || slash == path)
		return;
	*slash = '\0';
	folder = folder_open(path, FOLDER_ANY);
	if (folder >= 0 && folder_stat(folder, slash + 1, &found) == 0 &&
	    found.st_dev == st->st_dev && found.st_ino == st->st_ino)
		sources_watch(s, path);
}

static void consider_live(void *user, const char *path, const char *link)
{
	struct sources *s = user;
	struct stat st;
	int fd;

	if (!live_link_is_memory(link) && !is_of_process(base_name(link)))
		return;
	if (stat(path, &st) == 0 && is_known(s, &st, true))
		return;
	fd = io_open_file(path, &st);
	if (fd < 0)
		return;
	if (!live_link_is_memory(link))
		watch_folder_of(s, link, &st);
	consider(s, fd, &st, true);
}

static void search_process(struct sources *s, pid_t pid)
{
	if (pid == getpid())
		return;
	(void)live_segments_visit(pid, consider_live, s);
	live_segments_visit_ring(pid, consider_live, s);
}

static void search_processes(struct sources *s)
{
	_cleanup_list_ DIR *processes = live_open_list("/proc");
	struct proc_tree tree = { 0 };
	const char *name;

	if (s->pid_count && proc_tree_read(&tree, s->pids, s->pid_count) < 0)
		tree.pids.count = 0;
	for (size_t i = 0; i < tree.pids.count; i++)
		search_process(s, tree.pids.data[i]);
	proc_tree_release(&tree);
	while (!s->pid_count && processes && (name = folder_next(processes)))
		if (live_is_number(name))
			search_process(s, (pid_t)strtol(name, NULL, 10));
}

/* Releases what was read long enough ago. */
static void release_read(const struct sources *s, struct source *source)
{
	uint64_t now = clock_monotonic_ns();
	size_t count = 0;

	for (size_t i = source->segments.count; i-- > 0;) {
		struct source_segment *segment = &source->segments.data[i];

		if (segment->fd >= 0 && segment->is_read &&
		    (now - segment->read_ns > s->keep_ns || ++count > SOURCE_READ_MAX))
			release_segment(segment);
	}
}

/* What is no longer there, and was read, need not be known any more. */
static void forget_segments(const struct sources *s, struct source *source)
{
	size_t kept = 0;

	release_read(s, source);
	for (size_t i = 0; i < source->segments.count; i++)
		if (source->segments.data[i].is_seen || source->segments.data[i].fd >= 0)
			source->segments.data[kept++] = source->segments.data[i];
	source->segments.count = kept;
}

void sources_search(struct sources *s, bool now)
{
	uint64_t cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

	if (!pace_is_due_after(&s->pace, SEARCH_NS, clock_monotonic_ns()) && !now)
		return;
	s->searches++;
	for (size_t i = 0; i < s->all.count; i++) {
		s->all.data[i]->is_live = false;
		for (size_t k = 0; k < s->all.data[i]->segments.count; k++)
			s->all.data[i]->segments.data[k].is_seen = false;
	}
	if (!s->no_processes)
		search_processes(s);
	search_folders(s);
	for (size_t i = 0; i < s->all.count; i++)
		forget_segments(s, s->all.data[i]);
	pace_add(&s->pace, clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns, SEARCH_SHARE);
}

/* --- what is next --- */

/* The number after that of the last block. */
static uint64_t end_of_blocks(const struct segment *s)
{
	return s->block_count ? s->blocks[s->block_count - 1].header.number + 1 : 0;
}

/* Whether a segment is next by its number: those before it are read, or were never found. */
static bool is_next(const struct sources *s, struct source *source, uint32_t number)
{
	if (number <= source->number)
		return true;
	source->gap = source->gap ? source->gap : s->searches;
	if (s->searches < source->gap + GAP_SEARCHES)
		return false;
	source->lost_segments += number - source->number;
	source->number = number;
	source->block = 0;
	return true;
}

/* Its file may still grow, if somebody writes it whom we do not see. */
static void let_go(struct source_segment *s)
{
	s->size = (off_t)s->segment.size;
	release_segment(s);
}

static void finish_segment(struct source *source, struct source_segment *s)
{
	s->is_read = true;
	s->read_ns = clock_monotonic_ns();
	source->number = s->number + 1;
	source->block = 0;
}

const struct segment *source_next(const struct sources *s, struct source *source, uint64_t *end)
{
	for (size_t i = 0; i < source->segments.count; i++) {
		struct source_segment *segment = &source->segments.data[i];
		bool is_last = i + 1 == source->segments.count;

		if (segment->is_read || segment->number < source->number)
			continue;
		if (!is_next(s, source, segment->number))
			return NULL;
		source->gap = 0;
		if (segment->fd >= 0) {
			(void)!segment_refresh(&segment->segment, NULL);
			*end = end_of_blocks(&segment->segment);
			if (*end > source->block)
				return &segment->segment;
		}
		if (!is_last || (segment->fd >= 0 && segment->segment.closed))
			finish_segment(source, segment);
		else if (segment->fd >= 0 && !source->is_live)
			let_go(segment);
	}
	release_read(s, source);
	return NULL;
}

struct source_place source_end(struct source *source)
{
	struct source_place end = { source->number, source->block };

	for (size_t i = 0; i < source->segments.count; i++) {
		struct source_segment *s = &source->segments.data[i];

		if (s->fd < 0 || s->is_read || s->number < end.number)
			continue;
		(void)!segment_refresh(&s->segment, NULL);
		end = (struct source_place){ s->number, end_of_blocks(&s->segment) };
	}
	return end;
}

bool source_is_at(const struct source *source, const struct source_place *place)
{
	return source->number > place->number ||
	       (source->number == place->number && source->block >= place->block);
}

void sources_release(struct sources *s)
{
	for (size_t i = 0; i < s->all.count; i++)
		source_free(s->all.data[i]);
	for (size_t i = 0; i < s->folders.count; i++)
		free(s->folders.data[i].path);
	vec_release(&s->all);
	vec_release(&s->folders);
}
