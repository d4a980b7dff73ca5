#include "sampler/perf/perf_handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/folder.h"

int perf_handover_open(struct perf_handover *h, const char *directory, const struct folder_id *id)
{
	int folder = folder_open_known(directory, id), fd;

	*h = (struct perf_handover){ .folder = folder };
	if (folder < 0)
		return folder;
	unlinkat(folder, CPU_HANDOVER_FILE, 0);
	fd = folder_create_file(folder, CPU_HANDOVER_FILE);
	if (fd >= 0) {
		close(fd);
		fd = folder_open_file(folder, CPU_HANDOVER_FILE, O_RDWR, FOLDER_ANY);
	}
	if (fd < 0) {
		close(folder);
		return fd;
	}
	h->fd = fd;
	return 0;
}

void perf_handover_close(struct perf_handover *h)
{
	if (!h->fd)
		return;
	unlinkat(h->folder, CPU_HANDOVER_FILE, 0);
	close(h->folder);
	close(h->fd);
	vec_release(&h->cells);
	map_release(&h->newest);
	map_release(&h->owed);
	h->fd = 0;
}

/* --- cells --- */

/* Returns 1 + index of the newest cell of a process; 0: none. */
static size_t newest(const struct perf_handover *h, pid_t pid)
{
	uint64_t cell;

	return map_get(&h->newest, (uint64_t)pid, &cell) ? (size_t)cell : 0;
}

static int add_cell(struct perf_handover *h, const struct cpu_handover_cell *file)
{
	struct handed_cell cell = { .file = *file };
	bool is_valid = file->magic == CPU_HANDOVER_MAGIC && file->pid;
	int err;

	cell.older = is_valid ? newest(h, (pid_t)file->pid) : 0;
	err = vec_push(&h->cells, cell);
	if (err >= 0 && is_valid)
		err = map_put(&h->newest, file->pid, h->cells.count);
	return err;
}

static int update_cell(struct perf_handover *h, size_t index, const struct cpu_handover_cell *file)
{
	struct handed_cell *known;

	if (index == h->cells.count)
		return add_cell(h, file);
	known = &h->cells.data[index];
	if (!known->is_final) {
		known->file.until_ns = file->until_ns;
		known->file.recorded_ns = file->recorded_ns;
	}
	return 0;
}

void perf_handover_read(struct perf_handover *h)
{
	struct cpu_handover_cell cells[256];
	size_t count = ARRAY_SIZE(cells);

	for (size_t at = 0; h->fd && count == ARRAY_SIZE(cells) && at < CPU_HANDOVER_CELLS;) {
		ssize_t n = pread(h->fd, cells, sizeof(cells), (off_t)(at * sizeof(*cells)));

		count = n > 0 ? (size_t)n / sizeof(*cells) : 0;
		for (size_t i = 0; i < count; i++)
			if (update_cell(h, at++, &cells[i]) < 0)
				return;
	}
}

bool perf_handover_has(const struct perf_handover *h, pid_t pid, uint64_t time_ns)
{
	for (size_t i = newest(h, pid); i; i = h->cells.data[i - 1].older) {
		const struct cpu_handover_cell *c = &h->cells.data[i - 1].file;

		if (time_ns >= c->since_ns && (!c->until_ns || time_ns < c->until_ns))
			return true;
	}
	return false;
}

uint64_t perf_handover_recorded(const struct perf_handover *h)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < h->cells.count; i++)
		if (h->cells.data[i].file.magic == CPU_HANDOVER_MAGIC)
			ns += h->cells.data[i].file.recorded_ns;
	return ns;
}

/* --- processes --- */

bool perf_handover_owe(struct perf_handover *h, pid_t pid, uint64_t owed_ns)
{
	uint64_t *owed = newest(h, pid) ? map_at(&h->owed, (uint64_t)pid, 0) : NULL;

	if (owed)
		*owed += owed_ns;
	return owed != NULL;
}

/*
 * Ends the cells that a process image had at time_ns, with their present values. Younger cells
 * belong to the next image, or to the next process with this pid. Returns what all cells until then
 * have recorded.
 */
static uint64_t end_image(struct perf_handover *h, pid_t pid, uint64_t time_ns)
{
	uint64_t recorded_ns = 0;

	for (size_t i = newest(h, pid); i; i = h->cells.data[i - 1].older) {
		struct handed_cell *c = &h->cells.data[i - 1];

		if (c->file.since_ns > time_ns)
			continue;
		if (!c->file.until_ns)
			c->file.until_ns = time_ns;
		c->is_final = true;
		recorded_ns += c->file.recorded_ns;
	}
	return recorded_ns;
}

void perf_handover_exec(struct perf_handover *h, pid_t pid, uint64_t time_ns)
{
	perf_handover_read(h);
	end_image(h, pid, time_ns);
}

/* Removes the cells of a process that has ended: its pid may be reused. */
static void forget(struct perf_handover *h, pid_t pid)
{
	size_t next = 0;

	for (size_t i = newest(h, pid), older; i; i = older) {
		struct handed_cell *c = &h->cells.data[i - 1];

		older = c->older;
		c->older = 0;
		if (!c->is_final)
			next = i;
	}
	*map_at(&h->newest, (uint64_t)pid, 0) = next;
}

uint64_t perf_handover_exit(struct perf_handover *h, pid_t pid, uint64_t time_ns)
{
	uint64_t recorded_ns, *owed, remainder_ns = 0;

	perf_handover_read(h);
	if (!newest(h, pid))
		return 0;
	recorded_ns = end_image(h, pid, time_ns);
	owed = map_at(&h->owed, (uint64_t)pid, 0);
	if (owed) {
		remainder_ns = *owed - MIN(recorded_ns, *owed);
		*owed = 0;
	}
	forget(h, pid);
	return remainder_ns;
}
