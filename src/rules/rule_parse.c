#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "rules/rule.h"
#include "schema/settings.h"

const struct rule_metric rule_metrics[RULE_METRIC_COUNT] = {
#define R(id, name_, family_, key_, value_, fault, usual_, example_, meaning_)                     \
	[RULE_##id] = { .name = name_,                                                             \
			.family = RULE_OF_##family_,                                               \
			.key = RULE_KEY_##key_,                                                    \
			.value = RULE_VALUE_##value_,                                              \
			.is_fault = fault,                                                         \
			.usual = usual_,                                                           \
			.example = example_,                                                       \
			.meaning = meaning_ },
	RULE_METRICS(R)
#undef R
};

const struct rule_action rule_actions[RULE_ACTION_COUNT] = {
#define A(id, form_, example_, meaning_)                                                           \
	[RULE_ACTION_##                                                                            \
		id] = { .name = #id, .form = form_, .example = example_, .meaning = meaning_ },
	RULE_ACTIONS(A)
#undef A
};

static const char *const metric_names[] = {
#define R(id, name, ...) name,
	RULE_METRICS(R) NULL
#undef R
};

static const char *const operators[] = {
	[RULE_GREATER] = ">",  [RULE_LESS] = "<",   [RULE_AT_LEAST] = ">=",
	[RULE_AT_MOST] = "<=", [RULE_EQUAL] = "==", [RULE_UNEQUAL] = "!="
};

#define OP(name) (1u << RULE_##name)
#define OP_ORDER (OP(GREATER) | OP(LESS) | OP(AT_LEAST) | OP(AT_MOST))

static const struct {
	unsigned operators;
	const char *form;
} values[] = {
	[RULE_VALUE_TIME] = { OP(GREATER) | OP(AT_LEAST), "a time with its unit, such as 500ms" },
	[RULE_VALUE_RATE] = { OP_ORDER, "a number a second, such as 100/s" },
	[RULE_VALUE_SPEED] = { OP(GREATER) | OP(AT_LEAST), "a size in a time, such as 1G/min" },
	[RULE_VALUE_PERCENT] = { OP_ORDER, "a percentage, such as 95%" },
	[RULE_VALUE_NUMBER] = { OP_ORDER | OP(EQUAL) | OP(UNEQUAL), "a number" },
	[RULE_VALUE_CODE] = { OP_ORDER | OP(EQUAL) | OP(UNEQUAL), "a number" },
	[RULE_VALUE_EVENT] = { 0, "" },
	[RULE_VALUE_NAME] = { OP(EQUAL), "a name" },
};

/* A rule is words, operators and texts in quotes; a colon before a blank is a word. */
struct words {
	const char *at;
	bool is_quoted, is_operator; /* of the word that was read last */
	char word[RULE_TEXT_MAX];
};

static size_t word_length(const char *at)
{
	size_t length = strcspn(at, " \t\n\r<>=!");

	return length > 1 && at[length - 1] == ':' ? length - 1 : length;
}

/* Returns false at the end. A quote that nothing ends is a word, and no rule has such one. */
static bool next_word(struct words *w)
{
	static const char blanks[] = " \t\n\r", signs[] = "<>=!";
	size_t length;
	bool is_closed;

	w->at += strspn(w->at, blanks);
	length = strcspn(w->at + 1 - !*w->at, "\"");
	is_closed = *w->at == '"' && w->at[1 + length] == '"';
	w->is_quoted = is_closed;
	w->is_operator = !is_closed && *w->at && strchr(signs, *w->at);
	if (is_closed)
		w->at++;
	else if (w->is_operator)
		length = strspn(w->at, signs);
	else
		length = word_length(w->at);
	memcpy(w->word, w->at, length);
	w->word[length] = '\0';
	w->at += length + is_closed;
	return length || is_closed;
}

static bool peek(const struct words *w, const char *word)
{
	struct words next = *w;

	return next_word(&next) && !next.is_quoted && !strcmp(next.word, word);
}

/* Decimal digits with a point and a sign, independent of the locale; "nan". */
static bool parse_real(const char *text, double *value)
{
	bool is_negative = *text == '-';
	double number = 0, scale = 1;
	const char *p = text + is_negative;

	if (!strcmp(text, "nan")) {
		*value = NAN;
		return true;
	}
	if (!(*p >= '0' && *p <= '9'))
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		number = number * 10 + (*p - '0');
	if (*p == '.' && p[1] >= '0' && p[1] <= '9')
		for (p++; *p >= '0' && *p <= '9'; p++)
			number += (*p - '0') * (scale /= 10);
	*value = is_negative ? -number : number;
	return !*p;
}

/* A number with a unit behind it, which is cut off. */
static bool parse_with(char *text, const char *unit, double *value)
{
	size_t length = strlen(text), tail = strlen(unit);

	if (length <= tail || strcmp(text + length - tail, unit) != 0)
		return false;
	text[length - tail] = '\0';
	return parse_real(text, value) && *value >= 0;
}

#define TIME_MAX_NS (UINT64_C(366) * 86400 * NS_PER_S)

static bool parse_unit_time(const char *word, uint64_t *ns)
{
	size_t length = strlen(word);

	return parse_duration(word, ns) == 0 && strchr("smh", word[length - 1]) && *ns &&
	       *ns <= TIME_MAX_NS;
}

/* A time; of ranges also "2x median", where "median" may be left out, or "1.5x p99". */
static bool parse_time(struct words *w, struct rule *rule)
{
	uint64_t ns;

	if (parse_unit_time(w->word, &ns)) {
		rule->value = (double)ns;
		return true;
	}
	if (rule_metrics[rule->metric].family != RULE_OF_RANGE ||
	    !parse_with(w->word, "x", &rule->value) || rule->value < 1)
		return false;
	rule->base = peek(w, "p99") ? RULE_P99 : RULE_MEDIAN;
	if (rule->base == RULE_P99 || peek(w, "median"))
		(void)!next_word(w);
	return true;
}

/* "1G/min": the size is cut off from the time. */
static bool parse_speed(char *text, double *value)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "/s", 1 }, { "/min", 60 }, { "/h", 3600 } };
	char *slash = strchr(text, '/');
	uint64_t bytes;

	for (size_t i = 0; slash && i < ARRAY_SIZE(units); i++)
		if (!strcmp(slash, units[i].unit)) {
			*slash = '\0';
			*value =
				parse_size(text, &bytes) < 0 ? 0 : (double)bytes / units[i].seconds;
			return *value > 0;
		}
	return false;
}

static bool parse_value(struct words *w, struct rule *rule)
{
	uint64_t bytes;

	switch (rule_metrics[rule->metric].value) {
	case RULE_VALUE_TIME:
		return parse_time(w, rule);
	case RULE_VALUE_RATE:
		return parse_with(w->word, "/s", &rule->value);
	case RULE_VALUE_SPEED:
		return parse_speed(w->word, &rule->value);
	case RULE_VALUE_PERCENT:
		return parse_with(w->word, "%", &rule->value) && rule->value <= 100;
	case RULE_VALUE_NUMBER:
	case RULE_VALUE_CODE:
		if (parse_real(w->word, &rule->value))
			return true;
		if (parse_size(w->word, &bytes) < 0)
			return false;
		rule->value = (double)bytes;
		return true;
	case RULE_VALUE_NAME:
		memcpy(rule->key, w->word, sizeof(rule->key));
		return *rule->key;
	case RULE_VALUE_EVENT:
		break;
	}
	return false;
}

int rule_signal(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = { { "USR1", SIGUSR1 },
			{ "USR2", SIGUSR2 },
			{ "ALRM", SIGALRM },
			{ "HUP", SIGHUP },
			{ "QUIT", SIGQUIT } };

	name += strncmp(name, "SIG", 3) ? 0 : 3;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (!strcmp(signals[i].name, name))
			return signals[i].number;
	return 0;
}

static int parse_key(struct words *w, struct rule *rule, struct error *e)
{
	const struct rule_metric *metric = &rule_metrics[rule->metric];
	struct words next = *w;
	bool has_word = next_word(&next);

	if (metric->key == RULE_KEY_NO || (metric->key == RULE_KEY_MAY && next.is_operator))
		return 0;
	if (!has_word || next.is_operator || !*next.word)
		return metric->key == RULE_KEY_MAY
			       ? 0
			       : error_set(e, E_USAGE, "'%s' needs a name, as in: %s", metric->name,
					   metric->example);
	*w = next;
	memcpy(rule->key, w->word, sizeof(rule->key));
	if (rule->metric == RULE_file && peek(w, "touched"))
		(void)!next_word(w);
	if (rule->metric == RULE_every) {
		uint64_t ns;

		if (!parse_unit_time(rule->key, &ns) || ns < NS_PER_S)
			return error_set(
				e, E_USAGE,
				"'every' needs a time with its unit of at least 1s, as in: %s",
				metric->example);
		rule->value = (double)ns;
	}
	if (rule->metric == RULE_signal && !rule_signal(rule->key))
		return error_set(e, E_USAGE,
				 "'%s' is none of the signals USR1, USR2, ALRM, HUP "
				 "and QUIT",
				 rule->key);
	return 0;
}

static int parse_condition(struct words *w, struct rule *rule, struct error *e)
{
	const struct rule_metric *metric = &rule_metrics[rule->metric];
	struct words next = *w;

	if (!next_word(&next) || !next.is_operator) {
		if (metric->value >= RULE_VALUE_CODE && metric->value <= RULE_VALUE_EVENT)
			return 0;
		return error_set(e, E_USAGE, "'%s' needs a condition, as in: %s", metric->name,
				 metric->example);
	}
	*w = next;
	for (unsigned op = RULE_GREATER; op <= RULE_UNEQUAL; op++)
		if (!strcmp(operators[op], w->word) && values[metric->value].operators >> op & 1)
			rule->op = (enum rule_op)op;
	if (rule->op == RULE_ALWAYS)
		return error_set(e, E_USAGE, "'%s' does not take '%s'; right is: %s", metric->name,
				 w->word, metric->example);
	if (next_word(w) && !w->is_operator && parse_value(w, rule))
		return 0;
	return error_set(e, E_USAGE, "'%s %s' needs %s", metric->name, operators[rule->op],
			 values[metric->value].form);
}

/* Only what has a value at any time can have it for some time. */
static int parse_for(struct words *w, struct rule *rule, struct error *e)
{
	const struct rule_metric *metric = &rule_metrics[rule->metric];

	if (!peek(w, "for"))
		return 0;
	(void)!next_word(w);
	if ((metric->family != RULE_OF_COUNTER && metric->family != RULE_OF_RATE &&
	     metric->family != RULE_OF_BUSY && metric->family != RULE_OF_STRAGGLER) ||
	    metric->value == RULE_VALUE_EVENT || metric->value == RULE_VALUE_CODE)
		return error_set(e, E_USAGE, "'%s' takes no 'for'; right is: %s", metric->name,
				 metric->example);
	if (!next_word(w) || parse_duration(w->word, &rule->for_ns) < 0 ||
	    !strchr("smh", w->word[strlen(w->word) - 1]) || rule->for_ns > TIME_MAX_NS)
		return error_set(e, E_USAGE, "'for' needs a time with its unit, such as 10s");
	return 0;
}

static unsigned action_of(const char *word)
{
	unsigned action = 0;

	while (action < RULE_ACTION_COUNT && strcmp(rule_actions[action].name, word) != 0)
		action++;
	return action;
}

static bool is_action(const char *word)
{
	return action_of(word) < RULE_ACTION_COUNT;
}

static int parse_engine(const char *name, struct rule *rule, struct error *e)
{
	const char *why;
	int engine = SETTING_ENGINES;

	while (--engine > SETTING_ENGINE_TRACE && strcmp(setting_engine_names[engine], name) != 0)
		;
	if (engine <= SETTING_ENGINE_TRACE)
		return error_set(e, E_USAGE,
				 "'deepen' needs an engine that can begin late, pm-sampling or "
				 "range-profiler, not '%s'",
				 name);
	why = setting_engine_needs_start(engine);
	if (why)
		return error_set(e, E_USAGE,
				 "engine %s cannot begin late: %s; pm-sampling and range-profiler "
				 "can",
				 name, why);
	rule->deepen = engine;
	return 0;
}

static int parse_deepen(struct words *w, struct rule *rule, struct error *e)
{
	int rc = parse_engine(next_word(w) ? w->word : "", rule, e);
	struct words next = *w;

	rule->deepen_ns = RULE_DEEPEN_NS;
	if (rc < 0 || !next_word(&next) || is_action(next.word))
		return rc;
	*w = next;
	return parse_unit_time(w->word, &rule->deepen_ns)
		       ? 0
		       : error_set(e, E_USAGE, "'deepen' needs a time with its unit, such as 10s");
}

/* "pre=30s" */
static int parse_part(struct words *w, bool *has, uint64_t *ns, struct error *e)
{
	char name[RULE_TEXT_MAX];

	(void)!next_word(w);
	memcpy(name, w->word, sizeof(name));
	if (*has)
		return error_set(e, E_USAGE, "'%s' is there twice", name);
	*has = true;
	if (next_word(w) && w->is_operator && !strcmp(w->word, "=") && next_word(w) &&
	    !w->is_operator && parse_duration(w->word, ns) == 0 &&
	    strchr("smh", w->word[strlen(w->word) - 1]) && *ns <= RULE_PART_MAX_NS)
		return 0;
	return error_set(e, E_USAGE, "'%s' needs a time of at most 1h with its unit: %s=30s", name,
			 name);
}

static int parse_dump(struct words *w, struct rule *rule, struct error *e)
{
	int rc = 0;

	while (rc == 0)
		if (peek(w, "pre"))
			rc = parse_part(w, &rule->has_before, &rule->before_ns, e);
		else if (peek(w, "post"))
			rc = parse_part(w, &rule->has_after, &rule->after_ns, e);
		else
			return 0;
	return rc;
}

static int parse_actions(struct words *w, struct rule *rule, struct error *e)
{
	static int (*const parsers[])(struct words * w, struct rule * rule, struct error * e) = {
		[RULE_ACTION_dump] = parse_dump,
		[RULE_ACTION_deepen] = parse_deepen,
	};
	unsigned known = 0, action;
	struct words next = *w;
	int rc = 0;

	if (!peek(w, ":"))
		return 0;
	(void)!next_word(w);
	do {
		next = *w;
		(void)!next_word(&next);
		action = action_of(next.word);
		if (action == RULE_ACTION_COUNT)
			return known ? 0 /* whatever follows is refused by the caller */
				     : error_set(e, E_USAGE, "after ':' comes %s or %s, not '%s'%s",
						 rule_actions[RULE_ACTION_dump].form,
						 rule_actions[RULE_ACTION_deepen].form, next.word,
						 strcmp(next.word, "capture") != 0
							 ? ""
							 : "; `pitot capture --when RULE` records "
							   "whole steps");
		if (known >> action & 1)
			return error_set(e, E_USAGE, "'%s' is there twice", next.word);
		known |= 1u << action;
		*w = next;
		rc = parsers[action](w, rule, e);
	} while (rc == 0);
	return rc;
}

static int parse(struct words *w, struct rule *rule, struct error *e)
{
	unsigned metric = 0;
	int rc;

	if (!next_word(w))
		return error_set(e, E_USAGE, "it is empty; `pitot rules` lists what rules can say");
	while (metric < RULE_METRIC_COUNT && strcmp(metric_names[metric], w->word) != 0)
		metric++;
	if (metric == RULE_METRIC_COUNT) {
		error_set(e, E_USAGE, "there is no metric '%s'", w->word);
		return error_suggest(e, w->word, metric_names, "; `pitot rules` lists them");
	}
	rule->metric = (enum rule_metric_id)metric;
	rc = parse_key(w, rule, e);
	rc = rc < 0 ? rc : parse_condition(w, rule, e);
	rc = rc < 0 ? rc : parse_for(w, rule, e);
	rc = rc < 0 ? rc : parse_actions(w, rule, e);
	if (rc == 0 && next_word(w))
		rc = error_set(e, E_USAGE, "nothing may follow, but '%s' does", w->word);
	return rc;
}

int rule_parse(const char *text, struct rule *out, struct error *e)
{
	struct rule rule = { .op = RULE_ALWAYS };
	struct words words = { .at = text };
	size_t length = strlen(text);
	int rc;

	if (length >= sizeof(rule.text)) {
		rc = error_set(e, E_USAGE, "it has more than %u bytes", RULE_TEXT_MAX - 1);
	} else {
		memcpy(rule.text, text, length + 1);
		rc = parse(&words, &rule, e);
	}
	if (rc == 0)
		*out = rule;
	else if (e)
		error_prefix(e, "rule '%.*s'", (int)RULE_TEXT_MAX, text);
	return rc;
}

bool rule_compares(const struct rule *rule, double value, double limit)
{
	bool is_equal =
		isnan(limit) ? isnan(value) : !(value < limit) && !(value > limit) && !isnan(value);

	switch (rule->op) {
	case RULE_ALWAYS:
		return true;
	case RULE_GREATER:
		return value > limit;
	case RULE_LESS:
		return value < limit;
	case RULE_AT_LEAST:
		return value >= limit;
	case RULE_AT_MOST:
		return value <= limit;
	case RULE_EQUAL:
		return is_equal;
	case RULE_UNEQUAL:
		return !is_equal;
	}
	return false;
}
