/* no_gpu.c: why a recording has no GPU work. */
#include "analysis/capabilities.h"
#include "analysis/report.h"

static int run(struct report *r, void *out)
{
	struct no_gpu *n = out;
	int code = capability_cpu_only(r->trace, &n->cpu_only, NULL);

	if (code >= 0 && !n->cpu_only)
		code = capability_no_gpu(r->trace, &n->why, NULL);
	if (code >= 0 && !n->cpu_only && !n->why.length)
		code = capability_refused_processes(r->trace, &n->refused);
	return code;
}

static void release(void *out)
{
	struct no_gpu *n = out;

	strbuf_release(&n->why);
}

/*
 * reads_others also because it loads tables that only an explanation needs, so it must run alone.
 */
const struct analysis analysis_no_gpu = {
	.size = sizeof(struct no_gpu),
	.run = run,
	.release = release,
	.reads_others = true,
};
