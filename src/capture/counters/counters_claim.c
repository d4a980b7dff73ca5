#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/io.h"
#include "base/map.h"
#include "capture/counters/counters_source.h"

bool counters_claim(struct counters_claim *claims, size_t count, size_t i, const char *directory,
		    const char *what)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length;
	int fd;

	for (size_t k = 0; k < count; k++)
		if (strncmp(claims[k].what, what, sizeof(claims[k].what) - 1) == 0)
			return true;
	fd = io_above_standard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return true;
	length = (socklen_t)snprintf(
		address.sun_path + 1, sizeof(address.sun_path) - 1, "pitot-nvml-%016llx-%.32s",
		(unsigned long long)hash_bytes(directory, strlen(directory)), what);
	if (bind(fd, (struct sockaddr *)&address,
		 (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + length) == 0) {
		claims[i].fd = fd;
		snprintf(claims[i].what, sizeof(claims[i].what), "%s", what);
		return true;
	}
	close(fd);
	return false;
}

void counters_disclaim(const struct counters_claim *claims, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (claims[i].fd > 0)
			close(claims[i].fd);
}
