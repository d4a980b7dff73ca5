/* cmd_doctor.c: `pitot doctor`: can this machine record, and if not, why and what to do. */

#include <limits.h>

#include "base/json.h"
#include "record/checks.h"
#include "cli/ui.h"

#define DETAIL_COLUMN 27u

static const struct {
	const char *name;
	enum style style;
} states[] = {
	[CHECK_OK] = { "ok", STYLE_GREEN },
	[CHECK_LIMITED] = { "limited", STYLE_YELLOW },
	[CHECK_MISSING] = { "missing", STYLE_RED },
};

static uint64_t pid; /* 0: the machine is checked */

static const struct option options[] = {
	OPTION(U64, "pid", 'p', pid, "PID",
	       "check whether the GPU work of this running process can be recorded",
	       .positive = true, .most = INT_MAX),
	OPTION_END,
};

static void doctor_json(const struct checks *checks, struct strbuf *out)
{
	struct json json = JSON_PRETTY(out);

	json_object(&json);
	json_key_bool(&json, "can_record_gpu_work", checks->can_record);
	json_key_array(&json, "checks");
	for (size_t i = 0; i < checks->count; i++) {
		const struct check *check = &checks->list[i];

		json_object(&json);
		json_key_string(&json, "name", check->name);
		json_key_string(&json, "vendor", check->vendor ? check->vendor->name : NULL);
		json_key_string(&json, "state", states[check->state].name);
		json_key_bool(&json, "needed", check->needed);
		json_key_string(&json, "purpose", check->purpose);
		json_key_string(&json, "detail", check->detail);
		json_key_string(&json, "advice", check->advice[0] ? check->advice : NULL);
		json_end(&json);
	}
	json_finish(&json);
}

/* Appends folded text; its first line continues the current one. */
static void add_behind(struct strbuf *out, const char *text, unsigned width)
{
	_cleanup_strbuf_ struct strbuf folded = STRBUF_INIT;

	text_fold(&folded, text, DETAIL_COLUMN, width);
	strbuf_adds(out,
		    folded.length > DETAIL_COLUMN ? strbuf_text(&folded) + DETAIL_COLUMN : "\n");
}

static void check_text(const struct check *check, const struct context *c, struct strbuf *out)
{
	strbuf_addf(out, "%-17s %s%-8s%s ", check->name,
		    style_begin(c->color, states[check->state].style), states[check->state].name,
		    style_begin(c->color, STYLE_NONE));
	add_behind(out, check->detail, c->width);
	if (check->advice[0]) {
		strbuf_addf(out, "%*s", (int)DETAIL_COLUMN, "");
		add_behind(out, check->advice, c->width);
	}
}

static int run_doctor(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const struct vendor *vendor = NULL;
	unsigned vendor_count = 0;
	struct checks checks;
	int status;

	(void)argc, (void)argv;
	if (pid)
		checks_of_process(&checks, (pid_t)pid);
	else
		checks_run(&checks);
	if (c->json)
		doctor_json(&checks, &out);
	for (size_t i = 0; i < checks.count; i++)
		vendor_count += checks.list[i].vendor &&
				(i == 0 || checks.list[i].vendor != checks.list[i - 1].vendor);
	for (size_t i = 0; i < checks.count && !c->json; i++) {
		const struct check *check = &checks.list[i];

		if (vendor_count > 1 && check->vendor != vendor)
			strbuf_addf(&out, "\n%s\n",
				    check->vendor ? check->vendor->name : "this machine");
		vendor = check->vendor;
		check_text(check, c, &out);
	}
	if (!c->json && pid && checks.list[0].state != CHECK_LIMITED)
		strbuf_addf(&out, "\n%s\n",
			    checks.can_record
				    ? "Its GPU work can be recorded: pitot record -p PID"
				    : "Its GPU work cannot be recorded; `pitot record -p` samples "
				      "its CPU time all the same.");
	else if (!c->json && !pid)
		strbuf_addf(&out, "\n%s\n",
			    checks.can_record
				    ? "GPU work can be recorded here."
				    : "GPU work cannot be recorded here; `pitot record` still runs "
				      "commands and records the rest.");
	status = cli_print(c, &out);
	return status == EXIT_DONE && !checks.can_record ? EXIT_FAILED : status;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.group = COMMAND_MACHINE,
	.summary = "check whether this machine can record GPU work",
	.usage = "[options]",
	.description =
		"Checks the driver, its libraries, CUPTI, permissions, other profilers and the "
		"disk. Each check is ok, limited or missing, with the reason and the remedy.",
	.options = options,
	.notes = "EXIT STATUS\n\n"
		 "0 if GPU work can be recorded here, or of the process, else 1.",
	.run = run_doctor,
};
