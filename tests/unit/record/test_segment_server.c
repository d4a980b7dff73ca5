/* link: test_support */
/* Segments that the launcher creates for processes that cannot. */
#include "record/segment_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/io.h"
#include "capture/core/shared_area.h"
#include "format/segment_write.h"
#include "support/cmocka_tests.h"

static struct segment_server server;
static struct strbuf launcher;

static void begin(const char *folder)
{
	assert_int_equal(segment_server_open(&server, folder, &(struct folder_id){ 0 }), 0);
	strbuf_clear(&launcher);
	segment_server_text(&server, true, &launcher);
	assert_in_range(launcher.length, 60, LAUNCHER_TEXT_MAX - 1);
}

static void end(void)
{
	segment_server_close(&server);
	strbuf_release(&launcher);
}

/* Calls the function in another process while this one answers. Returns its exit status. */
static int serve(int (*client)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(client());
	while (waitpid(pid, &status, WNOHANG) == 0) {
		struct pollfd polled = { .fd = server.fd, .events = POLLIN };

		poll(&polled, 1, 10);
		segment_server_answer(&server);
	}
	segment_server_answer(&server);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- clients: they return 0 when all is right --- */

static int two_segments(void)
{
	uint32_t number = 0;
	int first = segment_request(launcher.data, 77, -EACCES, &number), second;

	if (first < 0 || number != 0 || write(first, "first", 5) != 5)
		return 1;
	second = segment_request(launcher.data, 77, -EACCES, &number);
	return second < 0 || number != 1 || write(second, "second", 6) != 6;
}

/* The file of a module is created once. */
static int cubins(void)
{
	int fd = segment_request_cubin(launcher.data, 0xab);

	if (fd < 0 || write(fd, "code", 4) != 4)
		return 1;
	return segment_request_cubin(launcher.data, 0xab) != -EEXIST;
}

/* Memory of the recorder's form, and something else. */
/* Ours, many times over, and what is none. */
static int memories(void)
{
	int area = memfd_create("pitot", MFD_CLOEXEC | MFD_ALLOW_SEALING),
	    shrinks = memfd_create("pitot", MFD_CLOEXEC | MFD_ALLOW_SEALING),
	    other = memfd_create("other", MFD_CLOEXEC), pipes[2];
	off_t size = (off_t)area_offset(AREA_PART_COUNT);

	if (ftruncate(area, size) < 0 || ftruncate(shrinks, size) < 0 ||
	    fcntl(area, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return 1;
	if (segment_send_memory(launcher.data, shrinks) < 0 ||
	    segment_send_memory(launcher.data, other) < 0 || pipe(pipes) < 0 ||
	    segment_send_memory(launcher.data, pipes[0]) < 0)
		return 2;
	for (unsigned i = 0; i < 100; i++)
		if (segment_send_memory(launcher.data, area) < 0)
			return 3;
	for (unsigned i = 0; i < 100; i++) {
		close(area);
		area = memfd_create("pitot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (ftruncate(area, size) < 0 ||
		    fcntl(area, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 ||
		    segment_send_memory(launcher.data, area) < 0)
			return 4;
	}
	return 0;
}

static int without_token(void)
{
	char *token = strchr(strchr(launcher.data, ':') + 1, ':') + 1;
	uint32_t number = 0;

	token[0] = token[0] == '0' ? '1' : '0';
	return segment_request(launcher.data, 77, -EACCES, &number) != -EAGAIN;
}

/* The answer comes from our own user, but the text names another one as the launcher. */
static int another_users_launcher(void)
{
	char text[LAUNCHER_TEXT_MAX];
	uint32_t number = 0;

	snprintf(text, sizeof(text), "%u%s", (unsigned)getuid() + 1, strchr(launcher.data, ':'));
	return segment_request(text, 77, -EACCES, &number) != -EPROTO;
}

static int lost_segment(void)
{
	segment_report_lost(launcher.data, 77, -ENOSPC);
	return 0;
}

static int refused_segment(void)
{
	uint32_t number = 0;

	return segment_request(launcher.data, 77, -EACCES, &number) != E_LIMIT;
}

/* Asks until it is refused. Returns whether that is after an eighth of all segments. */
static int greedy(void)
{
	uint32_t number = 0;
	int count = 0, fd;

	while ((fd = segment_request(launcher.data, 66, -EACCES, &number)) >= 0) {
		close(fd);
		count++;
	}
	return fd != E_LIMIT || count != 512;
}

/* Sends the bytes of a request by a socket without a name, which cannot be answered. */
static bool send_request(const struct segment_request *r, size_t size)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = strlen(server.address);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ssize_t sent;

	memcpy(to.sun_path + 1, server.address, length);
	sent = sendto(fd, r, size, 0, (struct sockaddr *)&to,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
	close(fd);
	return sent == (ssize_t)size;
}

static struct segment_request valid_request(uint32_t number)
{
	struct segment_request r = { SEGMENT_REQUEST_MAGIC, 77, number, -EACCES, { 0 }, { 0xcd } };

	memcpy(r.token, server.token, sizeof(r.token));
	return r;
}

static int malformed_requests(void)
{
	struct segment_request r[5];
	bool sent = true;

	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = valid_request(SEGMENT_LOST);
	r[0].magic++;
	r[1].pid = 0;
	r[2].error = 0;
	r[3].error = 13;
	r[4].token[LAUNCHER_TOKEN - 1] ^= 1;
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		sent &= send_request(&r[i], sizeof(r[i]));
	r[0] = valid_request(SEGMENT_LOST);
	return !sent || !send_request(r, sizeof(r[0]) - 1) || !send_request(r, sizeof(r[0]) + 1) ||
	       !send_request(r, 0);
}

/* With as many descriptors as a hostile process likes to pass. */
static bool send_descriptors(const struct segment_request *r, size_t count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr header;
	} control = { .bytes = { 0 } };
	struct iovec part = { (void *)(uintptr_t)r, sizeof(*r) };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = strlen(server.address);
	struct msghdr m = { .msg_name = &to,
			    .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
						       length),
			    .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = CMSG_SPACE(count * sizeof(int)) };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ssize_t sent;

	memcpy(to.sun_path + 1, server.address, length);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	for (size_t i = 0; i < count; i++)
		memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fd, sizeof(fd));
	sent = sendmsg(fd, &m, 0);
	close(fd);
	return sent == (ssize_t)sizeof(*r);
}

static int many_descriptors(void)
{
	static const uint32_t numbers[] = { 0, SEGMENT_LOST, SEGMENT_MEMORY, SEGMENT_DUMP };
	bool sent = true;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		for (size_t count = 1; count <= 8; count++) {
			struct segment_request r = valid_request(numbers[i]);

			sent &= send_descriptors(&r, count);
		}
	return !sent;
}

static int gone_before_the_answer(void)
{
	struct segment_request segment = valid_request(0), cubin = valid_request(SEGMENT_CUBIN);

	return !send_request(&segment, sizeof(segment)) || !send_request(&cubin, sizeof(cubin));
}

static int lost_often(void)
{
	for (int i = 0; i < 6; i++)
		segment_report_lost(launcher.data, 77, i % 2 ? -ENOSPC : -EIO);
	return 0;
}

static int next_number(void)
{
	uint32_t number = 0, last = 999999;
	int fd = segment_request(launcher.data, 77, -EACCES, &number);

	if (fd < 0 || number != 1)
		return 1;
	return segment_request(launcher.data, 77, -EACCES, &last) != -EEXIST;
}

/* --- tests --- */

static void check_file(const char *folder, const char *name, const char *text)
{
	struct strbuf read = STRBUF_INIT;
	struct stat st;

	assert_int_equal(stat(temp_file(folder, name), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(io_read_file(temp_file(folder, name), 100, &read), 0);
	assert_string_equal(strbuf_text(&read), text);
	strbuf_release(&read);
}

static void segments_are_created(void **state)
{
	struct folder_id id = { 0 };
	struct stat st;

	begin(*state);
	assert_true(launcher_folder(launcher.data, &id));
	assert_int_equal(stat(*state, &st), 0);
	assert_int_equal(id.inode, st.st_ino);
	assert_int_equal(serve(two_segments), 0);
	check_file(*state, "77.0.pit", "first");
	check_file(*state, "77.1.pit", "second");
	assert_int_equal(server.refused_count, 0);
	end();
}

static unsigned open_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void descriptors_that_nobody_wants_are_closed(void **state)
{
	unsigned before;

	begin(*state);
	before = open_descriptors();
	assert_int_equal(serve(many_descriptors), 0);
	assert_int_equal(open_descriptors(), before);
	end();
}

static void cubins_are_created(void **state)
{
	begin(*state);
	assert_int_equal(serve(cubins), 0);
	check_file(*state, "cubins/00000000000000ab.cubin", "code");
	assert_int_equal(server.refused_count, 0);
	end();
}

static void memory_is_held_until_the_end(void **state)
{
	int memory;

	begin(*state);
	assert_int_equal(serve(memories), 0);
	assert_int_equal(server.memories.count, MEMORIES_OF_ONE);
	assert_int_equal(
		pwrite(server.memories.data[1].fd, "session", 8,
		       (off_t)(area_offset(AREA_JOURNAL) + offsetof(struct journal, session))),
		8);
	segment_server_trim_memories(&server);
	assert_int_equal(server.memories.count, 1);
	memory = segment_server_take_memory(&server, false);
	assert_true(memory >= 0);
	close(memory);
	assert_int_equal(segment_server_take_memory(&server, true), -1);
	end();
}

/* A folder of another user's making, or a link, is not entered. */
static void cubins_behind_a_link_are_refused(void **state)
{
	begin(*state);
	assert_int_equal(symlink(*state, temp_file(*state, "cubins")), 0);
	assert_int_equal(serve(cubins), 1);
	assert_int_equal(access(temp_file(*state, "00000000000000ab.cubin"), F_OK), -1);
	end();
}

static void only_the_command_may_ask(void **state)
{
	begin(*state);
	assert_int_equal(serve(without_token), 0);
	assert_int_equal(server.created, 0);
	assert_int_not_equal(access(temp_file(*state, "77.0.pit"), F_OK), 0);
	end();
}

static void only_the_launcher_may_answer(void **state)
{
	begin(*state);
	assert_int_equal(serve(another_users_launcher), 0);
	end();
}

static void failures_are_known(void **state)
{
	begin(*state);
	assert_int_equal(serve(lost_segment), 0);
	assert_int_equal(server.refused_count, 1);
	assert_int_equal(server.refused[0].error, -ENOSPC);
	assert_int_equal(server.refused[0].uid, getuid());
	server.created = 4096;
	assert_int_equal(serve(refused_segment), 0);
	assert_int_equal(server.refused_count, 2);
	assert_int_equal(server.refused[1].error, E_LIMIT);
	end();
}

static void malformed_requests_are_ignored(void **state)
{
	begin(*state);
	assert_int_equal(serve(malformed_requests), 0);
	assert_int_equal(server.created, 0);
	assert_int_equal(server.refused_count, 0);
	end();
}

/* A file that nobody has a descriptor of is removed; of a segment the loss is known. */
static void an_answer_that_does_not_arrive(void **state)
{
	begin(*state);
	assert_int_equal(serve(gone_before_the_answer), 0);
	assert_int_equal(server.created, 2);
	assert_int_equal(access(temp_file(*state, "77.0.pit"), F_OK), -1);
	assert_int_equal(access(temp_file(*state, "cubins"), F_OK), 0);
	assert_int_equal(access(temp_file(*state, "cubins/00000000000000cd.cubin"), F_OK), -1);
	assert_int_equal(server.refused_count, 1);
	assert_int_equal(server.refused[0].error, -ETIMEDOUT);
	end();
}

/* Once for each process and error; those beyond the list are counted. */
static void refusals_are_counted(void **state)
{
	begin(*state);
	assert_int_equal(serve(lost_often), 0);
	assert_int_equal(server.refused_count, 2);
	assert_int_equal(server.refused[1].error, -ENOSPC);
	for (size_t i = 2; i < SEGMENTS_REFUSED_MAX + 2; i++)
		assert_int_equal(serve(lost_segment), 0);
	assert_int_equal(server.refused_count, SEGMENTS_REFUSED_MAX + 2);
	end();
}

static void files_that_exist_are_left_alone(void **state)
{
	begin(*state);
	for (size_t i = 0; i < 2; i++) {
		int fd = open(temp_file(*state, i ? "77.999999.pit" : "77.0.pit"),
			      O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		assert_int_equal(write(fd, "old", 3), 3);
		close(fd);
	}
	assert_int_equal(serve(next_number), 0);
	check_file(*state, "77.0.pit", "old");
	check_file(*state, "77.999999.pit", "old");
	check_file(*state, "77.1.pit", "");
	end();
}

/* Two of one process: neither their addresses nor their tokens can be guessed. */
static void servers_beside_each_other(void **state)
{
	struct segment_server other;

	begin(*state);
	assert_int_equal(segment_server_open(&other, *state, &(struct folder_id){ 0 }), 0);
	assert_string_not_equal(other.address, server.address);
	assert_string_not_equal(other.token, server.token);
	assert_int_equal(strlen(other.token), LAUNCHER_TOKEN);
	segment_server_close(&other);
	end();
}

static void servers_leave_no_descriptors(void **state)
{
	struct folder_id other = { 1, 2 };
	int next = dup(STDIN_FILENO);

	close(next);
	assert_int_equal(segment_server_open(&server, *state, &other), -EIO);
	assert_int_equal(segment_server_open(&server, "/nowhere", &(struct folder_id){ 0 }), -EIO);
	assert_true(server.fd == -1 && server.folder == -1);
	begin(*state);
	end();
	assert_true(server.fd == -1 && server.folder == -1);
	segment_server_answer(&server);
	assert_int_equal(dup(STDIN_FILENO), next);
	close(next);
}

static void one_process_cannot_use_them_all(void **state)
{
	begin(*state);
	assert_int_equal(serve(greedy), 0);
	assert_int_equal(server.refused_count, 1);
	assert_int_equal(server.refused[0].error, E_LIMIT);
	assert_int_equal(serve(two_segments), 0);
	end();
}

static void malformed_texts(void **state)
{
	static const char *const texts[] = {
		"",         "0",
		"0:name",   "0:name:12:1:1",
		"0::0:1:1", "x:name:0123456789abcdef0123456789abcdef:1:1"
	};
	struct folder_id id;
	uint32_t number = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_false(launcher_folder(texts[i], &id));
		assert_int_equal(segment_request(texts[i], 1, -EACCES, &number), -EINVAL);
	}
	assert_int_equal(segment_request("0:pitot-nobody:0123456789abcdef0123456789abcdef:1:1", 1,
					 -EACCES, &number),
			 -ECONNREFUSED);
}

/* Whoever may rename the recording's folder cannot make us write elsewhere. */
static void a_folder_that_was_replaced(void **state)
{
	struct index_entry index[4];
	struct segment_file file = { .index = index };
	struct segment_identity id = { .directory = temp_file(*state, "r"), .prefix = "1" };
	char moved[300], directory[256];
	uint32_t number = 0;
	struct stat st;
	int folder;

	snprintf(directory, sizeof(directory), "%s", id.directory);
	snprintf(moved, sizeof(moved), "%s.moved", directory);
	id.directory = directory;
	assert_int_equal(mkdir(directory, 0700), 0);
	folder = folder_open(directory, FOLDER_OWN);
	assert_int_equal(folder_identify(folder, &id.folder), 0);
	close(folder);
	assert_int_equal(segment_file_create(&file, &id, &number, NULL), 0);
	assert_int_equal(rename(directory, moved), 0);
	assert_int_equal(mkdir(directory, 0700), 0);
	close(file.own.fd); /* as a program may: it cannot be opened again */
	assert_int_equal(segment_file_write(&file, "x", 1, &(int){ 0 }), 0);
	segment_file_release(&file);
	file.index = index;
	assert_int_equal(segment_file_create(&file, &id, &number, NULL), E_MOVED);
	assert_int_equal(rmdir(directory), 0); /* it is empty */
	assert_int_equal(rename(moved, directory), 0);
	assert_int_equal(segment_file_create(&file, &id, &number, NULL), 0);
	segment_file_release(&file);
	assert_int_equal(stat(temp_file(directory, "1.1.pit"), &st), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(segments_are_created),
		folder_test(cubins_are_created),
		folder_test(descriptors_that_nobody_wants_are_closed),
		folder_test(memory_is_held_until_the_end),
		folder_test(cubins_behind_a_link_are_refused),
		folder_test(only_the_command_may_ask),
		folder_test(only_the_launcher_may_answer),
		folder_test(failures_are_known),
		folder_test(malformed_requests_are_ignored),
		folder_test(an_answer_that_does_not_arrive),
		folder_test(refusals_are_counted),
		folder_test(files_that_exist_are_left_alone),
		folder_test(servers_beside_each_other),
		folder_test(servers_leave_no_descriptors),
		folder_test(one_process_cannot_use_them_all),
		cmocka_unit_test(malformed_texts),
		folder_test(a_folder_that_was_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
