/*
 * safe_memory.h: memory of this process of which nobody knows whether it is mapped. Neither
 * function raises a signal or changes errno.
 */
#ifndef PITOT_BASE_SAFE_MEMORY_H
#define PITOT_BASE_SAFE_MEMORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

/*
 * Whether the 8 bytes at `address` can be read now: rt_sigprocmask with a mask there and an
 * operation that does not exist, which the kernel refuses with EFAULT before it refuses it with
 * EINVAL, and changes nothing. About 100 ns. Unlike with pipes, mincore or /proc, nothing has to be
 * open, a page without permissions counts as unreadable, and no sandbox forbids it.
 */
bool memory_readable(uint64_t address);

/*
 * false: not all is mapped, as when a module has just been unloaded. Slow: some tenths of a
 * microsecond.
 */
bool memory_copy(void *to, uint64_t from, size_t size);

/*
 * Copies the mapped bytes from `from` on, at most `size`; returns their number. Opens no file, so
 * that it copies nothing where a sandbox forbids process_vm_readv(2). `pid` is getpid(), which a
 * caller with several copies calls once.
 */
size_t memory_copy_some(pid_t pid, void *to, uint64_t from, size_t size);

#endif
