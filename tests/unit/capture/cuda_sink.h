/*
 * cuda_sink.h: a sink of a session with CUDA: what it has of calls, stacks, graphs and samples, and
 * whether rows refer to what was defined before them. Its numbers can be read while it is in use.
 */
#ifndef PITOT_TESTS_CUDA_SINK_H
#define PITOT_TESTS_CUDA_SINK_H

#include "base/map.h"
#include "capture/cuda/api_calls.h"
#include "capture/core/session.h"
#include "unit/capture/counting_sink.h"

#define KINDS_OF_CALLS (api_kind_query + 1)

struct cuda_sink {
	struct counting_sink counting;
	uint8_t kind_of[API_FUNCTIONS_MAX]; /* 1 + kind; 0: the function is not defined */
	struct map known_stacks;
	atomic_uint_fast64_t calls[API_RUNTIME + 1][KINDS_OF_CALLS], stacks, undefined, lost;
	atomic_uint_fast64_t externals[100]; /* by id */
	atomic_uint_fast64_t nodes_with_stack, clones; /* of graphs */
	atomic_uint_fast64_t samples, contexts_sampled, contexts_older,
		refusals, other_metrics; /* the last four: said so */
	uint32_t sampled_text, older_text, refusal_text, other_metrics_text; /* ids */
};

/* What CUDA does, and nothing that costs more. */
extern const struct settings cuda_sink_plain;

struct cuda_sink *cuda_sink_new(void);
void cuda_sink_free(struct cuda_sink *s);
/* Fails the test where no session can be opened. */
struct session *cuda_sink_session(struct cuda_sink *sink, const struct settings *settings,
				  enum session_trigger trigger);

/* It has the kernels, copies and memsets of so many rounds of the tape. */
void cuda_sink_assert_work(const struct cuda_sink *s, unsigned rounds);
uint64_t cuda_sink_driver_calls(const struct cuda_sink *s, enum api_kind kind);

#endif
