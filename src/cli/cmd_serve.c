/* cmd_serve.c: `pitot serve`: a page on this machine, with its recordings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/html.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/serve_views.h"
#include "cli/tls_options.h"
#include "cli/ui.h"
#include "serve/serve.h"

#define MEMORY_DEFAULT ((uint64_t)4 << 30)
#define MEMORY_LEAST ((uint64_t)64 << 20)

static uint64_t option_port, option_memory = MEMORY_DEFAULT;
static bool option_open;
static const char *option_address;
static struct tls_options option_tls;

static const struct option options[] = {
	OPTION(U64, "port", 'p', option_port, "N", "port to serve at (default: any that is free)",
	       .most = UINT16_MAX),
	OPTION(STRING, "address", 0, option_address, "ADDRESS",
	       "serve at this address of the machine (default 127.0.0.1); needs --tls if other "
	       "machines can reach it"),
	TLS_OPTIONS(option_tls),
	FLAG("open", 0, option_open, "open the page in the browser, with xdg-open"),
	OPTION(SIZE, "memory", 0, option_memory, "SIZE",
	       "memory of all recordings that are kept open (default 4G, at least 64M); those not "
	       "looked at for longest are closed"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot serve", "the recordings in this folder" },
	{ "pitot serve ~/lake --open", "the windows of a lake, in the browser" },
	{ "pitot serve train.pitot", "one recording" },
	{ "ssh -L 8090:127.0.0.1:8090 gpu1 pitot serve --port 8090 /data",
	  "those of another machine" },
	{ NULL, NULL },
};

/* --- the browser --- */

/*
 * Writes a page that leads to the server. The token must not be an argument of a program, which all
 * users of the machine see. Returns 0 or a negative code.
 */
static int write_entrance(const char *url, char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;
	int fd = mkostemps(path, strlen(".html"), O_CLOEXEC), rc;

	if (fd < 0)
		return error_errno(e, errno, "cannot write '%s'", path);
	strbuf_adds(&page, "<!DOCTYPE html>\n<meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
			   "content=\"0;url=");
	html_escape(&page, url, strlen(url));
	strbuf_adds(&page, "\">\n");
	rc = io_write_all(fd, strbuf_text(&page), page.length);
	close(fd);
	return rc < 0 ? error_set(e, rc, "cannot write '%s'", path) : 0;
}

static void start_browser(const struct context *c, const char *path)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(nothing, 0), dup2(nothing, 1), dup2(nothing, 2);
		execlp("xdg-open", "xdg-open", path, NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		cli_note(c, "xdg-open could not open a browser: open the address yourself");
}

/* --- the server --- */

static int print_address(const struct context *c, const struct serve *s)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_INIT(&out);
	int status;

	if (c->json) {
		json_object(&j);
		json_key_string(&j, "url", strbuf_text(&s->url));
		json_key_u64(&j, "port", s->http.port);
		json_finish(&j);
	} else {
		strbuf_addf(&out, "%s\n", strbuf_text(&s->url));
	}
	status = cli_print(c, &out);
	fflush(stdout);
	if (!c->json)
		cli_note(c, "who has this address can read the recordings; Ctrl-C ends it");
	return status;
}

static void serve_until_stopped(struct serve *s)
{
	struct pollfd polled[SERVE_DESCRIPTORS];
	uint64_t until_ns;
	unsigned count;

	do {
		serve_step(s);
		count = serve_poll(s, polled, &until_ns);
	} while (terminal_wait(until_ns, polled, count));
}

static int run_server(const struct context *c, struct serve *s)
{
	const char *folder = getenv("XDG_RUNTIME_DIR");
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct error e = { 0 };
	int status = print_address(c, s);

	if (status != EXIT_DONE)
		return status;
	strbuf_addf(&path, "%s/pitot-XXXXXX.html", folder && *folder == '/' ? folder : "/tmp");
	if (option_open && write_entrance(strbuf_text(&s->url), path.data, &e) < 0)
		return cli_fail(c, &e);
	if (option_open)
		start_browser(c, path.data);
	serve_until_stopped(s);
	if (option_open)
		unlink(path.data);
	return EXIT_DONE;
}

static int run(struct context *c, int argc, char **argv)
{
	struct serve_options serve_options = { .path = argc > 1 ? argv[1] : ".",
					       .address = option_address,
					       .port = (uint16_t)option_port,
					       .memory_bytes = option_memory,
					       .render = serve_views };
	struct serve s;
	struct error e = { 0 };
	int status;

	if (option_memory < MEMORY_LEAST)
		return cli_usage(c, "--memory takes a size of at least 64M");
	if (!strncmp(serve_options.path, "s3://", strlen("s3://")))
		return cli_usage(
			c,
			"'%s' is a bucket: copy windows from it with `pitot lake get`, and "
			"serve their folder",
			serve_options.path);
	c->pager = false;
	terminal_catch_signals();
	if (tls_options_open(c, &option_tls, &serve_options.tls, &e) < 0)
		return cli_fail(c, &e);
	status = serve_open(&s, &serve_options, &e) < 0 ? cli_fail(c, &e) : run_server(c, &s);
	serve_close(&s);
	tls_server_free(serve_options.tls);
	return status;
}

const struct command cmd_serve = {
	.name = "serve",
	.group = COMMAND_SHOW,
	.summary = "serve a page with recordings to a browser on this machine",
	.usage = "[options] [DIR|LAKE|RECORDING]",
	.description =
		"Prints an address of 127.0.0.1 with the list of the recordings in a folder "
		"(default: the current one), or of the windows of a lake: what was run where and "
		"when, on which GPU, and the verdict. From there lead the pages of `pitot report`, "
		"`flame`, `source`, `diff` and the timeline, which loads what is on the screen, "
		"and "
		"a page with what `pitot top` shows.\n\n"
		"The address has a token: nobody without it sees anything. Only pages are read, "
		"and "
		"nothing is written. It ends with Ctrl-C.",
	.options = options,
	.examples = examples,
	.or_files = true,
	.operands_max = 1,
	.run = run,
};
