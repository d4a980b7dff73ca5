#include "capture/engines/engine_notes.h"

#include "capture/capability_notes.h"
#include "capture/cuda/share/share.h"

void engine_note_trace(const char *engine, const char *why)
{
	capability_note("engine", capability_state_degraded, engine, "trace", "%s", why);
}

void engine_note_refusal(const char *engine, const char *why)
{
	share_let_counters(engine);
	engine_note_trace(engine, why);
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
		return "no memory for it, on the GPU or here";
	default:
		return "this GPU, driver or CUPTI cannot";
	}
}
