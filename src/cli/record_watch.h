/*
 * record_watch.h: who belongs to the command: follows the tree of processes below us and writes a row of table
 * `process` when one is seen first, when it became another program (exec), and when it was reaped.
 *
 * It looks at /proc a few times a second while processes are young (they may exec) or the kernel has given out a process
 * id since the last look, else every two seconds, and never for more than a hundredth of the time. A process that lives
 * shorter than that can be missed; one that uses CUDA writes a recording of its own anyway.
 */
#ifndef PITOT_CLI_RECORD_WATCH_H
#define PITOT_CLI_RECORD_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/writer.h"

struct watch;

/* Follows the descendants of this process. The writer must outlive the watch. NULL: no memory. */
struct watch *watch_new(struct writer *w) MUST_USE;
void watch_free(struct watch *watch);

/* The command itself: start_ns is exact, not what /proc rounds it to. */
void watch_command(struct watch *watch, pid_t pid, uint64_t start_ns);

/*
 * Looks again and returns true, unless nothing was started since the last look or looking takes too much of the time;
 * with at_once in any case.
 */
bool watch_look(struct watch *watch, bool at_once);

/* A process was reaped, with this status (128+n for signal n). */
void watch_ended(struct watch *watch, pid_t pid, int status);

size_t watch_running(const struct watch *watch); /* of them still there at the last look */
/* Whether the kernel tells us who is whose child; without that only the command itself is followed. */
bool watch_can_follow(const struct watch *watch);

#endif
