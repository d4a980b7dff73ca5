#include "capture/gpufl_live.h"

#include "base/clock.h"
#include "capture/log.h"
#include "gpufl/gpufl_sink.h"

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
			   .on_error = tell },
		.epoch_offset_ns = (int64_t)(clock_read_ns(CLOCK_REALTIME) - clock_monotonic_ns()),
		.blocking_calls = !settings->sync,
	};
	struct sink *sink;
	struct error e = { 0 };

	gpufl_id_random(session);
	if (gpufl_sink_new(&o, &sink, &e) == 0)
		return sink;
	log_line("no logs for gpufl: %s", e.text);
	return NULL;
}
