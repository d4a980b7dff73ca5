/*
 * sampled_python.h: Python frames of sampled processes. The BPF programs read the interpreter's
 * frames at the sample, as code objects and instructions (bpf/python.bpf.h), and for perf events
 * sampled_python_read.h does; here the interpreter is recognised, the thread's state is found, and
 * names, files and lines are read from the process's memory once per code object.
 *
 * Nothing is guessed: an interpreter that is not a known release build has no Python frames; a
 * thread's state is one that names the thread; a code object is described only if it still is what
 * the sample saw, and is looked at again from time to time. Frames that cannot be described are
 * left out and counted.
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
 * Looks whether the process runs CPython, by its mappings. 0 and *out (NULL: it does not); or
 * E_UNSUPPORTED with the reason, in e, why its frames cannot be read.
 */
int sampled_python_find(struct targets *t, struct target *p, struct sampled_python **out,
		     struct error *e) MUST_USE;
void sampled_python_free(struct sampled_python *python);

/*
 * Looks for where threads keep their Python state, with the help of one of them: thread_base is its
 * fs. true: it is known since now, and the programs should be told.
 */
bool sampled_python_locate(struct sampled_python *python, uint64_t thread_base);
/* For the programs; enabled once the place of the state is known. */
const struct bpf_python *sampled_python_layout(const struct sampled_python *python);

/* For sampled_python_read(). */
void sampled_python_place(const struct sampled_python *python, struct python_place *out);

/* Whether a process that runs has a Python, by the names of its mappings, and may be read. */
enum cpu_python sampled_python_check(pid_t pid);

/* Reads what the code objects in frames of a record (two words each) are, before they are gone. */
void sampled_python_look(struct sampled_python *python, const uint64_t *words, unsigned count);

/*
 * Puts the Python frames of a record (words: two each) into a native stack, at most `max` frames.
 * Returns how many there are.
 */
struct sampled_python_stack {
	const uint64_t *native, *words;
	unsigned native_count, python_count;
	bool native_complete, python_complete;
};
unsigned sampled_python_merge(struct sampled_python *python, struct target *p,
			   const struct sampled_python_stack *stack, uint64_t *out, unsigned max);

/* Frames that were left out since the last call. */
uint64_t sampled_python_left_out(struct sampled_python *python);

#endif
