/*
 * event_words.h: how exports and live traces call events, in the words that PyTorch's profiler
 * (Kineto) uses.
 */
#ifndef PITOT_SCHEMA_EVENT_WORDS_H
#define PITOT_SCHEMA_EVENT_WORDS_H

#include "base/strbuf.h"
#include "schema/schema.h"

const char *synchronization_name(uint8_t kind); /* "Stream Sync" */
const char *overhead_name(uint8_t kind); /* "Buffer Flush" */
const char *loss_name(uint8_t reason); /* "ring_full" */
/* Losses of the reason own_profiler, in a sentence. */
void own_profiler_windows(struct strbuf *out, uint64_t ns, uint64_t windows);
const char *allocation_name(uint8_t operation); /* "release" */
/* "Memcpy HtoD (Pageable -> Device)" */
void memcpy_name(struct strbuf *out, uint8_t kind, uint8_t source, uint8_t destination);
void memset_name(struct strbuf *out, uint8_t memory_kind);

/*
 * What stands in place of the frames that a stack lacks by its end, "[partial stack]"; "" for a
 * complete one.
 */
const char *stack_end_note(uint8_t end);
#define NO_STACK "[no stack]"

/*
 * Length of a function's name without CUPTI's ending, _v and the CUDA version that brought the
 * call: of cudaLaunchKernel_v7000 16; cuMemcpyDtoH_v2 keeps its own.
 */
size_t api_name_length(const char *name, size_t length);

#endif
