/* gpufl_live.c: writes gpufl's logs while a program runs. */
#include "capture/core/sinks.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "capture/core/log.h"
#include "gpufl/gpufl_sink.h"

static void tell(const char *text)
{
	log_line("%s", text);
}

static const void *address_of(const struct ifaddrs *i, int family)
{
	const struct sockaddr_in6 *six = (const void *)i->ifa_addr;

	if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
	    i->ifa_flags & IFF_LOOPBACK)
		return NULL;
	if (family == AF_INET)
		return &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
	return IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) ? NULL : (const void *)&six->sin6_addr;
}

/* Finds an address by which others may know the machine, IPv4 if possible; "": there is none. */
static void find_address(char out[INET6_ADDRSTRLEN])
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct ifaddrs *all = NULL;
	const void *address;

	out[0] = '\0';
	if (getifaddrs(&all) < 0)
		return;
	for (size_t f = 0; f < ARRAY_SIZE(families) && !out[0]; f++)
		for (const struct ifaddrs *i = all; i && !out[0]; i = i->ifa_next)
			if ((address = address_of(i, families[f])))
				inet_ntop(families[f], address, out, INET6_ADDRSTRLEN);
	freeifaddrs(all);
}

static struct sink *open(const struct settings *settings, const char *where, struct error *e)
{
	char session[GPUFL_ID_BYTES], address[INET6_ADDRSTRLEN];
	struct gpufl_options o = {
		.files = { .log_path = where,
			   .session = session,
			   .background = true,
			   .on_error = tell },
		.address = address,
		.epoch_offset_ns = (int64_t)(clock_read_ns(CLOCK_REALTIME) - clock_monotonic_ns()),
		.blocking_calls = !settings->sync,
	};
	struct sink *sink;

	gpufl_id_random(session);
	find_address(address);
	return gpufl_sink_new(&o, &sink, e) == 0 ? sink : NULL;
}

const struct sink_kind gpufl_sink_kind = { .name = "gpufl", .open = open };
