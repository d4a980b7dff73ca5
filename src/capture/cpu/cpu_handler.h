/*
 * cpu_handler.h: the signal of the timers, and what happens in it.
 *
 * The signal is SIGURG. What ignores it by default does the least harm: a program that resets all
 * handlers, an exec with a signal pending, a signal that comes after the last timer are all
 * without consequence, where SIGPROF or a real-time signal would end the process. No library waits
 * for it; programs that do handle it (out-of-band data of sockets) must cope with it when there is
 * none, and are left alone as soon as they install a handler.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_HANDLER_H
#define PITOT_CAPTURE_CPU_CPU_HANDLER_H

#include <signal.h>

#include "capture/cpu/cpu_slot.h"

#define CPU_SIGNAL SIGURG

/* Installs the handler where the program has none. May be called again and again. */
enum cpu_handler_state {
	CPU_HANDLER_OURS, /* installed before */
	/* installed now: timers whose signal was ignored before may have stopped */
	CPU_HANDLER_NEW,
	CPU_HANDLER_FOREIGN, /* the program has one */
};
enum cpu_handler_state cpu_handler_install(void);

/* Without it signals are ignored, whenever they come. */
void cpu_handler_enable(bool on);

/* A slot for the handler to find; its memory stays for ever. */
void cpu_handler_add(struct cpu_slot *slot);
struct cpu_slot *cpu_handler_slot(unsigned index);

/* What a timer's signal carries. */
union sigval cpu_handler_value(const struct cpu_slot *slot, unsigned generation);

#endif
