/*
 * cpu_handler.h: the timers' signal and its handler.
 *
 * The signal is SIGURG, because a signal that is ignored by default does the least harm: if a
 * program resets all handlers, if a signal is pending at an exec or arrives after the last timer,
 * nothing happens, whereas SIGPROF or a real-time signal would end the process. No library waits
 * for it; programs that handle it (out-of-band data of sockets) must cope with spurious signals,
 * and the timers stop as soon as the program installs a handler.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_HANDLER_H
#define PITOT_CAPTURE_CPU_CPU_HANDLER_H

#include <signal.h>

#include "capture/cpu/cpu_slot.h"

#define CPU_SIGNAL SIGURG

/* Installs the handler if the program has none. Idempotent. */
enum cpu_handler_state {
	CPU_HANDLER_OURS, /* it was installed already */
	/* installed now: timers whose signal was ignored in the meantime may have stopped */
	CPU_HANDLER_NEW,
	CPU_HANDLER_FOREIGN, /* the program has its own */
};
enum cpu_handler_state cpu_handler_install(void);

/* While disabled the handler ignores all signals. */
void cpu_handler_enable(bool on);

/* Makes a slot known to the handler; the slot's memory must never be freed. */
void cpu_handler_add(struct cpu_slot *slot);
struct cpu_slot *cpu_handler_slot(unsigned index);

/* The value that a timer's signal carries. */
union sigval cpu_handler_value(const struct cpu_slot *slot, unsigned generation);

#endif
