/*
 * cuda_player.h: the calling thread is a CUDA program: it plays the records of a tape, with the
 * stand-ins for the driver and CUPTI (tests/standin) in the process. One tape a process.
 */
#ifndef PITOT_TESTS_CUDA_PLAYER_H
#define PITOT_TESTS_CUDA_PLAYER_H

#include "standin/standin_cupti.h"

/* Runs tests in a child, for one tape: 0 if all is well there. */
int cuda_player_in_child(int (*run)(const void *), const void *argument);

/* Loads the stand-ins and opens a tape. Fails the test. */
void cuda_player_open(const char *tape);
/* The same with the tape that tape-make makes of a program and a count. */
void cuda_player_open_made(const char *program, const char *count);

/* Records of a kind (CUPTI's number) that the tape has. */
uint64_t cuda_player_records(uint32_t kind);

/* Callbacks that the recorder was given so far. */
uint64_t cuda_player_callbacks(void);
/*
 * The program has a callback of the resource domain, of the tape's own context (0) or of another
 * one.
 */
void cuda_player_resource(CUpti_CallbackId id, unsigned context);
/* What goes wrong from here on (docs/tapes.md). */
void cuda_player_faults(const char *script);

/*
 * Plays the whole tape once, at times that are moved to now, and to `later_ns` after that; returns
 * when the last of them is over, or at once if there is a `later_ns`: what the GPU does has not
 * begun then, and nothing of it is handed over.
 */
void cuda_player_play(uint64_t later_ns);

#endif
