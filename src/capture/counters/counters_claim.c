#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/map.h"
#include "capture/counters/counters_source.h"

bool counters_claim(struct counters_claim *claims, size_t count, size_t i, const char *directory,
		    const char *what)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct own_fd name;
	socklen_t length;

	for (size_t k = 0; k < count; k++)
		if (strncmp(claims[k].what, what, sizeof(claims[k].what) - 1) == 0)
			return true;
	if (own_fd_set(&name, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
		return true;
	length = (socklen_t)snprintf(
		address.sun_path + 1, sizeof(address.sun_path) - 1, "pitot-nvml-%016llx-%.32s",
		(unsigned long long)hash_bytes(directory, strlen(directory)), what);
	if (bind(name.fd, (struct sockaddr *)&address,
		 (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + length) == 0) {
		claims[i].socket = name;
		snprintf(claims[i].what, sizeof(claims[i].what), "%s", what);
		return true;
	}
	own_fd_close(&name);
	return false;
}

void counters_disclaim(struct counters_claim *claims, size_t count)
{
	for (size_t i = 0; i < count; i++)
		own_fd_close(&claims[i].socket);
}
