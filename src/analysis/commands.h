/*
 * commands.h: what bounds the CPU side of a program, as one word: of the whole, and of each command
 * that was sampled. Processes are one command when they run the same program; of an interpreter,
 * the same script.
 */
#ifndef PITOT_ANALYSIS_COMMANDS_H
#define PITOT_ANALYSIS_COMMANDS_H

#include "analysis/cpu_use.h"

enum cpu_verdict {
	CPU_WAITING, /* on the CPU for less than half of the time */
	CPU_IN_KERNEL, /* more than half of that in the operating system's kernel */
	CPU_SINGLE_THREADED, /* one thread of each process has more than four fifths of it */
	CPU_WORKING,
	CPU_VERDICTS,
};

struct cpu_load {
	uint64_t elapsed_ns; /* of the window; of a command the sum over its processes */
	uint64_t total_ns; /* on the CPU, by samples */
	uint64_t kernel_ns; /* of it, in the operating system's kernel */
	/* of it, in the busiest thread; of a command the sum over its processes */
	uint64_t busiest_ns;
	enum cpu_verdict verdict;
};

struct command_use {
	struct strbuf name; /* "cc1", "python3 train.py"; "" if unknown */
	uint64_t processes; /* that have samples */
	struct cpu_load load;
};

struct commands {
	struct command_use *items; /* by time on the CPU, most first */
	size_t count;
	struct cpu_load whole;
};

/* "single_threaded" and so on: stable, for JSON. */
const char *cpu_verdict_name(unsigned verdict);

/*
 * Appends "cc1" of "/usr/lib/gcc/cc1 -quiet x.c", and "python3 train.py" of
 * "python3 -u /x/train.py --lr 1".
 */
void command_name(const char *command, struct strbuf *out);

#endif
