/*
 * sampled_python.h: Python frames of sampled processes. At the sample, the BPF programs
 * (bpf/python.bpf.h) or, for perf events, sampled_python_read.h read the interpreter's frames as
 * code objects and instruction offsets, and copy each code object that is new, with its names and
 * lines: the thread runs on, and the object may be gone a moment later. This module identifies the
 * interpreter, finds the thread state, and describes code objects by their copies; what is missing
 * in a copy it reads from the process's memory.
 *
 * Nothing is guessed: an interpreter that is not a known release build has no Python frames; a
 * thread state must name the thread; a code object is described only if it is still the one that
 * the sample saw, and is read again from time to time. Frames that cannot be described are omitted
 * and counted.
 */
#ifndef PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_H
#define PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_H

#include "sampler/cpu_sampler.h"
#include "sampler/ebpf/bpf/sampler.h"
#include "sampler/python/sampled_python_read.h"
#include "sampler/sampled_processes.h"

/* The interpreter of a process image. */
struct sampled_python;

/*
 * Finds the CPython interpreter in the mappings of a process. Returns 0, with *out NULL if there is
 * none; or E_UNSUPPORTED, with the reason in e why its frames cannot be read.
 */
int sampled_python_find(struct targets *t, struct target *p, struct sampled_python **out,
			struct error *e) MUST_USE;
/*
 * The interpreter of a process that was forked, without a look at it, since it may have ended: with
 * the code objects of its parent, which a check word tells from later ones. NULL: no memory.
 */
struct sampled_python *sampled_python_fork(const struct sampled_python *parent, pid_t child);
void sampled_python_free(struct sampled_python *python);

/*
 * Tries to find where threads store their Python state, with one of them as an example: thread_base
 * is its fs. Returns true if this call has found it, so that the BPF programs must be updated.
 */
bool sampled_python_locate(struct sampled_python *python, uint64_t thread_base);
/* The layout for the BPF programs; enabled once the place of the thread state is known. */
const struct bpf_python *sampled_python_layout(const struct sampled_python *python);

/* The location for sampled_python_read(). */
void sampled_python_location(const struct sampled_python *python, struct python_location *out);

/* Whether a running process has a Python, judging by the names of its mappings, and may be read. */
enum cpu_python sampled_python_check(pid_t pid);

/* Adds a code object as it was when a sample first had it; `size` bytes of the record are valid. */
void sampled_python_add_code(struct sampled_python *python, const struct bpf_code_record *record,
			     size_t size);

/*
 * Merges the Python frames of a record (words: two per frame) into a native stack. Writes at most
 * STACK_FRAMES_MAX frames and returns their number. *end: how the native stack ends, then how the
 * result does.
 */
struct sampled_python_stack {
	const uint64_t *native, *words;
	unsigned native_count, python_count;
	bool python_complete;
};
unsigned sampled_python_merge(struct sampled_python *python, struct target *p,
			      const struct sampled_python_stack *stack, uint64_t *out,
			      enum stack_end *end);

/* Returns the number of frames omitted since the last call, because they could not be described. */
uint64_t sampled_python_unnamed(struct sampled_python *python);

#endif
