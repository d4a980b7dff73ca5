/*
 * safe_memory.h: reads memory of this process that may be unmapped. No function raises a signal or
 * changes errno.
 */
#ifndef PITOT_BASE_SAFE_MEMORY_H
#define PITOT_BASE_SAFE_MEMORY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/compiler.h"

/*
 * Whether the 8 bytes at `address` can be read now. Calls rt_sigprocmask with the address as the
 * mask and an invalid operation: the kernel checks the mask first (EFAULT), then the operation
 * (EINVAL), and changes nothing. About 100 ns. Unlike pipes, mincore or /proc, this needs no open
 * file, treats a page without permissions as unreadable, and is forbidden by no sandbox.
 */
bool memory_readable(uint64_t address);

/*
 * Copies `size` bytes. Returns false when not all of them are mapped, for example because a module
 * was just unloaded. Slow: some tenths of a microsecond.
 */
bool memory_copy(void *to, uint64_t from, size_t size);

/*
 * Copies the mapped bytes at `from`, at most `size`, and returns their number. Copies
 * nothing where a sandbox forbids process_vm_readv(2), and opens a file only where that does not
 * exist (in an emulator). `pid` is getpid(), which the caller
 * reads once for several copies.
 */
size_t memory_copy_some(pid_t pid, void *to, uint64_t from, size_t size);

#endif
