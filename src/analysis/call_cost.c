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

/* Returns false if a number is impossible: the file is untrusted. */
static bool calibration_at(struct calibration *c, const struct trace *t, uint64_t at)
{
	struct row_calibration row;
	bool possible = true;

	calibration_init(c);
	trace_row(t, TABLE_calibration, at, &row);
	snprintf(c->version, sizeof(c->version), "%s", trace_string(t, row.version));
	snprintf(c->host, sizeof(c->host), "%s", trace_string(t, row.host));
	snprintf(c->gpu, sizeof(c->gpu), "%s", trace_string(t, row.gpu));
#define NUMBER(name, most)                                                                         \
	c->name = row.name;                                                                        \
	possible &= c->name <= (most);
	CALIBRATION_NUMBERS(NUMBER)
#undef NUMBER
#define NUMBER(name)                                                                               \
	if (!(row.missing & UINT64_C(1) << COLUMN_calibration_##name)) {                           \
		c->name = row.name;                                                                \
		possible &= c->name <= NS_PER_S;                                                   \
	}
	CALIBRATION_OPTIONAL(NUMBER)
#undef NUMBER
	return possible;
}

int calibration_recorded(struct calibration *c, struct trace *t, size_t process, struct error *e)
{
	int code = trace_load(t, TABLE_calibration, 0, e);

	if (code < 0)
		return code;
	for (uint64_t row = 0; row < trace_rows(t, TABLE_calibration); row++)
		if (calibration_at(c, t, row) && calibration_fits(c, t, process, NULL) == 0)
			return 1;
	return 0;
}
