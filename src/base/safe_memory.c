#include "base/safe_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MASK_BYTES 8 /* the kernel's sigset_t */
#define NO_SUCH_OPERATION -1

bool memory_readable(uint64_t address)
{
	long result = SYS_rt_sigprocmask;
	register long size __asm__("r10") = MASK_BYTES;

	/* syscall() would set errno. */
	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(NO_SUCH_OPERATION), "S"(address), "d"(0L), "r"(size)
			 : "rcx", "r11", "memory");
	return result == -EINVAL;
}

static bool copy_through_file(char *to, uint64_t from, size_t size)
{
	_cleanup_close_ int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && size) {
		ssize_t n = pread(fd, to, size, (off_t)from);

		if (n <= 0)
			return false;
		to += n;
		from += (uint64_t)n;
		size -= (size_t)n;
	}
	return fd >= 0;
}

/* Returns the number of bytes copied, or -1 and errno. */
static ssize_t copy_own(pid_t pid, void *to, uint64_t from, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)from, size };

	return (ssize_t)syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL);
}

size_t memory_copy_some(pid_t pid, void *to, uint64_t from, size_t size)
{
	int saved = errno;
	ssize_t n = copy_own(pid, to, from, size);

	errno = saved;
	return n > 0 ? (size_t)n : 0;
}

bool memory_copy(void *to, uint64_t from, size_t size)
{
	int saved = errno;
	ssize_t n = copy_own(getpid(), to, from, size);
	bool copied = n == (ssize_t)size;

	if (n < 0 && (errno == ENOSYS || errno == EPERM))
		copied = copy_through_file(to, from, size);
	errno = saved;
	return copied;
}
