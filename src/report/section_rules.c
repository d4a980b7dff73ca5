/* section_rules.c: when rules held, and which of them made a dump. */
#include "report/section.h"

#include "analysis/triggered.h"

ROW_IF(has_pid, struct row_trigger, row_has(row, COLUMN_trigger_pid))
ROW_IF(has_dump, struct row_trigger, row_has(row, COLUMN_trigger_dump))

#define TRIGGER(member) MEMBER(struct row_trigger, member)

static const struct field rule_fields[] = {
	FIELD("time_ns", "at", TIME, TRIGGER(time_ns)),
	FIELD("rule", "rule", STRING, TRIGGER(rule), LEFT_COLUMN),
	FIELD("outcome", "outcome", NAME, TRIGGER(outcome), ENUM(trigger, outcome), LEFT_COLUMN),
	FIELD("dump", "dump", ID, TRIGGER(dump), .when = has_dump, .null = true),
	FIELD("pid", "process", ID, TRIGGER(pid), .when = has_pid, .null = true),
	FIELD("evidence", "evidence", STRING, TRIGGER(evidence), FLEXIBLE_COLUMN),
};

static const struct field fields[] = {
	LIST("rules", ITEMS(struct triggered, items, count), rule_fields),
};

const struct section section_rules = {
	.title = "rules that held",
	RESULT(triggered),
	FIELDS(fields),
};
