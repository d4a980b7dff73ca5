/* cmd_doctor.c: `pitot doctor`: can this machine record, and if not, why and what to do. */

#include "base/json.h"
#include "record/checks.h"
#include "cli/ui.h"

#define CHECKS_MAX 32
#define DETAIL_COLUMN 27u

static const struct {
	const char *name;
	enum style style;
} states[] = {
	[CHECK_OK] = { "ok", STYLE_GREEN },
	[CHECK_LIMITED] = { "limited", STYLE_YELLOW },
	[CHECK_MISSING] = { "missing", STYLE_RED },
};

static void doctor_json(const struct check *checks, size_t count, bool can_record,
			struct strbuf *out)
{
	struct json json = JSON_PRETTY(out);

	json_object(&json);
	json_key_bool(&json, "can_record_gpu_work", can_record);
	json_key_array(&json, "checks");
	for (size_t i = 0; i < count; i++) {
		json_object(&json);
		json_key_string(&json, "name", checks[i].name);
		json_key_string(&json, "state", states[checks[i].state].name);
		json_key_bool(&json, "needed", checks[i].needed);
		json_key_string(&json, "purpose", checks[i].purpose);
		json_key_string(&json, "detail", checks[i].detail);
		json_key_string(&json, "advice", checks[i].advice[0] ? checks[i].advice : NULL);
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
	struct check checks[CHECKS_MAX];
	bool can_record = true;
	size_t count;
	int status;

	(void)argc, (void)argv;
	count = checks_run(checks, CHECKS_MAX);
	for (size_t i = 0; i < count; i++)
		can_record = can_record && !(checks[i].needed && checks[i].state == CHECK_MISSING);
	if (c->json) {
		doctor_json(checks, count, can_record, &out);
	} else {
		for (size_t i = 0; i < count; i++)
			check_text(&checks[i], c, &out);
		strbuf_addf(&out, "\n%s\n",
			    can_record
				    ? "GPU work can be recorded here."
				    : "GPU work cannot be recorded here; `pitot record` still runs "
				      "commands and records the rest.");
	}
	status = cli_print(c, &out);
	return status == EXIT_DONE && !can_record ? EXIT_FAILED : status;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.group = COMMAND_MACHINE,
	.summary = "check whether this machine can record GPU work",
	.usage = "[options]",
	.description =
		"Checks the driver, its libraries, CUPTI, permissions, other profilers and the "
		"disk. Each check is ok, limited or missing, with the reason and the remedy.",
	.options = no_options,
	.notes = "EXIT STATUS\n\n"
		 "0 if GPU work can be recorded here, else 1.",
	.run = run_doctor,
};
