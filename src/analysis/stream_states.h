/*
 * stream_states.h: what each stream and each GPU did at each moment of the window. The states tile
 * it. Computed if report_options.states.
 */
#ifndef PITOT_ANALYSIS_STREAM_STATES_H
#define PITOT_ANALYSIS_STREAM_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Of the time before work begins, what comes before its launching call is starved; then it waits
 * until what it needs from other streams has ended; then it is queued.
 */
#define STREAM_STATES(X) X(running) X(queued) X(waiting) X(starved) X(idle) X(unknown)

enum stream_state_kind {
#define STATE(name) STREAM_STATE_##name,
	STREAM_STATES(STATE)
#undef STATE
		STREAM_STATE_KINDS
};

struct stream_row {
	uint64_t ns[STREAM_STATE_KINDS]; /* their sum is the window */
	uint64_t count; /* pieces of work */
	/* From the first to the last work in the window. */
	uint64_t span_ns;
	uint32_t process, gpu; /* gpu: item of struct gpus */
	uint32_t stream;
	bool is_gpu; /* all streams of all processes: work of one bounds the others' states */
	uint64_t longest_wait_ns; /* 0: none */
	uint32_t longest_wait_for; /* stream id */
};

struct stream_states {
	uint64_t start_ns, window_ns;
	struct stream_row *rows; /* each GPU, with its streams behind it, the busiest first */
	size_t count;
};

#endif
