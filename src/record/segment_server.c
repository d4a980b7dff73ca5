#include "record/segment_server.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/io.h"
#include "format/recording_dir.h"
#include "format/segment.h"
#include "recover/recover.h"

/* Created in all, and for one process: a process of the command may be hostile. */
#define FILES_MAX 4096u
#define FILES_OF_ONE (FILES_MAX / 8)
#define NUMBERS_MAX 1000000u
#define REQUESTS_AT_ONCE 64
#define MAPS_BYTES ((size_t)16 << 20)

static void add_hexadecimal(char *to, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		snprintf(to + 2 * i, 3, "%02x", bytes[i]);
}

static int listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(name);
	const int on = 1;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	fd = fd < 0 ? -errno : io_above_standard(fd);
	if (fd < 0)
		return fd;
	memcpy(address.sun_path + 1, name, length);
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
	    bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The command has its limit already: it was forked before. Returns how many files may be open. */
static rlim_t raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : limit.rlim_cur;
}

int segment_server_open(struct segment_server *s, const char *directory,
			const struct folder_id *folder)
{
	uint8_t random[LAUNCHER_TOKEN / 2 + 8];
	char suffix[17];

	uint64_t bytes = s->ring.bytes, age_ns = s->ring.age_ns;

	*s = (struct segment_server)SEGMENT_SERVER_INIT;
	s->memories_max = (size_t)MIN(raise_limit() / 4, MEMORIES_MAX);
	s->ring.bytes = bytes;
	s->ring.age_ns = age_ns;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -errno;
	add_hexadecimal(s->token, random, LAUNCHER_TOKEN / 2);
	add_hexadecimal(suffix, random + LAUNCHER_TOKEN / 2, 8);
	snprintf(s->address, sizeof(s->address), "pitot-%d-%s", (int)getpid(), suffix);
	s->folder = folder_open_known(directory, folder);
	s->fd = s->folder < 0 ? s->folder : listen_at(s->address);
	if (s->fd >= 0)
		return 0;
	segment_server_close(s);
	return -EIO;
}

void segment_server_text(const struct segment_server *s, bool finds_folder, struct strbuf *out)
{
	struct folder_id id = { .inode = 1 };

	if (finds_folder)
		(void)!folder_identify(s->folder, &id);
	strbuf_addf(out, "%u:%s:%s:%llx:%llx", (unsigned)getuid(), s->address, s->token,
		    (unsigned long long)id.device, (unsigned long long)id.inode);
}

static void refuse(struct segment_server *s, const struct ucred *sender, int error)
{
	size_t stored = MIN(s->refused_count, SEGMENTS_REFUSED_MAX);

	for (size_t i = 0; i < stored; i++)
		if (s->refused[i].pid == sender->pid && s->refused[i].error == error)
			return;
	if (stored < SEGMENTS_REFUSED_MAX)
		s->refused[stored] = (struct segment_refusal){ sender->pid, sender->uid, error };
	s->refused_count++;
}

/* Creates the file with the first free number. */
static int create_segment(int folder, uint32_t pid, uint32_t *number, char name[40])
{
	int fd = -EEXIST;

	for (; fd == -EEXIST && *number < NUMBERS_MAX; ++*number) {
		snprintf(name, 40, "%u.%u" SEGMENT_SUFFIX, pid, *number);
		fd = folder_create_file(folder, name);
	}
	--*number;
	return fd;
}

/* Opens *cubins if that is the file's folder. Returns a descriptor or a negative code. */
static int create(struct segment_server *s, pid_t sender, const struct segment_request *request,
		  uint32_t *number, int *cubins, char name[40])
{
	uint64_t *of_sender = map_at(&s->created_by, (uint64_t)sender, 0);
	int fd;

	if (!of_sender)
		return -ENOMEM;
	*name = '\0';
	if (s->ring.bytes && request->number != SEGMENT_CUBIN)
		return segment_ring_add(&s->ring, request->pid, sender, number);
	if (s->created >= FILES_MAX || *of_sender >= FILES_OF_ONE)
		return E_LIMIT;
	if (request->number == SEGMENT_CUBIN) {
		mkdirat(s->folder, RECORDING_CUBINS, 0700);
		*cubins = folder_enter(s->folder, RECORDING_CUBINS, FOLDER_OWN);
		snprintf(name, 40, RECORDING_CUBIN_NAME, (unsigned long long)request->crc);
		fd = folder_create_file(*cubins, name);
	} else {
		fd = create_segment(s->folder, request->pid, number, name);
	}
	s->created += fd >= 0;
	*of_sender += fd >= 0;
	return fd;
}

/* Sends the answer, with the descriptor unless it is negative. */
static bool answer(int socket, const struct sockaddr_un *to, socklen_t to_length, int fd,
		   uint32_t number)
{
	struct segment_answer text = { SEGMENT_REQUEST_MAGIC, number, MIN(fd, 0) };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .bytes = { 0 } };
	struct iovec part = { &text, sizeof(text) };
	struct msghdr m = { .msg_name = (void *)(uintptr_t)to,
			    .msg_namelen = to_length,
			    .msg_iov = &part,
			    .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(text);
}

static void handle(struct segment_server *s, const struct segment_request *request,
		   const struct ucred *sender, const struct sockaddr_un *from,
		   socklen_t from_length)
{
	_cleanup_close_ int cubins = -1;
	uint32_t number = request->number;
	bool is_segment = number != SEGMENT_CUBIN;
	char name[40];
	int fd;

	if (number == SEGMENT_LOST) {
		refuse(s, sender, request->error);
		return;
	}
	fd = create(s, sender->pid, request, &number, &cubins, name);
	if (!answer(s->fd, from, from_length, fd, number) && fd >= 0) {
		unlinkat(is_segment ? s->folder : cubins, name, 0);
		if (is_segment)
			refuse(s, sender, -ETIMEDOUT);
	}
	if (fd < 0 && is_segment)
		refuse(s, sender, fd);
	fd_close(&fd);
}

/* Whether it is a request by a process that has the command's environment. */
static bool is_valid(const struct segment_server *s, const struct segment_request *r, ssize_t size)
{
	return size == (ssize_t)sizeof(*r) && r->magic == SEGMENT_REQUEST_MAGIC && r->error < 0 &&
	       r->pid && memcmp(r->token, s->token, sizeof(r->token)) == 0;
}

void segment_server_dumped(struct segment_server *s, int result)
{
	struct segment_answer text = { SEGMENT_REQUEST_MAGIC, (uint32_t)MAX(result, 0),
				       MIN(result, 0) };

	(void)!sendto(s->fd, &text, sizeof(text), MSG_NOSIGNAL | MSG_DONTWAIT,
		      (struct sockaddr *)&s->dump.from, s->dump.from_length);
	fd_close(&s->dump.folder);
}

/* Further requests wait until it is answered. Only our user may read what others have recorded. */
static void take_dump(struct segment_server *s, const struct segment_request *request,
		      const struct ucred *sender, const struct sockaddr_un *from,
		      socklen_t from_length, int *folder)
{
	struct segment_server one = { .fd = s->fd, .dump.folder = -1 };
	struct stat st;

	one.dump.from = *from;
	one.dump.from_length = from_length;
	if (sender->uid != getuid() || *folder < 0 || fstat(*folder, &st) < 0 ||
	    !S_ISDIR(st.st_mode)) {
		segment_server_dumped(&one, -EACCES);
	} else if (!s->ring.bytes) {
		segment_server_dumped(&one, E_UNSUPPORTED);
	} else {
		s->dump = one.dump;
		s->dump.folder = *folder;
		s->dump.interval = request->interval;
		*folder = -1;
	}
}

/* Whether the memory is new, and the process has not sent too many: it has one for each exec. */
static bool may_hold(const struct segment_server *s, pid_t pid, int fd)
{
	struct stat memory, other;
	size_t of_sender = 0;

	if (fstat(fd, &memory) < 0)
		return false;
	for (size_t i = 0; i < s->memories.count; i++) {
		of_sender += s->memories.data[i].pid == pid;
		if (fstat(s->memories.data[i].fd, &other) < 0 || other.st_ino == memory.st_ino)
			return false;
	}
	return of_sender < MEMORIES_OF_ONE;
}

/* Takes *fd, which is the memory of the process. */
static void hold(struct segment_server *s, pid_t pid, int *fd)
{
	struct held_memory memory = { .pid = pid, .process = -1, .fd = *fd };

	if (*fd < 0 || pid <= 0 || s->memories.count >= s->memories_max || !recover_is_area(*fd) ||
	    !may_hold(s, pid, *fd))
		return;
	memory.process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (vec_push(&s->memories, memory) == 0)
		*fd = -1;
	else if (memory.process >= 0)
		close(memory.process);
}

static bool has_ended(const struct held_memory *memory)
{
	return memory->process < 0 || process_has_ended(memory->process);
}

/* Whether the process still has the memory: exec takes it away. Unknown counts as true. */
static bool is_mapped(const struct held_memory *memory)
{
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;
	char inode[40];
	struct stat st;

	if (fstat(memory->fd, &st) < 0 ||
	    io_process_text(memory->pid, "maps", MAPS_BYTES, &maps) < 0)
		return true;
	snprintf(inode, sizeof(inode), " %llu /memfd:pitot", (unsigned long long)st.st_ino);
	return maps.failed || maps.length == MAPS_BYTES ||
	       strstr(strbuf_text(&maps), inode) != NULL;
}

static int take(struct segment_server *s, size_t i)
{
	struct held_memory memory = s->memories.data[i];

	s->memories.data[i] = s->memories.data[--s->memories.count];
	fd_close(&memory.process);
	return memory.fd;
}

int segment_server_take_memory(struct segment_server *s, bool last)
{
	for (size_t i = 0; i < s->memories.count; i++) {
		const struct held_memory *memory = &s->memories.data[i];

		if (has_ended(memory) || (last && !is_mapped(memory)))
			return take(s, i);
	}
	return -1;
}

void segment_server_trim_memories(struct segment_server *s)
{
	for (size_t i = s->memories.count; i-- > 0;)
		if (has_ended(&s->memories.data[i]) && !recover_has_rest(s->memories.data[i].fd))
			close(take(s, i));
}

void segment_server_answer(struct segment_server *s)
{
	for (unsigned i = 0; s->fd >= 0 && s->dump.folder < 0 && i < REQUESTS_AT_ONCE; i++) {
		union {
			char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
			struct cmsghdr header;
		} control;
		struct segment_request request;
		struct iovec part = { &request, sizeof(request) };
		struct sockaddr_un from;
		struct msghdr m = { .msg_name = &from,
				    .msg_namelen = sizeof(from),
				    .msg_iov = &part,
				    .msg_iovlen = 1,
				    .msg_control = control.bytes,
				    .msg_controllen = sizeof(control.bytes) };
		ssize_t n = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		struct ucred sender;
		int passed;

		if (n < 0)
			return;
		if (segment_read_control(&m, &sender, &passed) && !(m.msg_flags & MSG_TRUNC) &&
		    is_valid(s, &request, n)) {
			if (request.number == SEGMENT_MEMORY)
				hold(s, sender.pid, &passed);
			else if (request.number == SEGMENT_DUMP)
				take_dump(s, &request, &sender, &from, m.msg_namelen, &passed);
			else
				handle(s, &request, &sender, &from, m.msg_namelen);
		}
		fd_close(&passed);
	}
}

void segment_server_close(struct segment_server *s)
{
	fd_close(&s->fd);
	fd_close(&s->folder);
	fd_close(&s->dump.folder);
	segment_ring_release(&s->ring);
	while (s->memories.count)
		close(take(s, 0));
	vec_release(&s->memories);
	map_release(&s->created_by);
}
