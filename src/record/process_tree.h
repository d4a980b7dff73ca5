/*
 * process_tree.h: who belongs to the command: follows the tree of processes below us and writes a row of table
 * `process` when one is seen first, when it became another program (exec), and when it was reaped.
 *
 * It reads /proc a few times a second while processes are young (they may exec) or the kernel has given out a process
 * id since the last scan, else every two seconds, and never for more than a hundredth of the time. A process that lives
 * shorter than that can be missed; one that uses CUDA writes a recording of its own anyway.
 */
#ifndef PITOT_RECORD_PROCESS_TREE_H
#define PITOT_RECORD_PROCESS_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/writer.h"

struct process_tree;

/* Number of processes below another one. */
size_t process_count_children(pid_t pid);

/* Follows the descendants of this process. The writer must outlive the tree. NULL: no memory. */
struct process_tree *process_tree_new(struct writer *w) MUST_USE;
void process_tree_free(struct process_tree *tree);

/* The command itself: start_ns is exact, not what /proc rounds it to. */
void process_tree_add_command(struct process_tree *tree, pid_t pid, uint64_t start_ns);

/*
 * Reads /proc again and returns true, unless nothing was started since the last scan or scans take too much of the time;
 * with at_once in any case.
 */
bool process_tree_scan(struct process_tree *tree, bool at_once);

/* A process was reaped, with this status (128+n for signal n). */
void process_tree_ended(struct process_tree *tree, pid_t pid, int status);

size_t process_tree_running(const struct process_tree *tree); /* processes that were there at the last scan */
/* Whether the kernel tells us who is whose child; without that only the command itself is followed. */
bool process_tree_is_complete(const struct process_tree *tree);

#endif
