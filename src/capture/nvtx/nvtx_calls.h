/*
 * nvtx_calls.h: the few operations that implement NVTX's many functions. Called on the program's
 * threads: no lock (except for names), no allocation, no system call, unless an engine measures
 * ranges (nvtx_choice.h). They preserve errno.
 *
 * `domain` is Pitot's number of a domain; 0 is the default domain.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_CALLS_H
#define PITOT_CAPTURE_NVTX_NVTX_CALLS_H

#include <stdatomic.h>

#include "capture/nvtx/nvtx_abi.h"
#include "capture/nvtx/nvtx_names.h"

/*
 * Copies attributes that the program passes; NULL is allowed. Fields beyond `size` are as if they
 * had not been set.
 */
struct nvtx_attributes nvtx_attributes_read(const void *from);
struct nvtx_attributes nvtx_message_only(enum nvtx_message type, const void *text);

/* Returns a handle's domain; 0 for NULL and for anything that is not a handle. */
uint32_t nvtx_domain_of(const void *handle);

void nvtx_mark(uint32_t domain, struct nvtx_attributes a);
uint64_t nvtx_start(uint32_t domain, struct nvtx_attributes a);
/* The same for a range whose id is another's: it must have NVTX_FOREIGN_RANGE. */
void nvtx_start_as(uint32_t domain, uint64_t range, struct nvtx_attributes a);
#define NVTX_FOREIGN_RANGE (UINT64_C(1) << 63)
void nvtx_end(uint32_t domain, uint64_t range);
/*
 * Hears of pushes and pops in domain "NCCL"; NULL: nobody does. Functions are called on the
 * program's threads, which may not be interrupted by another call of NVTX.
 */
struct nvtx_nccl_reader {
	void (*push)(const char *name, const struct nvtx_payload_block *blocks, unsigned count);
	void (*pop)(int level);
};
extern _Atomic(const struct nvtx_nccl_reader *) nvtx_nccl_reader;

/*
 * These return the level of the range that begins or ends, counted from 0; negative if there is no
 * range or its level is unknown.
 */
int nvtx_push(uint32_t domain, struct nvtx_attributes a);
int nvtx_pop(uint32_t domain);

/* Adds a name; returns its handle for the program. NULL: no text, or no room. */
void *nvtx_name_in(enum nvtx_named what, const void *domain, uint32_t id,
		   enum nvtx_message type, const void *text);

/*
 * nvtx_text.c: both functions copy a program's text as at most `room` bytes of UTF-8, without a NUL
 * and in whole characters, and return the number of bytes; *cut says whether that was less than the
 * whole text. Bytes that are not UTF-8 are copied unchanged.
 */
size_t nvtx_text_copy(char *out, size_t room, const char *text, bool *cut);

/* The same for wchar_t; invalid characters become U+FFFD. `text` need not be aligned. */
size_t nvtx_text_narrow(char *out, size_t room, const void *text, bool *cut);

#endif
