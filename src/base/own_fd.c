#include "base/own_fd.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

int own_fd_set(struct own_fd *own, int fd)
{
	struct stat st;
	int err;

	*own = (struct own_fd){ 0 };
	fd = fd < 0 ? -errno : io_above_standard(fd);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	*own = (struct own_fd){ fd, st.st_dev, st.st_ino };
	return 0;
}

bool own_fd_valid(const struct own_fd *own)
{
	struct stat st;

	return own->fd > STDERR_FILENO && fstat(own->fd, &st) == 0 && st.st_dev == own->device &&
	       st.st_ino == own->inode;
}

void own_fd_close(struct own_fd *own)
{
	if (own_fd_valid(own))
		close(own->fd);
	*own = (struct own_fd){ 0 };
}
