#include "gpufl/gpufl_life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/folder.h"
#include "base/io.h"
#include "base/json_read.h"

#define TEXT_MAX 4096
#define RENEW_S (GPUFL_SILENT_S / 10)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* What identifies a process on this machine, until the next boot. */
struct process_name {
	char boot[64];
	unsigned long long pid_namespace, start_ticks;
	pid_t pid;
};

static bool name_process(pid_t pid, struct process_name *out)
{
	_cleanup_strbuf_ struct strbuf boot = STRBUF_INIT;
	struct process_stat process;
	struct stat st;

	if (io_read_text(BOOT_ID, sizeof(out->boot) - 1, &boot) < 0 || !boot.length ||
	    stat("/proc/self/ns/pid", &st) < 0 || !io_process_stat(pid, &process))
		return false;
	*out = (struct process_name){ .pid_namespace = st.st_ino,
				      .start_ticks = process.start_ticks,
				      .pid = pid };
	snprintf(out->boot, sizeof(out->boot), "%s", boot.data);
	return true;
}

static bool try_lock(int fd)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

static void write_name(int fd)
{
	struct process_name name;
	char text[TEXT_MAX];
	int length;

	if (!name_process(getpid(), &name))
		return;
	length = snprintf(text, sizeof(text),
			  "{\"boot\":\"%s\",\"pid_namespace\":%llu,\"pid\":%d,\"start\":%llu}\n",
			  name.boot, name.pid_namespace, (int)name.pid, name.start_ticks);
	if (io_allowed(0, (size_t)length) == (size_t)length && ftruncate(fd, 0) == 0)
		io_write_all(fd, text, (size_t)length);
}

static bool set_lock(struct own_fd *lock, int fd)
{
	*lock = (struct own_fd){ 0 };
	return fd >= 0 && own_fd_set(lock, fd) == 0;
}

void gpufl_life_begin(struct own_fd *lock, int session)
{
	if (!set_lock(lock, folder_create_file(session, GPUFL_LOCK)))
		return;
	write_name(lock->fd);
	try_lock(lock->fd);
}

void gpufl_life_renew(struct own_fd *lock, int session)
{
	struct stat st;

	if (!own_fd_valid(lock)) {
		if (set_lock(lock, folder_open_file(session, GPUFL_LOCK, O_WRONLY, FOLDER_ANY)))
			try_lock(lock->fd);
	} else if (fstat(lock->fd, &st) == 0 && time(NULL) - st.st_mtim.tv_sec >= RENEW_S) {
		futimens(lock->fd, NULL);
	}
}

bool gpufl_life_is_locked(int session)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	_cleanup_close_ int fd = folder_open_file(session, GPUFL_LOCK, O_RDONLY, FOLDER_ANY);

	return fd >= 0 && fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

/* ---- dead sessions ---- */

enum state { LIVING, DEAD, UNKNOWN };

static unsigned long long number(const struct strbuf *text, const char *key)
{
	struct json_found found;

	if (json_find(text->data, text->length, key, &found, NULL) < 0)
		return 0;
	return strtoull(found.text, NULL, 10);
}

/* What is known about the process that the lock file names. */
static enum state process_state(int fd)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct process_name us;
	struct process_stat process;
	struct json_found boot;
	pid_t pid;

	if (lseek(fd, 0, SEEK_SET) < 0 || io_read_to_end(fd, TEXT_MAX, &text) < 0 ||
	    json_find(strbuf_text(&text), text.length, "boot", &boot, NULL) < 0 ||
	    !name_process(getpid(), &us) || strcmp(boot.text, us.boot) != 0 ||
	    number(&text, "pid_namespace") != us.pid_namespace)
		return UNKNOWN;
	pid = (pid_t)number(&text, "pid");
	if (pid <= 0)
		return UNKNOWN;
	if (!io_process_stat(pid, &process) || process.start_ticks != number(&text, "start"))
		return DEAD;
	return process.state == 'Z' || process.state == 'X' ? DEAD : LIVING;
}

static bool is_silent(const struct stat *st)
{
	return st->st_mtim.tv_sec < time(NULL) - GPUFL_SILENT_S;
}

/* Whether nothing was written into a folder for long. */
static bool is_silent_folder(int folder)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	struct stat st;
	bool silent = list && fstat(folder, &st) == 0 && is_silent(&st);

	while (silent && (name = folder_next(list)))
		silent = folder_stat(folder, name, &st) < 0 || is_silent(&st);
	return silent;
}

bool gpufl_life_take(struct own_fd *lock, int session, int tmp)
{
	bool silent = is_silent_folder(session) && is_silent_folder(tmp);
	int fd = folder_open_file(session, GPUFL_LOCK, O_RDWR, FOLDER_OWN);
	enum state state;

	if (fd == -ENOENT && silent)
		fd = folder_create_file(session, GPUFL_LOCK);
	if (!set_lock(lock, fd))
		return false;
	state = try_lock(lock->fd) ? process_state(lock->fd) : LIVING;
	if (state == DEAD || (state == UNKNOWN && silent))
		return true;
	own_fd_close(lock);
	return false;
}
