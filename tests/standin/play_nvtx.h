/*
 * play_nvtx.h: the NVTX client of tape-play. Loads $NVTX_INJECTION64_PATH at the first call, as
 * NVTX's headers do.
 */
#ifndef PITOT_TESTS_STANDIN_PLAY_NVTX_H
#define PITOT_TESTS_STANDIN_PLAY_NVTX_H

#include "tape_reader.h"

/* Thread-safe. tid_of() maps a recorded thread id to the current one. */
void play_nvtx(const struct tape_nvtx *call, const struct tape_text *text,
	       uint64_t (*tid_of)(uint64_t recorded));

#endif
