/*
 * event_words.h: names of events in exports and live traces, as PyTorch's profiler (Kineto) writes
 * them.
 */
#ifndef PITOT_SCHEMA_EVENT_WORDS_H
#define PITOT_SCHEMA_EVENT_WORDS_H

#include "base/strbuf.h"
#include "schema/schema.h"

const char *synchronization_name(uint8_t kind); /* "Stream Sync" */
const char *overhead_name(uint8_t kind); /* "Buffer Flush" */
const char *loss_name(unsigned reason); /* "ring_full" */
/* Name of an enum column's value; "unknown" if the schema has none. */
const char *event_value_name(enum table_id table, int column, unsigned value);
/* Appends a sentence about losses of reason own_profiler. */
void own_profiler_windows(struct strbuf *out, uint64_t ns, uint64_t windows);
const char *allocation_name(uint8_t operation); /* "release" */
/* "Memcpy HtoD (Pageable -> Device)" */
void memcpy_name(struct strbuf *out, uint8_t kind, uint8_t source, uint8_t destination);
void memset_name(struct strbuf *out, uint8_t memory_kind);
/* Read such names, the directions of copies also as AMD and Intel spell them; 0: unknown. */
void memcpy_read_name(const char *name, uint8_t *kind, uint8_t *source, uint8_t *destination);
uint8_t memset_read_name(const char *name);
/* The direction of a copy that is spelled anywhere in the text. */
uint8_t copy_kind_in(const char *text);

/*
 * Returns the placeholder for the frames that a stack lacks, such as "[partial stack]"; "" if it is
 * complete.
 */
const char *stack_end_note(uint8_t end);
#define NO_STACK "[no stack]"

#define OFF_CPU_STATES 5
/* "[sleeping]": a frame in place of the code that the thread did not run. */
const char *off_cpu_note(unsigned state);

/* Texts of the marks at the ends of a window of system metrics, before the window's name. */
#define SYSTEM_MARK_START "system start: "
#define SYSTEM_MARK_STOP "system stop: "

/*
 * Returns the length of a CUDA function's name without CUPTI's suffix _v<CUDA version>: 16 for
 * cudaLaunchKernel_v7000. The suffix of cuMemcpyDtoH_v2 is part of the name.
 */
size_t api_name_length(const char *name, size_t length);

/* Classifies a function of CUDA, HIP, Level Zero, OpenCL or the unified runtime by its name. */
enum api_kind api_kind_of_function(const char *name);
/* What a function waits for, or makes a stream wait for, by its name. */
enum synchronization_kind synchronization_of_function(const char *name);

/* Whether a counter is a hardware counter: CUPTI's metrics are named UNIT__WHAT. */
bool counter_is_hardware(const char *name);

#endif
