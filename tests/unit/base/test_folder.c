#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

static int set_up(void **state)
{
	(void)state;
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
	return system(command);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_regular_files_are_opened, set_up, tear_down),
		cmocka_unit_test_setup_teardown(names_do_not_lead_out_of_the_folder, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(links_to_folders_are_not_entered, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(files_of_others_are_not_ours, set_up, tear_down),
		cmocka_unit_test_setup_teardown(files_are_replaced_as_a_whole, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
