#include "capture/cpu/cpu_handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/folder.h"
#include "format/handover_cell.h"

static struct {
	/*
	 * The file is opened for each write: programs close descriptors that they do not know, and
	 * reuse their numbers.
	 */
	char directory[4096];
	struct folder_id folder; /* which one that is */
	struct cpu_handover_cell cell; /* as in the file; magic 0: no cell was claimed */
	off_t place;
	uint64_t recorded_ns; /* in rows, whether on disk or not */
	uint64_t sealed_ns; /* in rows of the last seal */
} self;

static int open_file(int flags)
{
	_cleanup_close_ int folder = folder_open_known(self.directory, &self.folder);

	return folder_open_file(folder, CPU_HANDOVER_FILE, O_WRONLY | flags, FOLDER_ANY);
}

/*
 * Writes `size` bytes of the cell from offset `from`. The file of a recording that has ended is
 * gone, and not needed.
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
 * Appends the cell. Several recorders may append concurrently; each finds its own cell by the
 * position of its descriptor afterwards.
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

int cpu_handover_begin(const char *directory, const struct folder_id *folder)
{
	int fd, err;

	snprintf(self.directory, sizeof(self.directory), "%s", directory);
	self.folder = *folder;
	self.recorded_ns = self.sealed_ns = 0;
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

void cpu_handover_sealed(void)
{
	self.sealed_ns = self.recorded_ns;
}

void cpu_handover_stored(void)
{
	if (!self.cell.magic || self.cell.recorded_ns == self.sealed_ns)
		return;
	self.cell.recorded_ns = self.sealed_ns;
	put(offsetof(struct cpu_handover_cell, recorded_ns), sizeof(self.cell.recorded_ns));
}

void cpu_handover_after_fork(void)
{
	self.cell.magic = 0;
}
