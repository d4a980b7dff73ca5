#include "cli/diff_determinism.h"

#include "cli/ui.h"
#include "compare/determinism.h"
#include "report/report_view.h"

struct side {
	char *path;
	struct trace *trace;
	struct launch_order order;
};

static int read_side(const struct context *c, const char *recording, struct side *s)
{
	struct progress progress;
	struct error e = { 0 };
	int status = cli_open_trace(c, recording, &progress, &s->path, &s->trace);

	if (status != EXIT_DONE)
		return status;
	if (launch_order_init(&s->order, s->trace, &e) < 0) {
		error_prefix(&e, "%s", s->path ? s->path : recording);
		status = EXIT_FAILED;
	}
	progress_end(&progress);
	if (status != EXIT_DONE)
		cli_fail(c, &e);
	cli_warn_loss(c, s->trace);
	return status;
}

static void side_release(struct side *s)
{
	launch_order_release(&s->order);
	trace_free(s->trace);
	free(s->path);
}

static int compare(const struct context *c, char **recordings, struct side *a, struct side *b)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const char *path_a = a->path ? a->path : recordings[0],
		   *path_b = b->path ? b->path : recordings[1];
	struct determinism d;
	int status;

	if (determinism_init(&d, &a->order, &b->order) < 0)
		status = cli_failf(c, "out of memory");
	else {
		if (c->json)
			determinism_json(&d, path_a, path_b, &out);
		else
			determinism_text(&d, path_a, path_b,
					 MIN(MAX(c->width, REPORT_WIDTH_MIN), REPORT_WIDTH_MAX),
					 c->color, &out);
		status = cli_print(c, &out);
		for (unsigned i = 0; i < LEVEL_COUNT && status == EXIT_DONE; i++)
			if (d.levels[i] == LEVEL_DIFFERENT)
				status = EXIT_FAILED;
	}
	determinism_release(&d);
	return status;
}

int diff_determinism(const struct context *c, char **recordings)
{
	struct side a = { 0 }, b = { 0 };
	int status = read_side(c, recordings[0], &a);

	if (status == EXIT_DONE)
		status = read_side(c, recordings[1], &b);
	if (status == EXIT_DONE)
		status = compare(c, recordings, &a, &b);
	side_release(&a);
	side_release(&b);
	return status;
}
