/*
 * commands.h: the CPU verdict: what bounds the CPU side, of the whole program and of each sampled
 * command. Processes belong to one command if they run the same program or, of an interpreter, the
 * same script.
 */
#ifndef PITOT_ANALYSIS_COMMANDS_H
#define PITOT_ANALYSIS_COMMANDS_H

#include "analysis/cpu_moments.h"
#include "analysis/cpu_use.h"

enum cpu_verdict {
	CPU_WAITING, /* on the CPU for less than half of the time */
	CPU_STARVED, /* the same, but for more than half of the rest it got no processor */
	CPU_IN_KERNEL, /* more than half of the CPU time in the operating system's kernel */
	CPU_SINGLE_THREADED, /* the busiest threads have more than four fifths of the CPU time */
	CPU_WORKING,
	CPU_VERDICTS,
};

struct cpu_load {
	uint64_t elapsed_ns; /* length of the window; of a command: sum over its processes */
	uint64_t total_ns; /* CPU time, by samples */
	uint64_t kernel_ns; /* CPU time in the operating system's kernel */
	/* CPU time of the busiest thread; of a command: sum over its processes */
	uint64_t busiest_ns;
	/*
	 * Time in which threads were ready to run and had no processor, from times off the CPU or
	 * else from run queues. Of it, time in which the CPU quota of a control group was used up.
	 */
	uint64_t ready_ns, throttled_ns;
	uint64_t stolen_ns; /* of the whole machine, by its hypervisor */
	/* of the busiest thread, by enum off_cpu_state; only of the whole program */
	uint64_t off_ns[OFF_CPU_STATES];
	enum cpu_verdict verdict;
};

struct command_use {
	struct strbuf name; /* "cc1", "python3 train.py"; "" if unknown */
	uint64_t processes; /* with samples */
	struct cpu_load load;
};

struct commands {
	struct command_use *items; /* by CPU time, descending */
	size_t count;
	struct cpu_load whole;
};

/* "single_threaded" and so on: stable, for JSON. */
const char *cpu_verdict_name(unsigned verdict);

/*
 * Appends the short name of a command line: "cc1" for "/usr/lib/gcc/cc1 -quiet x.c", "python3
 * train.py" for "python3 -u /x/train.py --lr 1".
 */
void command_name(const char *command, struct strbuf *out);

#endif
