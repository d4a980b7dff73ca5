/* record_scopes.h: the scopes that are open on a thread, of tasks and generators that take turns. */
#ifndef PITOT_PYTHON_RECORD_SCOPES_H
#define PITOT_PYTHON_RECORD_SCOPES_H

#include "record_options.h"

/* The recorder's functions pitot_scope_…. */
struct scope_functions {
	__typeof__(&pitot_scope_begin) begin;
	__typeof__(&pitot_scope_begin_runs) begin_runs;
	__typeof__(&pitot_scope_end) end;
	__typeof__(&pitot_scope_start) start;
	__typeof__(&pitot_scope_finish) finish;
};

/*
 * Begins a scope on the calling thread. `text` is its name; the pointer identifies the scope, and
 * must stay valid while it is open. Returns 0, or -1 with an exception of Python.
 */
int open_scope(const struct scope_functions *f, const char *text, unsigned int repeat,
	       unsigned int warmup);
/* Ends it. What ends out of order, or was begun on another thread, is warned of. Same results. */
int close_scope(const struct scope_functions *f, const char *text);

#endif
