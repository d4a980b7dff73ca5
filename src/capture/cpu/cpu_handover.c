#include "capture/cpu/cpu_handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/reserve.h"
#include "format/handover_cell.h"

#define FILES_MAX 1000u

struct cell {
	struct cpu_handover_cell file; /* as in the file */
	uint64_t recorded_ns; /* in rows, on disk or not */
	struct cpu_slot *slot; /* NULL: it is settled, or was never used */
	bool ended;
};

static struct {
	bool on;
	/* The descriptor is not kept: programs close what they do not know, and use its number again. */
	char path[4096 + 64];
	struct cell *cells; /* [0] is the file's own; kept for the next session */
	uint32_t used, last; /* cells in the file; the one that was begun last */
} self;

/* Part of a cell, from an offset on. */
static bool put(int fd, const struct cell *c, size_t from, size_t size)
{
	off_t place = (off_t)((size_t)(c - self.cells) * sizeof(c->file) + from);

	return pwrite(fd, (const char *)&c->file + from, size, place) == (ssize_t)size;
}

#define PUT(fd, c, member)                                                                         \
	put(fd, c, offsetof(struct cpu_handover_cell, member), sizeof((c)->file.member))

static bool put_state(int fd, struct cell *c, enum cpu_handover_state state)
{
	c->file.state = (uint32_t)state;
	return PUT(fd, c, state);
}

/* What the state says something of comes first. */
static bool put_cell(int fd, struct cell *c, enum cpu_handover_state state)
{
	size_t from = offsetof(struct cpu_handover_cell, tid);

	return put(fd, c, from, sizeof(c->file) - from) && put_state(fd, c, state);
}

static int open_file(int flags)
{
	int fd = open(self.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0666);

	if (fd >= 0)
		return io_above_standard(fd);
	/* The recording has ended: nobody else samples us any more. */
	if (errno == ENOENT)
		self.on = false;
	return -errno;
}

static int create(const char *directory)
{
	int fd = -EEXIST;

	for (unsigned n = 0; n < FILES_MAX && fd == -EEXIST; n++) {
		snprintf(self.path, sizeof(self.path), "%s/%d.%u" CPU_HANDOVER_SUFFIX, directory,
			 (int)getpid(), n);
		fd = open_file(O_CREAT | O_EXCL);
	}
	return fd;
}

int cpu_handover_open(const char *directory)
{
	struct cell *cells = self.cells;
	int fd;

	if (!cells)
		self.cells = cells = reserve_memory(CPU_HANDOVER_CELLS * sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	for (uint32_t i = 1; i < self.used; i++)
		cells[i].slot = NULL; /* of a session before a fork */
	fd = create(directory);
	if (fd < 0)
		return fd;
	cells[0] = (struct cell){ .file = { .tid = (uint32_t)getpid(),
					    .since_ns = clock_machine_ns() } };
	self.on = put_cell(fd, cells, CPU_HANDOVER_FILE);
	self.used = 1;
	self.last = 0;
	close(fd);
	return self.on ? 0 : -EIO;
}

bool cpu_handover_on(void)
{
	return self.on;
}

static struct cell *cell_of(const struct cpu_slot *s)
{
	return self.on && s->cell ? &self.cells[s->cell] : NULL;
}

/* The one that was settled longest ago; NULL: all are in use. */
static struct cell *free_cell(void)
{
	for (uint32_t i = 1; i < CPU_HANDOVER_CELLS; i++) {
		self.last = self.last % (CPU_HANDOVER_CELLS - 1) + 1;
		if (!self.cells[self.last].slot) {
			self.used = MAX(self.used, self.last + 1);
			return &self.cells[self.last];
		}
	}
	return NULL;
}

static bool hold(int fd, struct cell *c)
{
	c->file.since_ns = clock_machine_ns();
	c->file.until_ns = 0;
	return put_state(fd, c, CPU_HANDOVER_NONE) && put_cell(fd, c, CPU_HANDOVER_HELD);
}

bool cpu_handover_take(struct cpu_slot *s, bool again)
{
	struct cell *c;
	bool held;
	int fd;

	if (!self.on)
		return true;
	fd = open_file(0);
	if (fd < 0)
		return !self.on;
	c = again ? cell_of(s) : free_cell();
	if (c && !again) {
		*c = (struct cell){ .slot = s, .file.tid = s->tid };
		s->cell = (uint32_t)(c - self.cells);
	}
	held = c && hold(fd, c);
	close(fd);
	if (c && !held)
		cpu_handover_return(s);
	return held;
}

void cpu_handover_return(struct cpu_slot *s)
{
	struct cell *c = cell_of(s);
	int fd = c && c->file.state == CPU_HANDOVER_HELD ? open_file(0) : -EBADF;

	if (fd < 0)
		return;
	c->file.until_ns = clock_machine_ns();
	put_cell(fd, c, CPU_HANDOVER_RETURNED);
	close(fd);
}

void cpu_handover_ended(struct cpu_slot *s)
{
	struct cell *c = cell_of(s);

	if (c)
		c->ended = true;
}

void cpu_handover_recorded(struct cpu_slot *s, uint64_t ns)
{
	struct cell *c = cell_of(s);

	if (c)
		c->recorded_ns += ns;
}

/* No sample of it waits to become a row. */
static bool is_drained(const struct cell *c)
{
	const struct cpu_slot *s = c->slot;

	return &self.cells[s->cell] != c || atomic_load(&s->head) == atomic_load(&s->tail);
}

static void store(int fd, struct cell *c)
{
	bool grown = c->file.recorded_ns != c->recorded_ns;

	c->file.recorded_ns = c->recorded_ns;
	if (c->ended && is_drained(c)) {
		if (c->file.state == CPU_HANDOVER_HELD)
			c->file.until_ns = clock_machine_ns();
		put_cell(fd, c, CPU_HANDOVER_SETTLED);
		c->slot = NULL;
	} else if (grown) {
		PUT(fd, c, recorded_ns);
	}
}

void cpu_handover_stored(void)
{
	int fd = self.on ? open_file(0) : -EBADF;

	if (fd < 0)
		return;
	for (uint32_t i = 1; i < self.used; i++)
		if (self.cells[i].slot)
			store(fd, &self.cells[i]);
	close(fd);
}

void cpu_handover_after_fork(void)
{
	self.on = false;
}
