/*
 * nvtx_calls.h: what NVTX's many functions come down to. Called on the program's threads: no lock
 * (but for names), no allocation, no system call. errno stays as it was.
 *
 * `domain` is a number of ours, 0 the default domain.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_CALLS_H
#define PITOT_CAPTURE_NVTX_NVTX_CALLS_H

#include "capture/nvtx/nvtx_abi.h"
#include "capture/nvtx/nvtx_names.h"

/*
 * A copy of what the program passes, NULL allowed. What `size` does not cover is as if it had not
 * been set.
 */
struct nvtx_attributes nvtx_attributes_read(const void *from);
struct nvtx_attributes nvtx_message_only(enum nvtx_message type, const void *text);

/* Of a handle; 0 for NULL and for what is no handle. */
uint32_t nvtx_domain_of(const void *handle);

void nvtx_mark(uint32_t domain, struct nvtx_attributes a);
uint64_t nvtx_start(uint32_t domain, struct nvtx_attributes a);
void nvtx_end(uint32_t domain, uint64_t range);
/*
 * These return the level of the range that begins or ends, from 0, or negative: there is none, or
 * it is unknown.
 */
int nvtx_push(uint32_t domain, struct nvtx_attributes a);
int nvtx_pop(uint32_t domain);

/* Notes a name down; what it returns is a handle for the program. NULL: no text, or no room. */
void *nvtx_name_in(enum nvtx_named what, const void *domain, uint32_t id,
		   enum nvtx_message type, const void *text);

/*
 * nvtx_text.c: each copies a program's text, at most `room` bytes of UTF-8, without a NUL, whole
 * characters only, and returns their number; *cut is set to whether that was less than all. Bytes
 * that are no UTF-8 are copied as they are.
 */
size_t nvtx_text_copy(char *out, size_t room, const char *text, bool *cut);

/* From wchar_t's; what is no character becomes U+FFFD. `text` need not be aligned. */
size_t nvtx_text_narrow(char *out, size_t room, const void *text, bool *cut);

#endif
