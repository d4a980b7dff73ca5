#include "capture/gpufl_live.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/clock.h"
#include "capture/log.h"
#include "gpufl/gpufl_sink.h"

/* Of the program's C++ library, if it has one that all can see. */
typedef char *demangler(const char *name, char *out, size_t *length, int *status);

/* Once a name, on the collector's thread. */
static void demangle_name(void *user, const char *name, struct strbuf *out)
{
	demangler *f = (demangler *)(uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_demangle");
	char *text = f && name[0] == '_' ? f(name, NULL, NULL, NULL) : NULL;

	(void)user;
	if (text)
		strbuf_adds(out, text);
	free(text);
}

static void tell(const char *text)
{
	log_line("%s", text);
}

struct sink *gpufl_live_open(const struct settings *settings)
{
	char session[GPUFL_ID_BYTES];
	struct gpufl_options o = {
		.files = { .log_path = settings->log_path,
			   .session = session,
			   .background = true,
			   .tell = tell },
		.epoch_offset_ns = (int64_t)(clock_read_ns(CLOCK_REALTIME) - clock_monotonic_ns()),
		.blocking_calls = !settings->sync,
		.demangle = demangle_name,
	};
	struct sink *sink;
	struct error e = { 0 };

	gpufl_id_random(session);
	if (gpufl_sink_new(&o, &sink, &e) == 0)
		return sink;
	log_line("no logs for gpufl: %s", e.text);
	return NULL;
}
