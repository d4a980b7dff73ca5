#include "stack/safe_memory.h"

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

	/* Not through syscall(), which sets errno. */
	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(NO_SUCH_OPERATION), "S"(address), "d"(0L), "r"(size)
			 : "rcx", "r11", "memory");
	return result == -EINVAL;
}

static size_t copy_through_file(char *to, uint64_t from, size_t size)
{
	_cleanup_close_ int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	size_t done = 0;

	while (fd >= 0 && done < size) {
		ssize_t n = pread(fd, to + done, size - done, (off_t)(from + done));

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

size_t memory_copy_some(pid_t pid, void *to, uint64_t from, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)from, size };
	int saved = errno;
	ssize_t n = (ssize_t)syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL);
	size_t copied = n > 0 ? (size_t)n : 0;

	if (n < 0 && (errno == ENOSYS || errno == EPERM))
		copied = copy_through_file(to, from, size);
	errno = saved;
	return copied;
}

bool memory_copy(void *to, uint64_t from, size_t size)
{
	return memory_copy_some(getpid(), to, from, size) == size;
}
