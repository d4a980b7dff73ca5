/*
 * calibration.h: what recording adds to calls on this machine, as `pitot calibrate` measured it and
 * `pitot what-if` uses it: a file of the user's cache folder, which `pitot record` copies into
 * recordings.
 *
 * The file says for which host, GPU, driver and version of Pitot it is good. It is untrusted.
 */
#ifndef PITOT_SYSTEM_CALIBRATION_H
#define PITOT_SYSTEM_CALIBRATION_H

#include "base/error.h"
#include "base/strbuf.h"
#include "format/writer.h"

#define CALIBRATION_TEXT_MAX 256

struct calibration {
	char version[CALIBRATION_TEXT_MAX]; /* of Pitot */
	char host[CALIBRATION_TEXT_MAX], gpu[CALIBRATION_TEXT_MAX]; /* names */
	uint64_t driver_version; /* as in table device */
	uint64_t rounds;
	uint64_t launch_ns, launch_spread_ns; /* to a launching call; +/- this */
	uint64_t synchronize_ns, synchronize_spread_ns; /* to one that waits for work */
};

/* Appends one JSON object and a newline; docs/calibrate.md describes its keys. */
void calibration_json(const struct calibration *c, struct strbuf *out);
/* E_FORMAT: the bytes are something else, or a value is impossible. */
int calibration_parse(struct calibration *c, const char *bytes, size_t length,
		      struct error *e) MUST_USE;

/* Appends the path of the file, also on failure to read or write it. */
int calibration_read(struct calibration *c, struct strbuf *path, struct error *e) MUST_USE;
int calibration_write(const struct calibration *c, struct strbuf *path, struct error *e) MUST_USE;

/* Appends it to a recording. */
void calibration_write_row(const struct calibration *c, struct writer *w);

#endif
