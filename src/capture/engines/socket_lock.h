/*
 * socket_lock.h: names that one process of the machine (of its network namespace) holds at a time.
 * A process holds a name by binding it in the abstract namespace of sockets, which the operating
 * system releases however the process ends.
 */
#ifndef PITOT_CAPTURE_ENGINES_SOCKET_LOCK_H
#define PITOT_CAPTURE_ENGINES_SOCKET_LOCK_H

#include "base/own_fd.h"

/*
 * Returns false if something else holds the name, of at most 100 bytes. Returns true with *own none
 * if that cannot be found out. A child of a fork must close *own: it would hold the name after its
 * parent's end.
 */
bool socket_lock_take(struct own_fd *own, const char *name);

#endif
