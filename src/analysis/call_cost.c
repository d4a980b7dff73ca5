#include "analysis/call_cost.h"

#include <stdio.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/clock.h"
#include "trace/columns.h"

int calibration_fits(const struct calibration *c, const struct trace *t, size_t process,
		     struct error *e)
{
	const struct device_columns *d = device_columns(t);
	const char *host = trace_process(t, process)->host;
	bool has_gpu = false;

	if (strcmp(c->version, PITOT_VERSION) != 0)
		return error_set(e, E_UNSUPPORTED, "it is of Pitot %s; `pitot calibrate` renews it",
				 c->version);
	if (!*c->host || strcmp(c->host, host) != 0)
		return error_set(e, E_UNSUPPORTED, "it is of host '%s', the recording of '%s'",
				 c->host, host);
	for (struct row_walk w = process_rows(t, TABLE_device, process); row_walk_next(&w);) {
		const char *name = trace_string(t, d->name[w.row]);

		has_gpu = true;
		if (strcmp(c->gpu, name) != 0)
			return error_set(e, E_UNSUPPORTED,
					 "it is of GPU '%s', the recording of '%s'", c->gpu, name);
		if (c->driver_version != d->driver_version[w.row])
			return error_set(e, E_UNSUPPORTED,
					 "it is of another driver; `pitot calibrate` renews it");
	}
	return has_gpu ? 0 : error_set(e, E_UNSUPPORTED, "the recording does not name its GPU");
}

static struct calibration calibration_at(const struct trace *t, uint64_t row)
{
	const struct calibration_columns *k = calibration_columns(t);
	struct calibration c = {
		.driver_version = k->driver_version[row],
		.rounds = k->rounds[row],
		.launch_ns = k->launch_ns[row],
		.launch_spread_ns = k->launch_spread_ns[row],
		.synchronize_ns = k->synchronize_ns[row],
		.synchronize_spread_ns = k->synchronize_spread_ns[row],
	};

	snprintf(c.version, sizeof(c.version), "%s", trace_string(t, k->version[row]));
	snprintf(c.host, sizeof(c.host), "%s", trace_string(t, k->host[row]));
	snprintf(c.gpu, sizeof(c.gpu), "%s", trace_string(t, k->gpu[row]));
	return c;
}

int calibration_recorded(struct calibration *c, struct trace *t, size_t process, struct error *e)
{
	int code = trace_load(t, TABLE_calibration,
			      COLUMN_BITS(calibration, version, host, gpu, driver_version, rounds,
					  launch_ns, launch_spread_ns, synchronize_ns,
					  synchronize_spread_ns),
			      e);

	if (code < 0)
		return code;
	for (uint64_t row = 0; row < trace_rows(t, TABLE_calibration); row++) {
		*c = calibration_at(t, row);
		if (MAX(c->launch_ns, c->synchronize_ns) <= NS_PER_S &&
		    MAX(c->launch_spread_ns, c->synchronize_spread_ns) <= NS_PER_S &&
		    calibration_fits(c, t, process, NULL) == 0)
			return 1;
	}
	return 0;
}
