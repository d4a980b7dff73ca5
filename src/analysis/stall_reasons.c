#include "analysis/stall_reasons.h"

#include <string.h>

#include "base/compiler.h"
#include "base/path.h"

#define PREFIX "smsp__pcsamp_warps_issue_stalled_"
#define SUFFIX "_not_issued"

static const struct stall_reason reasons[] = {
	{ "selected", "issuing an instruction", "", false },
	{ "not_selected", "ready, while another warp issued", "", false },
	{ "long_scoreboard", "waiting for global or local memory",
	  "fewer or better coalesced loads; more independent work per thread; prefetch", true },
	{ "short_scoreboard", "waiting for shared memory or special functions",
	  "fewer bank conflicts; fewer or cheaper special functions (__expf, __sinf)", true },
	{ "lg_throttle", "queueing for global or local memory",
	  "fewer, wider loads and stores; no spilled registers", true },
	{ "mio_throttle", "queueing for shared memory or special functions",
	  "fewer, wider accesses of shared memory; fewer special functions", true },
	{ "tex_throttle", "queueing for the texture unit",
	  "fewer, wider texture and surface accesses", true },
	{ "math_pipe_throttle", "waiting for a busy arithmetic unit",
	  "fewer or cheaper instructions of that kind; lower precision, tensor cores", true },
	{ "wait", "waiting out a fixed latency", "more independent work per thread; more warps",
	  true },
	{ "barrier", "waiting for other warps at a barrier",
	  "work spread evenly over the block; smaller blocks; fewer barriers", true },
	{ "membar", "waiting at a memory fence",
	  "fewer or narrower fences; fewer stores before them", true },
	{ "branch_resolving", "waiting for the target of a branch",
	  "fewer branches and calls; loops unrolled", true },
	{ "no_instructions", "waiting for the next instruction to be fetched",
	  "smaller code: less unrolling and inlining; more warps", true },
	{ "imc_miss", "waiting for constant memory",
	  "constants that all threads of a warp read at one address; fewer of them", true },
	{ "drain", "waiting for its stores before it ends", "fewer, coalesced stores at the end",
	  true },
	{ "dispatch_stall", "held back by the dispatcher", "", true },
	{ "gmma", "waiting for a matrix operation of a warp group",
	  "more of them in flight; larger tiles", true },
	{ "warpgroup_arrive", "waiting for its warp group",
	  "loads that are earlier than the matrix operations that need them", true },
	{ "sleeping", "sleeping", "fewer or shorter sleeps (__nanosleep)", true },
	{ "misc", "waiting for something else", "", true },
};

struct stall_name stall_name_of(const char *name)
{
	struct stall_name n = { .state = name };

	if (strncmp(name, PREFIX, strlen(PREFIX)) == 0 && name[strlen(PREFIX)])
		n.state = name + strlen(PREFIX);
	n.length = strlen(n.state);
	n.not_issued = has_suffix(n.state, SUFFIX);
	if (n.not_issued)
		n.length -= strlen(SUFFIX);
	return n;
}

struct stall_reason stall_reason_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (strcmp(reasons[i].name, name) == 0)
			return reasons[i];
	return (struct stall_reason){ .name = name, .words = name, .advice = "", .is_wait = true };
}
