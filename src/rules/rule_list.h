/* rule_list.h: the rules of a recording: those that are given, and the usual ones. */
#ifndef PITOT_RULES_RULE_LIST_H
#define PITOT_RULES_RULE_LIST_H

#include "rules/rule.h"

struct rule_list {
	struct rule rules[RULES_MAX];
	unsigned count;
};

/* Returns 0 or E_USAGE. */
int rule_list_add(struct rule_list *list, const char *text, struct error *e) MUST_USE;
/* Adds the rules of a text, separated by ';'. */
int rule_list_add_all(struct rule_list *list, const char *text, struct error *e) MUST_USE;
/* Adds the usual rules of those metrics that have none yet. */
void rule_list_add_usual(struct rule_list *list);

/* Whether one of them starts an engine. */
bool rule_list_deepens(const struct rule_list *list);

#endif
