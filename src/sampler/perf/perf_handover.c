#include "sampler/perf/perf_handover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

struct handed_cell {
	struct cpu_handover_cell file;
	bool claimed; /* its thread's end is known */
};

struct handed_end {
	struct handed_time time;
	size_t cell;
};

struct handed_process {
	pid_t pid;
	int fd; /* -1: there is no file yet */
	VEC(struct handed_cell) cells; /* those after the file's first */
	VEC(struct handed_end) ends; /* of which more can come */
};

void perf_handover_init(struct perf_handover *h, const char *directory, handed_rest *rest,
			void *context)
{
	*h = (struct perf_handover){ .directory = directory, .rest = rest, .context = context };
}

static struct handed_process *find(const struct perf_handover *h, pid_t pid)
{
	uint64_t p;

	return map_get(&h->index, (uint64_t)pid, &p) ? (struct handed_process *)(uintptr_t)p : NULL;
}

static void forget(struct perf_handover *h, struct handed_process *p)
{
	for (size_t i = 0; i < h->all.count; i++)
		if (h->all.data[i] == p) {
			h->all.data[i] = h->all.data[--h->all.count];
			break;
		}
	*map_at(&h->index, (uint64_t)p->pid, 0) = 0;
	if (p->fd >= 0)
		close(p->fd);
	vec_release(&p->cells);
	vec_release(&p->ends);
	free(p);
}

/* --- files --- */

static uint64_t next_image(const struct perf_handover *h, pid_t pid)
{
	uint64_t n;

	return map_get(&h->images, (uint64_t)pid, &n) ? n : 0;
}

static void path_of(const struct perf_handover *h, pid_t pid, uint64_t image, char *path,
		    size_t size)
{
	snprintf(path, size, "%s/%d.%u" CPU_HANDOVER_SUFFIX, h->directory, (int)pid,
		 (unsigned)image);
}

/* The process id is nobody's any more. */
static void remove_files(struct perf_handover *h, pid_t pid, uint64_t last)
{
	char path[4096 + 64];

	for (uint64_t n = 0; n <= last; n++) {
		path_of(h, pid, n, path, sizeof(path));
		unlink(path);
	}
	if (last)
		*map_at(&h->images, (uint64_t)pid, 0) = 0;
}

static bool read_cells(int fd, size_t first, struct cpu_handover_cell *cells, size_t max,
		       size_t *count)
{
	ssize_t n = pread(fd, cells, max * sizeof(*cells), (off_t)(first * sizeof(*cells)));

	*count = n > 0 ? (size_t)n / sizeof(*cells) : 0;
	return n >= 0;
}

/* before_ns: only a file that was made before that. */
static void open_file(const struct perf_handover *h, struct handed_process *p, uint64_t before_ns)
{
	struct cpu_handover_cell first;
	char path[4096 + 64];
	struct stat st;
	size_t count;

	path_of(h, p->pid, next_image(h, p->pid), path, sizeof(path));
	p->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (p->fd >= 0)
		p->fd = io_above_standard(p->fd);
	if (p->fd < 0) {
		p->fd = -1;
		return;
	}
	if (fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    !read_cells(p->fd, 0, &first, 1, &count) || !count ||
	    first.state != CPU_HANDOVER_FILE || first.tid != (uint32_t)p->pid ||
	    first.since_ns >= before_ns) {
		close(p->fd);
		p->fd = -1;
	}
}

static void take_cell(struct perf_handover *h, struct handed_cell *c,
		      const struct cpu_handover_cell *file)
{
	/* Its thread was settled: it is another's now. */
	if (c->file.state == CPU_HANDOVER_SETTLED && file->state != CPU_HANDOVER_SETTLED) {
		c->claimed = false;
		h->recorded_ns += c->file.recorded_ns;
	}
	c->file = *file;
}

static void read_file(struct perf_handover *h, struct handed_process *p)
{
	struct cpu_handover_cell cells[256];
	size_t count = ARRAY_SIZE(cells), at = 0;

	while (count == ARRAY_SIZE(cells) && at < CPU_HANDOVER_CELLS - 1) {
		if (!read_cells(p->fd, 1 + at, cells, ARRAY_SIZE(cells), &count))
			return;
		for (size_t i = 0; i < count && at < CPU_HANDOVER_CELLS - 1; i++, at++) {
			struct handed_cell fresh = { .file = cells[i] };

			if (at < p->cells.count)
				take_cell(h, &p->cells.data[at], &cells[i]);
			else if (vec_push(&p->cells, fresh) < 0)
				return;
		}
	}
}

/* --- time that has no sample --- */

static void settle(struct perf_handover *h, struct handed_process *p, const struct handed_end *end)
{
	const struct cpu_handover_cell *c = &p->cells.data[end->cell].file;

	if (c->tid == (uint32_t)end->time.tid && c->recorded_ns < end->time.owed_ns)
		h->rest(h->context, &end->time, end->time.owed_ns - c->recorded_ns);
}

/* Those whose cells are final: all of them if the process has ended. */
static void settle_ends(struct perf_handover *h, struct handed_process *p, bool all)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->ends.count; i++) {
		struct handed_end *end = &p->ends.data[i];

		if (all || p->cells.data[end->cell].file.state == CPU_HANDOVER_SETTLED)
			settle(h, p, end);
		else
			p->ends.data[kept++] = *end;
	}
	p->ends.count = kept;
}

static void look_at(struct perf_handover *h, struct handed_process *p)
{
	if (p->fd < 0)
		open_file(h, p, UINT64_MAX);
	if (p->fd < 0)
		return;
	read_file(h, p);
	settle_ends(h, p, false);
}

void perf_handover_look(struct perf_handover *h)
{
	for (size_t i = 0; i < h->all.count; i++)
		look_at(h, h->all.data[i]);
}

/* --- processes --- */

void perf_handover_watch(struct perf_handover *h, pid_t pid)
{
	struct handed_process *p;

	if (find(h, pid))
		return;
	p = calloc(1, sizeof(*p));
	if (!p || vec_push(&h->all, p) < 0) {
		free(p);
		return;
	}
	p->pid = pid;
	p->fd = -1;
	if (map_put(&h->index, (uint64_t)pid, (uintptr_t)p) < 0) {
		h->all.count--;
		free(p);
		return;
	}
	/* Samples that are looked at next may be as late as this. */
	look_at(h, p);
}

void perf_handover_search(struct perf_handover *h)
{
	DIR *folder = opendir(h->directory);
	struct dirent *entry;
	int pid, n;

	while (folder && (entry = readdir(folder))) {
		n = 0;
		if (sscanf(entry->d_name, "%d.%*u" CPU_HANDOVER_SUFFIX "%n", &pid, &n) == 1 && n &&
		    pid > 0)
			perf_handover_watch(h, pid);
	}
	if (folder)
		closedir(folder);
}

bool perf_handover_watches(const struct perf_handover *h, pid_t pid)
{
	return find(h, pid) != NULL;
}

static bool is_in(const struct cpu_handover_cell *c, uint64_t time_ns)
{
	switch (c->state) {
	case CPU_HANDOVER_HELD:
		return time_ns >= c->since_ns;
	case CPU_HANDOVER_RETURNED:
	case CPU_HANDOVER_SETTLED:
		return time_ns >= c->since_ns && time_ns < c->until_ns;
	default:
		return false;
	}
}

bool perf_handover_has(const struct perf_handover *h, pid_t pid, pid_t tid, uint64_t time_ns)
{
	const struct handed_process *p = find(h, pid);

	for (size_t i = 0; p && i < p->cells.count; i++) {
		const struct handed_cell *c = &p->cells.data[i];

		if (c->file.tid == (uint32_t)tid && !c->claimed && is_in(&c->file, time_ns))
			return true;
	}
	return false;
}

/* That of a thread that ended then: numbers are used again. */
static struct handed_cell *claim(struct handed_process *p, pid_t tid, uint64_t end_ns)
{
	for (size_t i = 0; p && i < p->cells.count; i++) {
		struct handed_cell *c = &p->cells.data[i];

		if (c->file.tid == (uint32_t)tid && c->file.state != CPU_HANDOVER_NONE &&
		    !c->claimed && c->file.since_ns <= end_ns) {
			c->claimed = true;
			return c;
		}
	}
	return NULL;
}

static uint64_t take_before(struct perf_handover *h, pid_t tid)
{
	uint64_t ns;

	if (!map_get(&h->before, (uint64_t)tid, &ns) || !ns)
		return 0;
	*map_at(&h->before, (uint64_t)tid, 0) = 0;
	return ns;
}

bool perf_handover_thread_ends(struct perf_handover *h, const struct handed_time *time)
{
	struct handed_process *p = find(h, time->pid);
	struct handed_cell *c = claim(p, time->tid, time->end_ns);
	uint64_t before_ns = take_before(h, time->tid);
	struct handed_end end = { .time = *time };

	if (!c && !before_ns)
		return false;
	end.time.owed_ns -= MIN(before_ns, time->owed_ns);
	if (!c) {
		if (end.time.owed_ns)
			h->rest(h->context, &end.time, end.time.owed_ns);
		return true;
	}
	end.cell = (size_t)(c - p->cells.data);
	/* Without memory it is time that nobody tells of. */
	return vec_push(&p->ends, end) == 0;
}

/* The thread goes on in the next program, as does what the kernel counts of it. */
static void keep_for_next(struct perf_handover *h, struct handed_process *p, uint64_t time_ns)
{
	struct handed_cell *c = claim(p, p->pid, time_ns);
	uint64_t *before = c ? map_at(&h->before, (uint64_t)p->pid, 0) : NULL;
	uint64_t *image = p->fd >= 0 ? map_at(&h->images, (uint64_t)p->pid, 0) : NULL;

	if (before)
		*before += c->file.recorded_ns;
	if (image)
		++*image;
}

void perf_handover_ends(struct perf_handover *h, pid_t pid, uint64_t time_ns, bool exec)
{
	struct handed_process *p = find(h, pid);
	uint64_t last = next_image(h, pid);

	if (!p) {
		if (!exec && last)
			remove_files(h, pid, last);
		return;
	}
	if (p->fd < 0)
		open_file(h, p, exec ? time_ns : UINT64_MAX);
	if (p->fd >= 0)
		read_file(h, p);
	settle_ends(h, p, true);
	for (size_t i = 0; i < p->cells.count; i++)
		h->recorded_ns += p->cells.data[i].file.recorded_ns;
	if (exec)
		keep_for_next(h, p, time_ns);
	else
		remove_files(h, pid, last);
	forget(h, p);
}

uint64_t perf_handover_recorded(const struct perf_handover *h)
{
	uint64_t ns = h->recorded_ns;

	for (size_t i = 0; i < h->all.count; i++)
		for (size_t k = 0; k < h->all.data[i]->cells.count; k++)
			ns += h->all.data[i]->cells.data[k].file.recorded_ns;
	return ns;
}

void perf_handover_release(struct perf_handover *h)
{
	while (h->all.count) {
		struct handed_process *p = h->all.data[0];

		remove_files(h, p->pid, next_image(h, p->pid));
		forget(h, p);
	}
	vec_release(&h->all);
	map_release(&h->index);
	map_release(&h->images);
	map_release(&h->before);
}
