/* cmd_version.c: `pitot version`. */
#include "base/json.h"
#include "cli/ui.h"
#include "format/segment.h"

static int run_version(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json json = JSON_PRETTY(&out);

	(void)argc, (void)argv;
	if (c->json) {
		json_object(&json);
		json_key_string(&json, "version", PITOT_VERSION);
		json_key_u64(&json, "format_version", SEGMENT_VERSION);
		json_finish(&json);
	} else {
		strbuf_addf(&out, "pitot %s\n", PITOT_VERSION);
		if (c->verbose)
			strbuf_addf(&out, "recording format %d\n", SEGMENT_VERSION);
	}
	return cli_print(c, &out);
}

const struct command cmd_version = {
	.name = "version",
	.group = COMMAND_PITOT,
	.summary = "print the version",
	.usage = "[options]",
	.description =
		"Prints the version of Pitot; with -v also the version of the recording format.",
	.options = no_options,
	.run = run_version,
};
