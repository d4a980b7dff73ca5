/* replay_view.h: a plan, and what its execution gave, as text and JSON. */
#ifndef PITOT_REPLAY_REPLAY_VIEW_H
#define PITOT_REPLAY_REPLAY_VIEW_H

#include "replay/replay_run.h"

struct replay_view {
	const char *path; /* of the recording */
	uint32_t pid;
	const struct replay_plan *plan;
	const struct replay_settings *settings;
	const struct replay_result *result; /* NULL: --dry-run */
	unsigned width;
	bool color;
	struct strbuf *out;
};

extern const char *const replay_pace_names[], *const replay_stand_in_names[]; /* by enum */

/* JSON is one object and a newline; docs/replay.md describes its keys. */
void replay_text(const struct replay_view *v);
void replay_json(const struct replay_view *v);

#endif
