#include "capture/engines/socket_lock.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

bool socket_lock_take(struct own_fd *own, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length =
		(size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);

	if (own_fd_set(own, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
		return true;
	if (bind(own->fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			     MIN(length, sizeof(address.sun_path) - 2))) == 0)
		return true;
	own_fd_close(own);
	return false;
}
