/*
 * process_tree.h: follows the processes of a recording, which are the descendants of this process
 * or of the attached ones. Writes a row of table `process` when a process is first seen, when it
 * executes another program, and when it is reaped.
 *
 * It reads /proc a few times a second while processes are young (they may exec) or the kernel has
 * given out a process id since the last scan, else every two seconds, and never for more than a
 * hundredth of the time. A process that lives less long than a scan interval can be missed; a
 * process that uses CUDA records itself in any case.
 */
#ifndef PITOT_RECORD_PROCESS_TREE_H
#define PITOT_RECORD_PROCESS_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "format/writer.h"

struct process_tree;

/*
 * Follows the descendants of this process, or of the added roots. The writer must outlive the tree.
 * NULL: no memory.
 */
struct process_tree *process_tree_new(struct writer *w) MUST_USE;
void process_tree_free(struct process_tree *tree);

/* Adds a running process that is not a descendant of this process. */
void process_tree_add_root(struct process_tree *tree, pid_t pid, uint64_t start_ns);

/*
 * Adds the command. argv is used as the command line if the process has already ended. start_ns is
 * exact, unlike the start time in /proc.
 */
void process_tree_add_command(struct process_tree *tree, pid_t pid, char **argv, uint64_t start_ns);

/* Leaves out the processes of a session, which do not belong to the command. */
void process_tree_leave_out(struct process_tree *tree, pid_t session);

/*
 * Reads /proc again. Without `at_once` the scan is skipped if no process was started since the last
 * one, or scans take more than their share of the time.
 */
void process_tree_scan(struct process_tree *tree, bool at_once);

/*
 * Records that a process was reaped, with its status (128+n for signal n). Returns whether it was
 * killed because our control group was out of memory.
 */
bool process_tree_ended(struct process_tree *tree, pid_t pid, int status);

size_t process_tree_running(const struct process_tree *tree); /* processes of the last scan */
/* Writes how long they had no processor, if that was not read a moment ago. */
void process_tree_read_queues(struct process_tree *tree);
/* Whether the OS kernel lists child processes; otherwise only the command itself is followed. */
bool process_tree_is_complete(const struct process_tree *tree);

#endif
