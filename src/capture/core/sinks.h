/*
 * sinks.h: where a session's rows go. A kind of sink is a file that defines a struct sink_kind, and
 * one line in schema/sink_names.h; nothing else knows it by name. Setting `sinks` selects kinds as
 * NAME:WHERE.
 */
#ifndef PITOT_CAPTURE_SINKS_H
#define PITOT_CAPTURE_SINKS_H

#include "base/error.h"
#include "format/sink.h"
#include "schema/settings.h"

struct sink_kind {
	const char *name; /* in the setting; lower-case letters */
	/*
	 * Opens a sink for one session. `where` is the text after the colon: a folder, which
	 * exists, a size, or "". May wait for a disk: no lock is held. NULL: *e says why not. What
	 * a sink keeps in memory it limits itself; its operations are those of format/sink.h.
	 */
	struct sink *(*open)(const struct settings *settings, const char *where, struct error *e);
};

/* Opens a sink of the kind with that name. NULL: *e says why not. */
struct sink *sink_open(const struct settings *settings, const char *name, const char *where,
		       struct error *e) MUST_USE;

#endif
