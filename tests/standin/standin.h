/*
 * standin.h: libstandin.so, shared by the stand-in libcuda.so.1 and libcupti.so.13 and tape-play:
 * the tape, the place being played, the answers on the tape, and the faults of the script.
 *
 * A program that loads the stand-ins without tape-play gets the answers of the tape
 * PITOT_STANDIN_TAPE.
 */
#ifndef PITOT_TESTS_STANDIN_STANDIN_H
#define PITOT_TESTS_STANDIN_STANDIN_H

#include "tape_reader.h"

/* Opens a tape for the process. faults: path of a script, or NULL. */
int standin_open(const char *tape, const char *faults, struct error *e) MUST_USE;
const struct tape *standin_tape(void); /* NULL: none is open */

/* The record that the calling thread is playing; for other threads, any thread's latest record. */
struct place {
	size_t index; /* into the tape's records */
	uint64_t time_shift; /* added to the tape's times in this round */
	uint32_t id_shift; /* added to correlation ids in this round */
	bool first, last; /* round */
};
void standin_at(const struct place *place);
struct place standin_place(void);

/* CUcontext of the call that was played last. */
extern _Atomic(uintptr_t) standin_current_context;
/* The calling thread plays what is between cuStreamBeginCapture and cuStreamEndCapture. */
extern __thread bool standin_capturing;
/* Whether any record has been played; before that the place and time shift are unknown. */
bool standin_has_begun(void);

/*
 * Returns the answer of a function with these arguments at this place of the tape. false: not on
 * the tape.
 */
bool standin_answer(enum tape_function function, const uint64_t *arguments, unsigned count,
		    struct tape_call *answer);

/*
 * The same, but only if it was asked inside of the callback of an API call that is played. (Others
 * may be nested in it.)
 */
bool standin_answer_here(enum tape_function function, const uint64_t *arguments, unsigned count,
			 struct tape_call *answer);
/*
 * Returns the function's first successful call from record *from on that the tape has up to this
 * place, and sets *from to the record after it. At the tape's end all that are left are there.
 */
bool standin_next_answer(enum tape_function function, size_t *from, struct tape_call *answer);
/* Whether the tape has any answer of the function. */
bool standin_answers(enum tape_function function);
/* Returns the text of a record, copied to where it stays; "" if the cursor has failed. */
const char *standin_keep_text(struct cursor *c);

/* Returns the name of an API function from its callbacks on the tape; NULL: it was never called. */
const char *standin_function_name(uint32_t domain, uint32_t cbid);

/* Returns CUPTI's clock at CLOCK_MONOTONIC `monotonic` of the tape, without shifts. */
uint64_t standin_cupti_time(uint64_t monotonic);

/*
 * Returns the text that a pointer referred to at this place of the tape, as a pointer that stays
 * valid; NULL: unknown.
 */
const char *standin_text_at(uint64_t pointer);

/* --- faults (faults.c; the script is described in docs/tapes.md) --- */

/* Functions that are not on tapes. */
#define STANDIN_FUNCTIONS(F)                                                                       \
	F(50, PCSamplingEnable)                                                                    \
	F(51, PCSamplingDisable)                                                                   \
	F(52, PCSamplingSetConfigurationAttribute)                                                 \
	F(54, PCSamplingGetNumStallReasons)                                                        \
	F(60, ActivityGetNextRecord)                                                               \
	F(111, ProfilerInitialize)                                                                 \
	F(112, ProfilerGetCounterAvailability)                                                     \
	F(113, ProfilerHostInitialize)                                                             \
	F(116, RangeProfilerEnable)                                                                \
	F(117, RangeProfilerDisable)                                                               \
	F(118, RangeProfilerGetCounterDataSize)                                                    \
	F(119, RangeProfilerCounterDataImageInitialize)                                            \
	F(120, RangeProfilerSetConfig)                                                             \
	F(121, RangeProfilerStart)                                                                 \
	F(122, RangeProfilerStop)                                                                  \
	F(123, RangeProfilerDecodeData)                                                            \
	F(124, RangeProfilerGetCounterDataInfo)                                                    \
	F(125, PmSamplingGetCounterAvailability)                                                   \
	F(126, PmSamplingEnable)                                                                   \
	F(127, PmSamplingDisable)                                                                  \
	F(128, PmSamplingSetConfig)                                                                \
	F(129, PmSamplingStart)                                                                    \
	F(130, PmSamplingStop)                                                                     \
	F(131, PmSamplingDecodeData)                                                               \
	F(132, PmSamplingGetCounterDataSize)                                                       \
	F(133, PmSamplingCounterDataImageInitialize)                                               \
	F(134, PmSamplingGetCounterDataInfo)                                                       \
	F(136, CtxSynchronize) /* cuCtxSynchronize */                                              \
	F(138, SassMetricsSetConfig)                                                               \
	F(139, SassMetricsEnable)                                                                  \
	F(141, SassMetricsGetDataProperties)                                                       \
	F(143, ActivityFlushPeriod)                                                                \
	F(144, RangeProfilerPushRange)                                                             \
	F(145, RangeProfilerPopRange)

enum {
#define F(number, name) STANDIN_##name = number,
	TAPE_ENGINE_FUNCTIONS(F) STANDIN_FUNCTIONS(F)
#undef F
};

struct faults {
	uint32_t version;
	uint64_t zero_every, reverse_every, incomplete_every, null_name_every, hostile_every,
		bad_kind_every;
	bool shuffle;
	size_t huge_names;
	uint64_t storm;
	VEC(uint64_t) dropped_buffers;
	uint64_t fatal_at;
	uint64_t gpu_fault_at;
	uint64_t failed_launch_every;
	uint64_t launch_us; /* between the callbacks of a launch */
	uint64_t nvml_lock_ns; /* how long each NVML call holds its lock */
	bool thread_buffers;
	uint64_t held_buffers;
	uint64_t pc_dropped; /* dropped samples in each reading that has samples */
	uint64_t pc_most; /* most PCs per call of GetData; 0: as many as the client wants */
	uint64_t pm_most; /* samples that fit in the GPU; 0: any number */
	uint64_t pc_unload_every; /* launches between unloads */
	/* launches between additional kernels in the range profiler's session */
	uint64_t range_extra_every;
	uint64_t gpu_memory, gpu_memory_free; /* bytes; 0: 80 GiB, all free */
	uint64_t passes; /* that every set of metrics needs; 0: as many as its metrics */
	uint64_t range_destroy_at; /* during this launch, if profiled, its context is destroyed */
	bool sass_zero; /* all counts are 0 */
	uint64_t sass_dropped; /* dropped records at each end */
	uint64_t sass_destroy_at; /* during this launch, if measured, its context is destroyed */
	uint64_t sass_unload_every; /* launches between unloads of a module */
	uint64_t capturing_every; /* queries between answers that a stream captures */
	bool pc_own_names; /* the client must free each function name */
	uint32_t correlation_shift;
	int64_t step_ns;
	uint64_t step_at;
};

const struct faults *standin_faults(void);
/* Counts a call, and waits if the script says so. true: the function must only return *result. */
bool standin_fault(unsigned function, int *result);
/* Returns the number of calls of a function so far. */
uint64_t standin_calls(unsigned function);
/* From now on every call blocks forever, as with a hung GPU. */
void standin_hang(void);
/* Returns the names of functions that the script hides; NULL after the last. */
const char *standin_missing(size_t i);
/* Whether the place of the tape has been reached, in this or an earlier round. */
bool standin_reached(uint64_t at);
/* Returns the step of CLOCK_REALTIME, or 0 before it. */
int64_t standin_step_ns(void);

int faults_parse(const char *script, struct error *e) MUST_USE;

#endif
