#include "capture/cpu/cpu_handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/io.h"
#include "format/handover_cell.h"

static struct {
	/*
	 * The descriptor is not kept: programs close what they do not know, and use its number
	 * again.
	 */
	char path[4096 + 64];
	struct cpu_handover_cell cell; /* as in the file; magic 0: there is none */
	off_t place;
	uint64_t recorded_ns; /* in rows, on disk or not */
} self;

static int open_file(int flags)
{
	int fd = open(self.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags);

	return fd < 0 ? -errno : io_above_standard(fd);
}

/*
 * Writes the part of the cell from an offset on. A recording that has ended has no file any more,
 * and needs none.
 */
static void put(size_t from, size_t size)
{
	int fd = open_file(0);

	if (fd < 0)
		return;
	if (pwrite(fd, (const char *)&self.cell + from, size, self.place + (off_t)from) !=
	    (ssize_t)size)
		self.cell.magic = 0;
	close(fd);
}

/*
 * Appends the cell. Several recorders do so at once; each finds its own where its descriptor stands
 * then.
 */
static int append(int fd)
{
	ssize_t n = write(fd, &self.cell, sizeof(self.cell));

	if (n != (ssize_t)sizeof(self.cell))
		return n < 0 ? -errno : -EIO;
	self.place = lseek(fd, 0, SEEK_CUR) - (off_t)sizeof(self.cell);
	if (self.place % (off_t)sizeof(self.cell) != 0)
		return -EIO;
	return self.place / (off_t)sizeof(self.cell) < (off_t)CPU_HANDOVER_CELLS ? 0 : -ENOSPC;
}

int cpu_handover_begin(const char *directory)
{
	int fd, err;

	snprintf(self.path, sizeof(self.path), "%s/" CPU_HANDOVER_FILE, directory);
	self.recorded_ns = 0;
	self.cell = (struct cpu_handover_cell){ .magic = CPU_HANDOVER_MAGIC,
						.pid = (uint32_t)getpid(),
						.since_ns = clock_machine_ns() };
	fd = open_file(O_APPEND);
	err = fd < 0 ? fd : append(fd);
	if (fd >= 0)
		close(fd);
	if (err < 0)
		self.cell.magic = 0;
	return err;
}

void cpu_handover_end(void)
{
	if (!self.cell.magic || self.cell.until_ns)
		return;
	self.cell.until_ns = clock_machine_ns();
	put(offsetof(struct cpu_handover_cell, until_ns), sizeof(self.cell.until_ns));
}

void cpu_handover_recorded(uint64_t ns)
{
	self.recorded_ns += ns;
}

void cpu_handover_stored(void)
{
	if (!self.cell.magic || self.cell.recorded_ns == self.recorded_ns)
		return;
	self.cell.recorded_ns = self.recorded_ns;
	put(offsetof(struct cpu_handover_cell, recorded_ns), sizeof(self.cell.recorded_ns));
}

void cpu_handover_after_fork(void)
{
	self.cell.magic = 0;
}
