/*
 * dump_slots.h: how many dumps of rules are written at the same time on a machine. A fault of a job
 * makes all of its ranks dump at the same moment, into one file system.
 *
 * A slot is a name among the abstract addresses of Unix sockets: whoever has bound it has the slot,
 * until the descriptor is closed, also by the process's death. Nothing is left behind. Slots are
 * those of one user in one network namespace. Anybody can bind the names; the waiting has an end
 * for that reason.
 */
#ifndef PITOT_RECORD_DUMP_SLOTS_H
#define PITOT_RECORD_DUMP_SLOTS_H

#include "base/compiler.h"

#define DUMP_SLOTS 2u
#define DUMP_SLOT_NAME "pitot-dump-%u-%u" /* of a user, from 0 */

/* Takes a free slot. Returns its descriptor, -EBUSY, or another negative errno. */
int dump_slot_take(void) MUST_USE;

#endif
