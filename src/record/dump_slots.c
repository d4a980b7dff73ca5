#include "record/dump_slots.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"

int dump_slot_take(void)
{
	int fd = io_above_standard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), err = 0;

	for (unsigned slot = 0; slot < DUMP_SLOTS && fd >= 0; slot++) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
				      DUMP_SLOT_NAME, (unsigned)geteuid(), slot);

		if (bind(fd, (const struct sockaddr *)&address,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
				 (socklen_t)length) == 0)
			return fd;
		err = errno == EADDRINUSE ? -EBUSY : -errno;
	}
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : err;
}
