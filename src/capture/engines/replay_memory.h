/*
 * replay_memory.h: whether CUPTI can save the GPU's memory before a kernel runs a second time.
 *
 * For metrics of more than one pass CUPTI saves all memory that is allocated on the GPU, not only
 * what the kernel changes: in the GPU's free memory, and what does not fit there on the host
 * (H200, CUPTI 13.0: 75 GB allocated of 150, 8 GB on the host, 5 to 7 s a launch). It does not ask
 * whether the host has as much: with 150 GB allocated, and 125 on the host, the kernel killed the
 * program.
 */
#ifndef PITOT_CAPTURE_ENGINES_REPLAY_MEMORY_H
#define PITOT_CAPTURE_ENGINES_REPLAY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Called in a callback of the launch, with its context current. Returns false if the host's part
 * would take more than half of its free memory. Notes once a session (of that number), in
 * `capability`, that launches are not measured, or slow, because of it.
 */
bool replay_memory_suffices(unsigned session);

#endif
