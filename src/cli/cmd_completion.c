/* cmd_completion.c: `pitot completion SHELL`. */
#include <string.h>

#include "cli/completion.h"
#include "cli/ui.h"

static const struct option options[] = { OPTION_END };
static const char *const shells[] = { "bash", "zsh", "fish", NULL };
static void (*const scripts[])(struct strbuf *out) = { completion_bash, completion_zsh,
						       completion_fish };

static int run_completion(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	if (argc != 2)
		return cli_usage(c, "name one shell: bash, zsh or fish");
	for (size_t i = 0; shells[i]; i++) {
		if (!strcmp(argv[1], shells[i])) {
			scripts[i](&out);
			return cli_print(c, &out);
		}
	}
	return cli_usage(c, "no completion for '%s': bash, zsh and fish are known", argv[1]);
}

static const struct command_example examples[] = {
	{ "source <(pitot completion bash)",
	  "complete in this shell; `make install` does it for all" },
	{ NULL, NULL },
};

const struct command cmd_completion = {
	.name = "completion",
	.summary = "print a script that completes pitot's commands in a shell",
	.usage = "bash|zsh|fish",
	.description = "Prints a script for the shell to load. It knows all commands, their "
		       "options and the "
		       "values that these take.",
	.options = options,
	.examples = examples,
	.operands = shells,
	.no_json = true,
	.run = run_completion,
};
