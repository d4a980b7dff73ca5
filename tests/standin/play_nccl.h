/* play_nccl.h: NCCL's side of its profiler plug-in, which it loads as NCCL does. */
#ifndef PITOT_TESTS_STANDIN_PLAY_NCCL_H
#define PITOT_TESTS_STANDIN_PLAY_NCCL_H

#include "tape_reader.h"

/* Makes the call of a tape, unless the plug-in's mask is 0. Any thread. */
void play_nccl(const struct tape_record *r);

#endif
