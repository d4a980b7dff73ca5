/*
 * mcp_tools.h: the tools of `pitot mcp`: commands of Pitot that only read, with their arguments as
 * data. A call runs this program once more, with a ceiling for its time and for what it prints.
 */
#ifndef PITOT_CLI_MCP_TOOLS_H
#define PITOT_CLI_MCP_TOOLS_H

#include "base/error.h"
#include "base/json.h"

/* Writes the tools, as items of an open array. */
void mcp_tools_write(struct json *j);

/*
 * Calls a tool with arguments, a JSON object of `length` bytes. Appends what it printed, and the
 * command that prints it. Returns 1 if the tool has failed, 0 if not, E_USAGE if there is no such
 * tool or its arguments are wrong, or another negative code.
 */
int mcp_tools_call(const char *name, const char *arguments, size_t length, struct strbuf *out,
		   struct error *e) MUST_USE;

#endif
