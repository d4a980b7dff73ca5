#include "capture/engines/engine_notes.h"

#include <inttypes.h>
#include <string.h>

#include "base/plural.h"
#include "base/strbuf.h"
#include "capture/core/capability_notes.h"

static void note(const char *engine, const char *why)
{
	capability_note(feature_engine, capability_state_degraded, engine, "trace", "%s", why);
}

void engine_note_trace(const char *engine, const char *why)
{
	refusal_set(&refusals[REFUSAL_ENGINE], "%s", why);
	note(engine, why);
}

void engine_refuse_with(struct refusal *refusal, const struct hub_client *client,
			const char *engine, const char *format, va_list args)
{
	if (!refusal_set_with(refusal, format, args))
		return;
	hub_release_counters(client);
	engine_note_trace(engine, refusal->why);
}

void engine_refuse(struct refusal *refusal, const struct hub_client *client, const char *engine,
		   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	engine_refuse_with(refusal, client, engine, format, args);
	va_end(args);
}

void engine_note_refusal(const struct refusal *refusal, const char *engine)
{
	const char *why = refusal_text(refusal);

	if (why)
		engine_note_trace(engine, why);
}

void engine_note_nothing(const char *engine, const struct settings *s, uint64_t matched)
{
	bool launches =
		s->engine != SETTING_ENGINE_RANGE_PROFILER || s->measure == SETTING_MEASURE_KERNEL;
	bool all = !*s->kernels || !strcmp(s->kernels, "*");
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	if (launches && !matched && all && !*s->nvtx_include)
		return; /* nothing was launched */
	strbuf_adds(&why, "nothing was measured: ");
	if (!launches)
		strbuf_addf(&why, "no %s", s->measure == SETTING_MEASURE_GRAPH ? "graph" : "range");
	else if (!matched)
		strbuf_adds(&why, "no launch");
	else if (matched <= s->kernel_skip)
		strbuf_addf(&why, "--skip %" PRIu64 " leaves none of the %" PRIu64 " launch%s",
			    s->kernel_skip, matched, plural_es(matched));
	else
		return; /* table `loss` has the reason */
	if (launches && !all)
		strbuf_addf(&why, " of a kernel that matches --kernels '%s'", s->kernels);
	if (*s->nvtx_include)
		strbuf_addf(&why, "%s --nvtx '%s'",
			    launches ? " in a range that matches" : " that matches",
			    s->nvtx_include);
	if (!launches)
		strbuf_adds(&why, " occurred as often as the metrics need passes");
	if (!why.failed)
		note(engine, strbuf_text(&why));
}

const char *engine_advice(CUptiResult result)
{
	switch ((int)result) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		return "that needs the rights of an administrator; record as root, or load the "
		       "driver with NVreg_RestrictProfilingToAdminUsers=0 (a line 'options nvidia "
		       "NVreg_RestrictProfilingToAdminUsers=0' in /etc/modprobe.d, then a reboot)";
	case CUPTI_ERROR_HARDWARE_BUSY:
	case CUPTI_ERROR_INVALID_OPERATION:
		return "another profiler has the GPU's counters; stop it, or record with --engine "
		       "trace";
	case CUPTI_ERROR_OUT_OF_MEMORY:
		return "out of memory on the GPU or the host";
	default:
		return "this GPU, driver or CUPTI cannot";
	}
}
