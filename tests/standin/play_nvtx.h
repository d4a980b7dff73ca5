/*
 * play_nvtx.h: tape-play as an NVTX client: loads $NVTX_INJECTION64_PATH at the first call, as
 * NVTX's headers do.
 */
#ifndef PITOT_TESTS_STANDIN_PLAY_NVTX_H
#define PITOT_TESTS_STANDIN_PLAY_NVTX_H

#include "tape_reader.h"

/* Any thread. tid_of: the id that a thread of the recorded process has now. */
void play_nvtx(const struct tape_nvtx *call, const struct tape_text *text,
	       uint64_t (*tid_of)(uint64_t recorded));

#endif
