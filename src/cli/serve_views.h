/* serve_views.h: what `pitot serve` shows of recordings, rendered in its workers. */
#ifndef PITOT_CLI_SERVE_VIEWS_H
#define PITOT_CLI_SERVE_VIEWS_H

#include "serve/worker.h"
#include "trace/trace.h"

int serve_views(struct serve_target *t, const struct serve_ask *ask, struct strbuf *out,
		struct error *e);
/* Append a view; return 0 or a negative code. */
int serve_diff(struct trace *const traces[2], const struct serve_target *t, struct strbuf *out,
	       struct error *e);
int serve_programs(struct strbuf *out, struct error *e);

#endif
