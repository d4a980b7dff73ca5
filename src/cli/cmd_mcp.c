/*
 * cmd_mcp.c: `pitot mcp`: a server of the Model Context Protocol on standard input and output. Each
 * line is a message of JSON-RPC 2.0, or a batch of them. Messages without an id are not answered.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/json_read.h"
#include "cli/mcp_tools.h"
#include "cli/ui.h"

#define LINE_MAX_BYTES ((size_t)4 << 20)
#define BATCH_MAX 100u /* messages */

/* Newest first; one that the client asks for is used if it is known. */
static const char *const versions[] = { "2025-06-18", "2025-03-26", "2024-11-05" };

enum rpc_error {
	RPC_PARSE = -32700,
	RPC_REQUEST = -32600,
	RPC_METHOD = -32601,
	RPC_PARAMS = -32602,
	RPC_INTERNAL = -32603,
};

/* Parts of the line; a missing one has no bytes. */
struct message {
	struct strbuf method;
	const char *id, *params;
	size_t id_length, params_length;
	bool has_version, has_wrong_id;
};

static int read_message(const char *line, size_t length, struct message *m, struct error *e)
{
	_cleanup_members_ struct json_members members = JSON_MEMBERS(line, length);
	int rc;

	while ((rc = json_members_next(&members, e)) > 0) {
		const char *key = strbuf_text(&members.key);

		if (!strcmp(key, "method") && members.kind == JSON_STRING) {
			strbuf_clear(&m->method);
			strbuf_add(&m->method, members.text.data, members.text.length);
		} else if (!strcmp(key, "id") &&
			   (members.kind == JSON_STRING || members.kind == JSON_NUMBER)) {
			m->id = members.value;
			m->id_length = members.value_length;
		} else if (!strcmp(key, "id")) {
			m->has_wrong_id = true;
		} else if (!strcmp(key, "params") && members.kind == JSON_OBJECT) {
			m->params = members.value;
			m->params_length = members.value_length;
		} else if (!strcmp(key, "jsonrpc")) {
			m->has_version = !strcmp(strbuf_text(&members.text), "2.0");
		}
	}
	return rc;
}

static void begin(struct json *j, const struct message *m)
{
	json_object(j);
	json_key_string(j, "jsonrpc", "2.0");
	json_key(j, "id");
	json_null(j);
	if (m->id) { /* as it was written */
		j->out->length -= strlen("null");
		strbuf_add(j->out, m->id, m->id_length);
	}
}

static void fail(struct json *j, const struct message *m, enum rpc_error code, const char *text)
{
	begin(j, m);
	json_key_object(j, "error");
	json_key_i64(j, "code", code);
	json_key_string(j, "message", text);
	json_finish(j);
}

static void initialize(struct json *j, const struct message *m)
{
	const char *version = versions[0];
	struct json_found asked;

	if (m->params &&
	    json_find(m->params, m->params_length, "protocolVersion", &asked, NULL) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
			if (!strcmp(asked.text, versions[i]))
				version = versions[i];
	begin(j, m);
	json_key_object(j, "result");
	json_key_string(j, "protocolVersion", version);
	json_key_object(j, "capabilities");
	json_key_object(j, "tools");
	json_end(j);
	json_end(j);
	json_key_object(j, "serverInfo");
	json_key_string(j, "name", "pitot");
	json_key_string(j, "version", PITOT_VERSION);
	json_end(j);
	json_key_string(
		j, "instructions",
		"Reads recordings of GPU programs (*.pitot). Start with the tool report; each "
		"answer ends with the command that shows the same.");
	json_finish(j);
}

static void list_tools(struct json *j, const struct message *m)
{
	begin(j, m);
	json_key_object(j, "result");
	json_key_array(j, "tools");
	mcp_tools_write(j);
	json_finish(j);
}

/* Finds the name of the tool, and its arguments if there are any. */
static int read_call(const struct message *m, struct strbuf *name, const char **arguments,
		     size_t *length, struct error *e)
{
	_cleanup_members_ struct json_members members = JSON_MEMBERS(m->params, m->params_length);
	int rc;

	while ((rc = json_members_next(&members, e)) > 0)
		if (!strcmp(strbuf_text(&members.key), "name") && members.kind == JSON_STRING) {
			strbuf_add(name, members.text.data, members.text.length);
		} else if (!strcmp(strbuf_text(&members.key), "arguments") &&
			   members.kind == JSON_OBJECT) {
			*arguments = members.value;
			*length = members.value_length;
		}
	return rc;
}

static void call_tool(struct json *j, const struct message *m)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT, text = STRBUF_INIT;
	const char *arguments = "{}";
	struct error e = { 0 };
	size_t length = 2;
	int rc = m->params ? read_call(m, &name, &arguments, &length, &e)
			   : error_set(&e, E_USAGE, "params are missing");

	if (rc == 0)
		rc = mcp_tools_call(strbuf_text(&name), arguments, length, &text, &e);
	if (rc < 0) {
		fail(j, m, rc == E_USAGE || rc == E_FORMAT ? RPC_PARAMS : RPC_INTERNAL, e.text);
		return;
	}
	begin(j, m);
	json_key_object(j, "result");
	json_key_array(j, "content");
	json_object(j);
	json_key_string(j, "type", "text");
	json_key(j, "text");
	json_bytes(j, strbuf_text(&text), text.length);
	json_end(j);
	json_end(j);
	json_key_bool(j, "isError", rc == 1);
	json_finish(j);
}

static void ping(struct json *j, const struct message *m)
{
	begin(j, m);
	json_key_object(j, "result");
	json_finish(j);
}

static void answer_one(const char *line, size_t length, struct strbuf *out)
{
	static const struct {
		const char *method;
		void (*answer)(struct json *j, const struct message *m);
	} methods[] = {
		{ "initialize", initialize },
		{ "ping", ping },
		{ "tools/list", list_tools },
		{ "tools/call", call_tool },
	};
	struct message m = { .method = STRBUF_INIT };
	struct json j = JSON_INIT(out);
	struct error e = { 0 };
	size_t i = 0;

	if (read_message(line, length, &m, &e) < 0) {
		fail(&j, &(struct message){ .id = NULL }, RPC_PARSE, e.text);
	} else if (!m.method.length || !m.has_version || m.has_wrong_id) {
		fail(&j, &m, RPC_REQUEST, "this is no request of JSON-RPC 2.0");
	} else if (m.id) {
		while (i < ARRAY_SIZE(methods) && strcmp(methods[i].method, strbuf_text(&m.method)))
			i++;
		if (i < ARRAY_SIZE(methods))
			methods[i].answer(&j, &m);
		else
			fail(&j, &m, RPC_METHOD, "there is no such method");
	}
	strbuf_release(&m.method);
}

static void refuse(struct strbuf *out, enum rpc_error code, const char *text)
{
	strbuf_clear(out);
	fail(&(struct json)JSON_INIT(out), &(struct message){ .id = NULL }, code, text);
}

/* The answers to a batch are a batch, on one line; without any there is no line. */
static void answer_batch(const char *line, size_t length, struct strbuf *out)
{
	_cleanup_members_ struct json_members items = JSON_ITEMS(line, length);
	struct error e = { 0 };
	size_t count = 0;
	int rc;

	while ((rc = json_members_next(&items, &e)) > 0 && count++ < BATCH_MAX) {
		size_t before = out->length;

		strbuf_adds(out, before ? ", " : "[");
		if (items.kind == JSON_OBJECT)
			answer_one(items.value, items.value_length, out);
		else
			fail(&(struct json)JSON_INIT(out), &(struct message){ .id = NULL },
			     RPC_REQUEST, "this is no request of JSON-RPC 2.0");
		if (!out->failed && out->data[out->length - 1] == '\n')
			out->length--;
		else
			out->length = before; /* a notification */
	}
	if (rc < 0)
		refuse(out, RPC_PARSE, e.text);
	else if (!count || rc > 0)
		refuse(out, RPC_REQUEST, "a batch has between 1 and 100 messages");
	else if (out->length)
		strbuf_adds(out, "]\n");
}

static void answer(const char *line, size_t length, struct strbuf *out)
{
	if (line[strspn(line, " \t\r\n")] == '[')
		answer_batch(line, length, out);
	else
		answer_one(line, length, out);
}

/* Reads a line; what is beyond LINE_MAX_BYTES is skipped. Returns false at the end. */
static bool read_line(struct strbuf *line, bool *is_too_long)
{
	int c = getc(stdin);
	bool has_line = c != EOF;

	strbuf_clear(line);
	*is_too_long = false;
	for (; c != EOF && c != '\n'; c = getc(stdin)) {
		*is_too_long |= line->length >= LINE_MAX_BYTES;
		if (!*is_too_long)
			strbuf_addc(line, (char)c);
	}
	return has_line;
}

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, line = STRBUF_INIT;
	bool is_too_long;
	int rc = 0;

	(void)argc, (void)argv;
	while (rc == 0 && read_line(&line, &is_too_long)) {
		strbuf_clear(&out);
		if (is_too_long)
			refuse(&out, RPC_PARSE, "the message is longer than 4 MiB");
		else if (strspn(strbuf_text(&line), " \t\r\n") != line.length)
			answer(strbuf_text(&line), line.length, &out);
		rc = out.failed || line.failed
			     ? -ENOMEM
			     : io_write_all(STDOUT_FILENO, strbuf_text(&out), out.length);
	}
	return rc < 0 ? cli_failf(c, "cannot answer: %s", error_code_text(rc)) : EXIT_DONE;
}

const struct command cmd_mcp = {
	.name = "mcp",
	.group = COMMAND_SHOW,
	.summary = "serve recordings to an assistant (Model Context Protocol)",
	.usage = "[options]",
	.description =
		"Answers requests of the Model Context Protocol on standard input and output, "
		"until its input ends. An assistant starts it. Its tools are report, info, "
		"sql, diff, source and what_if: they run these commands, which only read. An "
		"answer has at most 60,000 bytes, takes at most two minutes, and ends with "
		"the command that shows the same.",
	.options = no_options,
	.no_json = true,
	.run = run,
};
