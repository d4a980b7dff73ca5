#include "capture/core/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/own_fd.h"

static struct own_fd log_file;

void log_open(void)
{
	const char *path = secure_getenv("PITOT_LOG");

	if (!path || !*path || log_file.fd)
		return;
	if (strcmp(path, "stderr") == 0)
		own_fd_set(&log_file, fcntl(2, F_DUPFD_CLOEXEC, 3));
	else
		/* Never waits for the reader of a FIFO: then there is no log. */
		own_fd_set(&log_file,
			   open(path, O_WRONLY | O_CREAT | O_APPEND | IO_SAFE_FLAGS, 0600));
}

static bool can_write(size_t length)
{
	struct stat st;

	return own_fd_valid(&log_file) && fstat(log_file.fd, &st) == 0 &&
	       (!S_ISREG(st.st_mode) || io_allowed((uint64_t)st.st_size, length) == length);
}

void log_line(const char *format, ...)
{
	char line[512];
	va_list args;
	int n, m;
	uint64_t now;

	if (!log_file.fd)
		return;
	now = clock_monotonic_ns();
	n = snprintf(line, sizeof(line), "pitot[%d] %llu.%06llu: ", (int)getpid(),
		     (unsigned long long)(now / NS_PER_S),
		     (unsigned long long)(now % NS_PER_S / 1000));
	va_start(args, format);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
	va_end(args);
	n = m < 0 ? n : MIN(n + m, (int)sizeof(line) - 2);
	line[n++] = '\n';
	if (can_write((size_t)n))
		io_write_all(log_file.fd, line, (size_t)n);
}
