#include "base/safe_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "arch/processor.h"

#define MASK_BYTES 8 /* the kernel's sigset_t */
#define NO_SUCH_OPERATION -1

bool memory_readable(uint64_t address)
{
	return arch_system_call(SYS_rt_sigprocmask, NO_SUCH_OPERATION, address, 0, MASK_BYTES) ==
	       -EINVAL;
}

static size_t copy_through_file(char *to, uint64_t from, size_t size)
{
	_cleanup_close_ int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	size_t copied = 0;

	while (fd >= 0 && copied < size) {
		ssize_t n = pread(fd, to + copied, size - copied, (off_t)(from + copied));

		if (n <= 0)
			break;
		copied += (size_t)n;
	}
	return copied;
}

/* Returns the number of bytes copied, or a negative errno; leaves errno alone. */
static ssize_t copy_own(pid_t pid, void *to, uint64_t from, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)from, size };
	int saved = errno;
	ssize_t n = (ssize_t)syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL);

	if (n < 0)
		n = errno == ENOSYS ? (ssize_t)copy_through_file(to, from, size) : -errno;
	errno = saved;
	return n;
}

size_t memory_copy_some(pid_t pid, void *to, uint64_t from, size_t size)
{
	ssize_t n = copy_own(pid, to, from, size);

	return n > 0 ? (size_t)n : 0;
}

bool memory_copy(void *to, uint64_t from, size_t size)
{
	int saved = errno;
	ssize_t n = copy_own(getpid(), to, from, size);

	if (n == -EPERM)
		n = (ssize_t)copy_through_file(to, from, size);
	errno = saved;
	return n == (ssize_t)size;
}
