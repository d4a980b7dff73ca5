/*
 * gpufl_life.h: whether a process still writes a session of gpufl's logs.
 *
 * The process holds a lock on .gpufl-session.lock, as gpufl's client does. It is an OFD lock: a
 * POSIX lock would end when the program closes any descriptor of the file, as a backup of the
 * folder does. The file also names its process, because locks do not reach other hosts on every
 * file system, and a program can close all descriptors. A session is dead if its lock is free, and
 *
 *	- its process ran in our PID namespace since the last boot of this machine, and has ended;
 *	- or this cannot be known, and nothing was written for GPUFL_SILENT_S.
 */
#ifndef PITOT_GPUFL_GPUFL_LIFE_H
#define PITOT_GPUFL_GPUFL_LIFE_H

#include <stdbool.h>

#include "base/own_fd.h"

#define GPUFL_LOCK ".gpufl-session.lock"
#define GPUFL_SILENT_S 300

/* Takes the lock in a new session's folder (folder.h). Without a lock the session goes on. */
void gpufl_life_begin(struct own_fd *lock, int session);
/* Takes it again if the program has closed it, and shows by the file's time that we live. */
void gpufl_life_renew(struct own_fd *lock, int session);

/* Whether a process holds the lock. */
bool gpufl_life_is_locked(int session);
/*
 * Takes the lock of a dead session of ours, to publish what it has left in `tmp`. Returns false if
 * it lives, or if another process publishes its logs.
 */
bool gpufl_life_take(struct own_fd *lock, int session, int tmp);

#endif
