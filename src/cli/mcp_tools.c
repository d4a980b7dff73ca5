#include "cli/mcp_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_read.h"
#include "base/vec.h"

#define PRINTED_MAX 60000u /* bytes that an assistant gets */
#define LIMIT_S 120u
#define NOT_RUN 127
#define ARGUMENTS_MAX 60000u /* bytes: a process gets no longer ones, and the answer has them */
#define COMMAND_MAX 4000u

enum parameter_kind { TEXT, TEXTS, SWITCH };

struct parameter {
	const char *name;
	enum parameter_kind kind;
	const char *option; /* "--since"; NULL: an operand */
	bool required;
	const char *meaning;
};

#define PARAMETERS_MAX 12

#define RECORDING                                                                                  \
	{                                                                                          \
		"recording", TEXT, NULL, true, "path of the recording, such as train.pitot"        \
	}
#define WINDOW                                                                                     \
	{ "since", TEXT, "--since", false, "begin of a time window, such as 1.5s" },               \
	{                                                                                          \
		"until", TEXT, "--until", false, "end of a time window"                            \
	}

static const struct tool {
	const char *name, *meaning;
	const char *command[3];
	bool has_sides; /* "--" stands between the first two operands, if both are given */
	struct parameter parameters[PARAMETERS_MAX];
} tools[] = {
	{ "report",
	  "What bounds a GPU program, with the evidence: verdict, busy and idle times, kernels, "
	  "copies, waits, launches, losses. Start here.",
	  { "report", "--no-pager" },
	  false,
	  { RECORDING,
	    WINDOW,
	    { "steps", SWITCH, "--steps", false, "also how long steps take, and slow ones" },
	    { "critical_path", SWITCH, "--critical-path", false, "also what bounded the length" },
	    { "states", SWITCH, "--states", false, "also what GPUs and streams did" },
	    { "memory", SWITCH, "--memory", false, "also who owns the memory at its peak" },
	    { "scopes", SWITCH, "--scopes=all", false, "also the tree of scopes" },
	    { "by", TEXT, "--by", false,
	      "group kernels by: kernel, config, stream, caller, scope" },
	    { "kernel", TEXT, "--kernel", false, "only kernels that match a glob" },
	    { "scope", TEXT, "--scope", false, "only work inside of matching scopes" } } },
	{ "info",
	  "What was recorded, with which settings, and what is missing.",
	  { "info", "--no-pager" },
	  false,
	  { RECORDING } },
	{ "sql",
	  "Answers a SELECT of SQLite about a recording, with at most 200 rows. Tables are those "
	  "of "
	  "the tool schema, and summaries: kernel_summary, launch_summary, copy_summary, idle_gap, "
	  "nvtx_kernel, memory_peak, memory_owner, step, critical_path, state.",
	  { "sql", "--limit=200" },
	  false,
	  { RECORDING, { "statement", TEXT, NULL, true, "one SELECT statement" } } },
	{ "schema",
	  "Tables of recordings, or the columns of one, for the tool sql.",
	  { "schema" },
	  false,
	  { { "table", TEXT, NULL, false, "name of a table, such as kernel" } } },
	{ "diff",
	  "Compares two sides of recordings of one program, by steps, with statistics.",
	  { "diff", "--no-pager" },
	  true,
	  { { "a", TEXTS, NULL, false, "recordings before the change, if not 'against'" },
	    { "b", TEXTS, NULL, true, "recordings after the change" },
	    { "against", TEXT, "--against", false, "a baseline's name, in place of 'a'" },
	    { "fail_if", TEXTS, "--fail-if", false, "conditions, such as 'step > 2%'" } } },
	{ "source",
	  "The hottest source lines of kernels with their stall reasons, or one line or kernel "
	  "with "
	  "its instructions; of recordings with --engine pc-sampling.",
	  { "report", "--no-pager" },
	  false,
	  { RECORDING,
	    { "at", TEXT, "--source", true, "FILE:LINE or the name of a kernel; '' for all" } } },
	{ "what_if",
	  "What changes would bring, by simulating the recording: without changes, what to work "
	  "on.",
	  { "what-if", "--no-pager" },
	  false,
	  { RECORDING,
	    { "changes", TEXTS, NULL, false, "such as 'kernel:*gemm* x0.5' or 'launch -1us'" } } },
};

/* --- declarations --- */

static void write_parameter(struct json *j, const struct parameter *p)
{
	static const char *const types[] = { "string", "array", "boolean" };

	json_key_object(j, p->name);
	json_key_string(j, "type", types[p->kind]);
	if (p->kind == TEXTS) {
		json_key_object(j, "items");
		json_key_string(j, "type", "string");
		json_end(j);
	}
	json_key_string(j, "description", p->meaning);
	json_end(j);
}

void mcp_tools_write(struct json *j)
{
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
		const struct parameter *p = tools[i].parameters;

		json_object(j);
		json_key_string(j, "name", tools[i].name);
		json_key_string(j, "description", tools[i].meaning);
		json_key_object(j, "inputSchema");
		json_key_string(j, "type", "object");
		json_key_object(j, "properties");
		for (size_t k = 0; k < PARAMETERS_MAX && p[k].name; k++)
			write_parameter(j, &p[k]);
		json_end(j);
		json_key_array(j, "required");
		for (size_t k = 0; k < PARAMETERS_MAX && p[k].name; k++)
			if (p[k].required)
				json_string(j, p[k].name);
		json_end(j);
		json_key_bool(j, "additionalProperties", false);
		json_end(j);
		json_key_object(j, "annotations");
		json_key_bool(j, "readOnlyHint", true);
		json_end(j);
		json_end(j);
	}
}

/* --- arguments --- */

struct words {
	VEC(char *) items; /* argv, without a NULL at its end */
	size_t bytes;
};

static int add_word(struct words *w, const char *option, const char *text, struct error *e)
{
	struct strbuf word = STRBUF_INIT;

	if (option)
		strbuf_addf(&word, "%s=", option);
	strbuf_adds(&word, text);
	w->bytes += word.length + 1;
	if (w->bytes > ARGUMENTS_MAX) {
		strbuf_release(&word);
		return error_set(e, E_USAGE, "the arguments have more than %u bytes",
				 ARGUMENTS_MAX);
	}
	if (word.failed || !strbuf_text(&word) || vec_reserve(&w->items, 1) < 0) {
		strbuf_release(&word);
		return error_set(e, -ENOMEM, "out of memory");
	}
	w->items.data[w->items.count++] = word.data ? word.data : strdup("");
	return w->items.data[w->items.count - 1] ? 0 : error_set(e, -ENOMEM, "out of memory");
}

static int add_text(struct words *w, const struct parameter *p, const char *text, struct error *e)
{
	if (!p->option && *text == '-')
		return error_set(e, E_USAGE, "%s: '%.100s' looks like an option", p->name, text);
	return add_word(w, p->option, text, e);
}

static int add_texts(struct words *w, const struct parameter *p, const char *bytes, size_t length,
		     struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_ITEMS(bytes, length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0) {
		rc = m.kind == JSON_STRING
			     ? add_text(w, p, strbuf_text(&m.text), e)
			     : error_set(e, E_USAGE, "%s: not a list of texts", p->name);
		if (rc < 0)
			return rc;
	}
	return rc;
}

/* Adds the words of a parameter if the arguments have it. 1, 0 if not, or a negative code. */
static int add_parameter(struct words *w, const struct parameter *p, const char *arguments,
			 size_t length, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(arguments, length);
	int rc, found = 0;

	while ((rc = json_members_next(&m, e)) > 0 && !found) {
		if (strcmp(strbuf_text(&m.key), p->name) != 0 || m.kind == JSON_NULL)
			continue;
		found = 1;
		if (p->kind == SWITCH && (m.kind == JSON_TRUE || m.kind == JSON_FALSE))
			rc = m.kind == JSON_TRUE ? add_word(w, NULL, p->option, e) : 0;
		else if (p->kind == TEXT && m.kind == JSON_STRING)
			rc = add_text(w, p, strbuf_text(&m.text), e);
		else if (p->kind == TEXTS && m.kind == JSON_ARRAY)
			rc = add_texts(w, p, m.value, m.value_length, e);
		else
			rc = error_set(e, E_USAGE, "%s has the wrong type", p->name);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : found;
}

static int check_names(const struct tool *t, const char *arguments, size_t length, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(arguments, length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0) {
		size_t i = 0;

		while (i < PARAMETERS_MAX && t->parameters[i].name &&
		       strcmp(t->parameters[i].name, strbuf_text(&m.key)) != 0)
			i++;
		if (i == PARAMETERS_MAX || !t->parameters[i].name)
			return error_set(e, E_USAGE, "%s has no argument '%.100s'", t->name,
					 strbuf_text(&m.key));
	}
	return rc;
}

static int make_words(const struct tool *t, const char *arguments, size_t length, struct words *w,
		      struct error *e)
{
	int rc = add_word(w, NULL, "pitot", e);

	if (rc == 0)
		rc = check_names(t, arguments, length, e);
	for (size_t i = 0; i < ARRAY_SIZE(t->command) && t->command[i] && rc >= 0; i++)
		rc = add_word(w, NULL, t->command[i], e);
	for (size_t i = 0; i < PARAMETERS_MAX && t->parameters[i].name && rc >= 0; i++) {
		const struct parameter *p = &t->parameters[i];

		if (t->has_sides && i == 1 && rc > 0)
			rc = add_word(w, NULL, "--", e);
		if (rc >= 0)
			rc = add_parameter(w, p, arguments, length, e);
		if (rc == 0 && p->required)
			rc = error_set(e, E_USAGE, "%s needs the argument '%s'", t->name, p->name);
	}
	return MIN(rc, 0);
}

/* --- the call --- */

static void __attribute__((noreturn)) run_child(char *const *words, int out)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	setenv("COLUMNS", "130", 1);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(nothing, 0) >= 0 && dup2(out, 1) >= 0 && dup2(out, 2) >= 0)
		execv("/proc/self/exe", words);
	_exit(NOT_RUN);
}

/* Reads to the end, or to the ceilings. Returns 0, E_LIMIT, -ETIMEDOUT or another code. */
static int read_printed(int fd, uint64_t end_ns, struct strbuf *out)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t limit = out->length + PRINTED_MAX;
	char buffer[4096];

	for (;;) {
		uint64_t now_ns = clock_monotonic_ns();
		ssize_t n;

		if (now_ns >= end_ns || poll(&p, 1, (int)((end_ns - now_ns) / NS_PER_MS) + 1) == 0)
			return -ETIMEDOUT;
		n = read(fd, buffer, sizeof(buffer));
		if (n == 0 || (n < 0 && errno != EINTR))
			return n < 0 ? -errno : 0;
		if (n > 0)
			strbuf_add(out, buffer, MIN((size_t)n, limit - out->length));
		if (out->length == limit)
			return E_LIMIT;
	}
}

static int run(char *const *words, struct strbuf *out, int *status)
{
	int pipes[2], rc;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (!pid)
		run_child(words, pipes[1]);
	rc = pid < 0 ? -errno : 0;
	close(pipes[1]);
	if (rc == 0)
		rc = read_printed(pipes[0], clock_monotonic_ns() + LIMIT_S * NS_PER_S, out);
	close(pipes[0]);
	if (pid > 0) {
		if (rc < 0)
			kill(pid, SIGKILL);
		while (waitpid(pid, status, 0) < 0 && errno == EINTR)
			;
	}
	return rc;
}

/* The command, for a shell, unless it is too long for one. */
static void add_command(const struct words *w, struct strbuf *out)
{
	char *const *words = w->items.data;

	if (w->bytes > COMMAND_MAX)
		return;
	strbuf_adds(out, "\n\n(shown by:");
	for (; *words; words++) {
		bool plain =
			**words && strspn(*words, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
						  "UVWXYZ0123456789-_=./:,%+") == strlen(*words);

		strbuf_adds(out, plain ? " " : " '");
		for (const char *c = *words; *c; c++)
			strbuf_add(out, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
		strbuf_adds(out, plain ? "" : "'");
	}
	strbuf_adds(out, ")");
}

int mcp_tools_call(const char *name, const char *arguments, size_t length, struct strbuf *out,
		   struct error *e)
{
	struct words w = { .items = VEC_INIT };
	const struct tool *t = tools;
	int status = 0, rc;

	while (t < tools + ARRAY_SIZE(tools) && strcmp(t->name, name) != 0)
		t++;
	if (t == tools + ARRAY_SIZE(tools))
		return error_set(e, E_USAGE, "there is no tool '%.100s'", name);
	rc = make_words(t, arguments, length, &w, e);
	if (rc == 0 && vec_push(&w.items, NULL) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	if (rc == 0) {
		rc = run(w.items.data, out, &status);
		if (rc == E_LIMIT)
			strbuf_addf(out, "\n[the rest is left out: more than %u bytes]",
				    PRINTED_MAX);
		else if (rc == -ETIMEDOUT)
			strbuf_addf(out, "\n[stopped after %u s]", LIMIT_S);
		else if (rc < 0)
			error_set(e, rc, "cannot run pitot: %s", error_code_text(rc));
		add_command(&w, out);
		rc = rc == E_LIMIT      ? 0
		     : rc == -ETIMEDOUT ? 1
		     : rc < 0           ? rc
					: !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	for (size_t i = 0; i < w.items.count; i++)
		free(w.items.data[i]);
	vec_release(&w.items);
	return rc;
}
