/* nvtx_text.h: the texts that a program hands to NVTX, copied into room of ours as UTF-8. Any thread. */
#ifndef PITOT_CAPTURE_NVTX_NVTX_TEXT_H
#define PITOT_CAPTURE_NVTX_NVTX_TEXT_H

#include <stdbool.h>

#include "base/compiler.h"

/* Each copies at most `room` bytes, without a NUL, whole characters only, and returns their number; *cut is set to
 * whether that was less than all. Bytes that are no UTF-8 are copied as they are. */
size_t nvtx_text_copy(char *out, size_t room, const char *text, bool *cut);

/* From wchar_t's; what is no character becomes U+FFFD. `text` need not be aligned. */
size_t nvtx_text_narrow(char *out, size_t room, const void *text, bool *cut);

#endif
