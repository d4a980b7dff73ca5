#include "rules/rule_list.h"

#include <errno.h>
#include <string.h>

int rule_list_add(struct rule_list *list, const char *text, struct error *e)
{
	if (list->count >= RULES_MAX)
		return error_set(e, E_USAGE, "more than %u rules", RULES_MAX);
	if (rule_parse(text, &list->rules[list->count], e) < 0)
		return E_USAGE;
	list->count++;
	return 0;
}

int rule_list_add_all(struct rule_list *list, const char *text, struct error *e)
{
	int rc = 0;

	while (*text && rc == 0) {
		size_t length = strcspn(text, ";");
		_cleanup_strbuf_ struct strbuf one = STRBUF_INIT;

		strbuf_add(&one, text, length);
		text += length + (text[length] == ';');
		if (one.failed)
			rc = error_set(e, -ENOMEM, "out of memory");
		else if (strspn(strbuf_text(&one), " \t\n") < length)
			rc = rule_list_add(list, strbuf_text(&one), e);
	}
	return rc;
}

void rule_list_add_usual(struct rule_list *list)
{
	for (unsigned metric = 0; metric < RULE_METRIC_COUNT; metric++) {
		bool is_given = !rule_metrics[metric].usual;

		for (unsigned i = 0; i < list->count; i++)
			is_given = is_given || list->rules[i].metric == metric;
		if (!is_given)
			(void)!rule_list_add(list, rule_metrics[metric].usual, NULL);
	}
}

bool rule_list_deepens(const struct rule_list *list)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->rules[i].deepen)
			return true;
	return false;
}
