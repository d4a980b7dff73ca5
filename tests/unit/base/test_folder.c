#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/io.h"

static char path[] = "/tmp/pitot-folder-XXXXXX";
static char text_buffer[4096];
static int folder;
static unsigned open_before;

/* A path in the folder; valid until the next call. */
static const char *in_folder(const char *name)
{
	snprintf(text_buffer, sizeof(text_buffer), "%s/%s", path, name);
	return text_buffer;
}

static void write_text(const char *name, const char *text)
{
	int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static unsigned open_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int set_up(void **state)
{
	(void)state;
	open_before = open_descriptors();
	memcpy(strrchr(path, '-'), "-XXXXXX", 7);
	if (!mkdtemp(path))
		return -1;
	folder = folder_open(path, FOLDER_OWN);
	return folder < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	close(folder);
	snprintf(command, sizeof(command), "rm -rf %s", path);
	return system(command) || open_descriptors() != open_before;
}

static int opened(const char *name)
{
	int fd = folder_open_file(folder, name, O_RDONLY, FOLDER_ANY);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void make_socket(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s", in_folder(name));
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

/* Whatever lies in place of a file, nothing waits for it, and nothing but a file is opened. */
static void only_regular_files_are_opened(void **state)
{
	struct strbuf text = STRBUF_INIT;

	(void)state;
	write_text("file", "text");
	assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
	assert_int_equal(mkdir(in_folder("folder"), 0700), 0);
	assert_int_equal(symlink("file", in_folder("link")), 0);
	assert_int_equal(symlink("/dev/zero", in_folder("zero")), 0);
	assert_int_equal(symlink("nowhere", in_folder("dangling")), 0);
	make_socket("socket");
	assert_int_equal(opened("file"), 0);
	assert_int_equal(opened("fifo"), E_NOT_FILE);
	assert_int_equal(opened("socket"), E_NOT_FILE);
	assert_int_equal(opened("folder"), -EISDIR);
	assert_int_equal(opened("link"), E_LINK);
	assert_int_equal(opened("zero"), E_LINK);
	assert_int_equal(opened("dangling"), E_LINK);
	assert_int_equal(opened("none"), -ENOENT);
	assert_int_equal(folder_open_file(folder, "fifo", O_WRONLY, FOLDER_ANY), E_NOT_FILE);
	assert_int_equal(io_read_file(in_folder("fifo"), 100, &text), E_NOT_FILE);
	assert_int_equal(io_read_file(in_folder("zero"), 100, &text), E_NOT_FILE);
	assert_int_equal(io_read_file(in_folder("socket"), 100, &text), E_NOT_FILE);
	assert_int_equal(io_read_file(in_folder("folder"), 100, &text), -EISDIR);
	assert_int_equal(io_read_file(in_folder("link"), 100, &text), 0);
	assert_int_equal(folder_read_file(folder, "file", 100, &text), 0);
	assert_string_equal(strbuf_text(&text), "texttext");
	assert_int_equal(folder_read_file(folder, "file", 3, &text), E_LIMIT);
	strbuf_release(&text);
}

static void names_do_not_lead_out_of_the_folder(void **state)
{
	static const char *const names[] = { "", ".", "..", "../x", "a/b", "/etc/passwd" };
	struct strbuf text = STRBUF_INIT;
	struct stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(folder_enter(folder, names[i], FOLDER_ANY), -EINVAL);
		assert_int_equal(opened(names[i]), -EINVAL);
		assert_int_equal(folder_create_file(folder, names[i]), -EINVAL);
		assert_int_equal(folder_write_file(folder, names[i], &text, false), -EINVAL);
		assert_int_equal(folder_stat(folder, names[i], &st), -EINVAL);
		assert_int_equal(folder_rename_new(folder, names[i], folder, "x"), -EINVAL);
		assert_int_equal(folder_rename_new(folder, "x", folder, names[i]), -EINVAL);
	}
}

static void links_to_folders_are_not_entered(void **state)
{
	int inner;

	(void)state;
	assert_int_equal(mkdir(in_folder("inner"), 0700), 0);
	assert_int_equal(symlink("inner", in_folder("link")), 0);
	assert_int_equal(symlink("/etc", in_folder("etc")), 0);
	assert_int_equal(folder_enter(folder, "link", FOLDER_ANY), -ENOTDIR);
	assert_int_equal(folder_enter(folder, "etc", FOLDER_ANY), -ENOTDIR);
	inner = folder_open(in_folder("link"), FOLDER_ANY); /* the user's own link */
	assert_true(inner > STDERR_FILENO);
	close(inner);
	inner = folder_enter(folder, "inner", FOLDER_OWN);
	assert_true(inner > STDERR_FILENO);
	/* The folder stays the same when its name becomes another one's. */
	assert_int_equal(renameat(folder, "inner", folder, "moved"), 0);
	assert_int_equal(symlink("/etc", in_folder("inner")), 0);
	assert_int_equal(folder_open_file(inner, "passwd", O_RDONLY, FOLDER_ANY), -ENOENT);
	close(inner);
	/* A failure is handed on. */
	assert_int_equal(folder_enter(-ENOTDIR, "x", FOLDER_ANY), -ENOTDIR);
	assert_int_equal(folder_open_file(-ENOTDIR, "x", O_RDONLY, FOLDER_ANY), -ENOTDIR);
	assert_int_equal(folder_open_file(-EPERM, "x", O_RDONLY, FOLDER_ANY), -EPERM);
	assert_int_equal(folder_create_file(-EPERM, "x"), -EPERM);
	assert_int_equal(folder_stat(-EPERM, "x", &(struct stat){ 0 }), -EPERM);
	assert_null(folder_list(-ENOTDIR));
	assert_int_equal(errno, ENOTDIR);
}

static void files_of_others_are_not_ours(void **state)
{
	int fd;

	(void)state;
	write_text("file", "text");
	fd = folder_open_file(folder, "file", O_RDWR, FOLDER_OWN);
	assert_true(fd > STDERR_FILENO);
	close(fd);
	assert_int_equal(linkat(folder, "file", folder, "second name", 0), 0);
	assert_int_equal(folder_open_file(folder, "file", O_RDWR, FOLDER_OWN), E_FOREIGN);
	assert_int_equal(opened("file"), 0);
	assert_int_equal(unlinkat(folder, "second name", 0), 0);
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(in_folder("file"), 65534, 65534), 0);
	assert_int_equal(folder_open_file(folder, "file", O_RDWR, FOLDER_OWN), E_FOREIGN);
	assert_int_equal(opened("file"), 0);
	assert_int_equal(linkat(folder, "file", folder, "second name", 0), 0);
	assert_int_equal(opened("file"), E_FOREIGN);
	assert_int_equal(mkdir(in_folder("theirs"), 0777), 0);
	assert_int_equal(chown(in_folder("theirs"), 65534, 65534), 0);
	assert_int_equal(folder_enter(folder, "theirs", FOLDER_OWN), E_FOREIGN);
	assert_int_equal(folder_open(in_folder("theirs"), FOLDER_OWN), E_FOREIGN);
}

static void files_are_replaced_as_a_whole(void **state)
{
	struct strbuf text = STRBUF_INIT, read = STRBUF_INIT;
	char long_name[300], part[64];
	struct stat st;
	const char *name;
	unsigned count = 0;
	DIR *list;

	(void)state;
	strbuf_adds(&text, "new");
	/* Another user's link in place of the file, and of the file beside it. */
	snprintf(part, sizeof(part), "file.%d", (int)getpid());
	write_text("victim", "old");
	assert_int_equal(symlink("victim", in_folder("file")), 0);
	assert_int_equal(symlink("victim", in_folder(part)), 0);
	assert_int_equal(folder_write_file(folder, "file", &text, true), 0);
	assert_int_equal(folder_stat(folder, "file", &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(folder_read_file(folder, "file", 100, &read), 0);
	assert_int_equal(folder_read_file(folder, "victim", 100, &read), 0);
	assert_string_equal(strbuf_text(&read), "newold");
	assert_int_equal(folder_stat(folder, part, &st), -ENOENT);
	assert_int_equal(mkdir(in_folder("folder"), 0700), 0);
	assert_int_equal(folder_write_file(folder, "folder", &text, false), -EISDIR);
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(folder_write_file(folder, long_name, &text, false), -ENAMETOOLONG);
	assert_int_equal(opened(long_name), -ENAMETOOLONG);
	assert_int_equal(folder_create_file(folder, "file"), -EEXIST);
	assert_int_equal(folder_rename_new(folder, "victim", folder, "file"), -EEXIST);
	assert_int_equal(folder_rename_new(folder, "victim", folder, "third"), 0);
	list = folder_list(folder);
	while ((name = folder_next(list)))
		count += !strcmp(name, "file") || !strcmp(name, "third") || !strcmp(name, "folder")
				 ? 1
				 : 100;
	assert_int_equal(count, 3);
	closedir(list);
	strbuf_release(&text);
	strbuf_release(&read);
}

/* A folder that was opened before is found again, or another one is at its path. */
static void folders_are_known_again(void **state)
{
	struct folder_id id = { 0 }, unset = { 0 }, wrong;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(folder_identify(folder, &id), 0);
	assert_int_equal(fstat(folder, &st), 0);
	assert_true(id.device == st.st_dev && id.inode == st.st_ino);
	assert_int_equal(folder_identify(-ENOTDIR, &unset), -ENOTDIR);
	assert_int_equal(folder_identify(1000, &unset), -EBADF);
	assert_int_equal(unset.inode, 0);
	fd = folder_open_known(path, &id);
	assert_true(fd > STDERR_FILENO);
	close(fd);
	fd = folder_open_known(path, &unset);
	assert_true(fd > STDERR_FILENO);
	close(fd);
	wrong = (struct folder_id){ id.device, id.inode + 1 };
	assert_int_equal(folder_open_known(path, &wrong), E_MOVED);
	wrong = (struct folder_id){ id.device + 1, id.inode };
	assert_int_equal(folder_open_known(path, &wrong), E_MOVED);
	assert_int_equal(folder_open_known(in_folder("none"), &id), -ENOENT);
	assert_true(folder_is_own(folder));
	assert_false(folder_is_own(-1));
	assert_false(folder_is_own(1000));
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_false(folder_is_own(folder));
}

/* What cannot be written leaves the file as it was, and nothing beside it. */
static void failed_writes_leave_nothing(void **state)
{
	struct strbuf text = STRBUF_INIT;
	const struct rlimit small = { 2, RLIM_INFINITY };
	struct rlimit before;
	unsigned count = 0;
	DIR *list;

	(void)state;
	write_text("file", "old");
	strbuf_adds(&text, "new");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(folder_write_file(folder, "file", &text, false), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	text.failed = true;
	assert_int_equal(folder_write_file(folder, "file", &text, false), -ENOMEM);
	text.failed = false;
	strbuf_clear(&text);
	assert_int_equal(folder_read_file(folder, "file", 100, &text), 0);
	assert_string_equal(strbuf_text(&text), "old");
	strbuf_release(&text);
	for (list = folder_list(folder); folder_next(list);)
		count++;
	assert_int_equal(count, 1);
	closedir(list);
	assert_null(folder_next(NULL));
	assert_int_equal(folder_stat(folder, "none", &(struct stat){ 0 }), -ENOENT);
}

/* A program without standard descriptors prints into none of ours. */
static void descriptors_are_above_the_standard_ones(void **state)
{
	int input = dup(STDIN_FILENO), fds[5];
	DIR *list;

	(void)state;
	assert_int_equal(mkdir(in_folder("inner"), 0700), 0);
	close(STDIN_FILENO);
	fds[0] = folder_open(path, FOLDER_ANY);
	fds[1] = folder_enter(folder, "inner", FOLDER_OWN);
	fds[2] = folder_create_file(folder, "file");
	fds[3] = folder_open_file(folder, "file", O_RDONLY, FOLDER_OWN);
	list = folder_list(folder);
	fds[4] = list ? dirfd(list) : -1;
	assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
	close(input);
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
		assert_true(fds[i] > STDERR_FILENO);
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		if (i < 4)
			close(fds[i]);
	}
	closedir(list);
}

static void folders_of_processes(void **state)
{
	char own[16];
	const char *name;
	bool found = false;
	DIR *list;

	(void)state;
	snprintf(own, sizeof(own), "%d", (int)getpid());
	list = folder_list_process(getpid(), "task");
	assert_non_null(list);
	while ((name = folder_next(list)))
		found |= strcmp(name, own) == 0;
	closedir(list);
	assert_true(found);
	assert_null(folder_list_process(INT_MAX, "task"));
	assert_int_equal(errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders_of_processes),
		cmocka_unit_test_setup_teardown(only_regular_files_are_opened, set_up, tear_down),
		cmocka_unit_test_setup_teardown(names_do_not_lead_out_of_the_folder, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(links_to_folders_are_not_entered, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(files_of_others_are_not_ours, set_up, tear_down),
		cmocka_unit_test_setup_teardown(files_are_replaced_as_a_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(folders_are_known_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_writes_leave_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(descriptors_are_above_the_standard_ones, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
