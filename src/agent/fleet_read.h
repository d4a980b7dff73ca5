/* fleet_read.h: rows of a lake's objects, as the agent has written them. */
#ifndef PITOT_AGENT_FLEET_READ_H
#define PITOT_AGENT_FLEET_READ_H

#include "agent/fleet_tables.h"

/*
 * Appends the rows of an object of a table, all or none. Returns 0, E_FORMAT if it is none that
 * this version could have written, or another negative code.
 */
int fleet_read(struct fleet_rows *rows, enum fleet_table table, const void *bytes, size_t size,
	       struct error *e) MUST_USE;

#endif
