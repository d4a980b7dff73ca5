/*
 * sass.c: runs nvdisasm and parses its output. The child reads a copy of the device code in an
 * unnamed file, so that nothing remains after a failure, and no path is mistaken for an option.
 */
#include "symbol/sass.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/program_file.h"
#include "base/search.h"

#define CUBIN_MAX ((size_t)1 << 30)
#define PRINTED_MAX ((size_t)64 << 20)
#define CUBIN_FD 3
#define NOT_RUN 127 /* exit status if the program could not be executed */
#define WAIT_NS (5 * NS_PER_MS)

static bool is_in_home(const char *home, struct strbuf *path)
{
	strbuf_clear(path);
	strbuf_addf(path, "%s/bin/nvdisasm", home);
	return !path->failed && access(strbuf_text(path), X_OK) == 0;
}

bool sass_program(struct strbuf *path)
{
	const char *const homes[] = { getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda" };
	char found[PATH_MAX];

	strbuf_clear(path);
	if (program_file_find_own("nvdisasm", found) == 0) {
		strbuf_addf(path, "%s", found);
		return !path->failed;
	}
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
		if (homes[i] && homes[i][0] == '/' && is_in_home(homes[i], path))
			return true;
	return false;
}

/* Returns a descriptor of a copy of a file; or -errno. */
static int copy_file(const char *path)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	int rc = io_read_file(path, CUBIN_MAX, &bytes), fd;

	if (rc < 0)
		return rc;
	fd = io_above_standard(memfd_create("cubin", MFD_CLOEXEC));
	if (fd < 0)
		return -errno;
	rc = io_write_all(fd, strbuf_text(&bytes), bytes.length);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* Runs in the child, which has its own process group and is killed when we end. */
static void __attribute__((noreturn))
run_child(const char *program, const char *symbols, int cubin, int out)
{
	const char *const argv[] = { program, "-c", "-fun", symbols, "/proc/self/fd/3", NULL };
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (dup2(nothing, 0) >= 0 && dup2(out, 1) >= 0 && dup2(out, 2) >= 0 &&
	    dup2(cubin, CUBIN_FD) >= 0 && fcntl(CUBIN_FD, F_SETFD, 0) >= 0)
		execv(program, (char *const *)argv);
	_exit(NOT_RUN);
}

static int ms_until(uint64_t end_ns)
{
	uint64_t now_ns = clock_monotonic_ns();

	return now_ns >= end_ns ? 0 : (int)((end_ns - now_ns) / NS_PER_MS) + 1;
}

/* Reads the child's output to its end. Returns 0 or a negative code. */
static int read_printed(int fd, uint64_t end_ns, struct strbuf *out)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buffer[1 << 16];

	while (poll(&p, 1, ms_until(end_ns)) != 0) {
		ssize_t n = read(fd, buffer, sizeof(buffer));

		if (n == 0 || (n < 0 && errno != EINTR))
			return n < 0 ? -errno : out->failed ? -ENOMEM : 0;
		if (n > 0)
			strbuf_add(out, buffer, (size_t)n);
		if (out->length > PRINTED_MAX)
			return E_LIMIT;
	}
	return -ETIMEDOUT;
}

/* Waits for the child; kills it with all its descendants if it takes too long. */
static int end_child(pid_t pid, uint64_t end_ns, int rc, int *status)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	pid_t ended = 0;

	while (rc == 0 && (ended = waitpid(pid, status, WNOHANG)) == 0) {
		if (!ms_until(end_ns))
			rc = -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	if (!ended) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL); /* in case that it has no process group yet */
		waitpid(pid, status, 0);
	}
	return rc;
}

static int explain(int rc, int status, unsigned limit_s, const struct strbuf *printed,
		   struct error *e)
{
	size_t start = strspn(strbuf_text(printed), " \t\r\n");
	const char *message = strbuf_text(printed) + start;
	int length = (int)MIN(strcspn(message, "\r\n"), 200u);

	if (rc == -ETIMEDOUT)
		return error_set(e, rc, "nvdisasm took longer than %u s", limit_s);
	if (rc == E_LIMIT)
		return error_set(e, rc, "nvdisasm printed more than %zu MiB", PRINTED_MAX >> 20);
	if (rc < 0)
		return error_set(e, rc, "cannot run nvdisasm: %s", error_code_text(rc));
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_RUN)
		return error_set(e, E_FORMAT, "cannot run nvdisasm");
	if (!WIFEXITED(status))
		return error_set(e, E_FORMAT, "nvdisasm was killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		return error_set(e, E_FORMAT, "nvdisasm failed: %.*s", length, message);
	return 0;
}

static int run(const char *program, const char *cubin, const char *symbols, unsigned limit_s,
	       struct strbuf *out, struct error *e)
{
	uint64_t end_ns = clock_monotonic_ns() + limit_s * NS_PER_S;
	int copy = copy_file(cubin), pipes[2] = { -1, -1 }, status = 0, rc = MIN(copy, 0);
	pid_t pid = -1;

	if (rc == 0 && pipe2(pipes, O_CLOEXEC) < 0)
		rc = -errno;
	if (rc == 0) {
		pid = fork();
		if (!pid)
			run_child(program, symbols, copy, pipes[1]);
		rc = pid < 0 ? -errno : 0;
	}
	fd_close(&pipes[1]);
	if (rc == 0)
		rc = end_child(pid, end_ns, read_printed(pipes[0], end_ns, out), &status);
	fd_close(&pipes[0]);
	fd_close(&copy);
	return explain(rc, status, limit_s, out, e);
}

/* Parses an offset in a comment, then "MOV R8, 0x130 ;". Returns false for any other line. */
static bool parse_instruction(char *line, struct sass_line *out)
{
	char *p = line + strspn(line, " \t{"), *end;

	if (strncmp(p, "/*", 2) != 0 || !isxdigit((unsigned char)p[2]))
		return false;
	out->offset = strtoull(p + 2, &end, 16);
	if (strncmp(end, "*/", 2) != 0)
		return false;
	p = end + 2;
	p += strspn(p, " \t");
	end = p + strcspn(p, ";");
	while (end > p && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	out->text = p;
	return *p;
}

/* Returns "NAME" of "\t.section\t.text.NAME,…"; "" for another section, NULL for another line. */
static const char *parse_section(char *line)
{
	static const char head[] = ".section", code[] = ".text.";
	char *p = line + strspn(line, " \t");

	if (strncmp(p, head, strlen(head)) != 0)
		return NULL;
	p += strlen(head);
	p += strspn(p, " \t");
	if (strncmp(p, code, strlen(code)) != 0)
		return "";
	p += strlen(code);
	p[strcspn(p, ",")] = '\0';
	return p;
}

ORDER(by_offset, struct sass_line, strcmp(a->section, b->section) ?: UP(offset) ?: UP(order))

static bool is_label(const char *line)
{
	return *line == '$' || strncmp(line, ".L", 2) == 0;
}

static int parse(struct sass *s)
{
	struct sass_line line = { .section = "" };
	const char *section;
	size_t kept = 0;

	if (memchr(strbuf_text(&s->printed), 0, s->printed.length))
		return E_FORMAT;
	for (char *text = s->printed.data, *next; text && *text; text = next) {
		size_t length = strcspn(text, "\n");

		next = text + length + (text[length] == '\n');
		text[length] = '\0';
		section = parse_section(text);
		if (section) {
			line.section = section;
		} else if (parse_instruction(text, &line)) {
			line.order = s->lines.count;
			if (*line.section && vec_push(&s->lines, line) < 0)
				return -ENOMEM;
			line.label = NULL;
		} else if (is_label(text) && text[length - 1] == ':') {
			text[length - 1] = '\0';
			line.label = text;
		}
	}
	vec_sort(&s->lines, by_offset);
	for (size_t i = 0; i < s->lines.count; i++) {
		const struct sass_line *last = kept ? &s->lines.data[kept - 1] : NULL;

		if (!last || last->offset != s->lines.data[i].offset ||
		    strcmp(last->section, s->lines.data[i].section) != 0)
			s->lines.data[kept++] = s->lines.data[i];
	}
	s->lines.count = kept;
	return 0;
}

int sass_read(struct sass *s, const char *program, const char *cubin, const char *symbols,
	      unsigned limit_s, struct error *e)
{
	int rc = run(program, cubin, symbols, limit_s, &s->printed, e);

	if (rc == 0 && parse(s) < 0)
		rc = error_set(e, E_FORMAT, "cannot parse the output of nvdisasm");
	return rc;
}

void sass_release(struct sass *s)
{
	strbuf_release(&s->printed);
	vec_release(&s->lines);
	*s = (struct sass){ 0 };
}

const struct sass_line *sass_find(const struct sass *s, const char *section, size_t *count)
{
	const struct sass_line *lines = s->lines.data;
	size_t first = sorted_prefix(s->lines.count, i, strcmp(lines[i].section, section) < 0);
	size_t end = sorted_prefix(s->lines.count, i, strcmp(lines[i].section, section) <= 0);

	*count = end - first;
	return lines + first;
}
