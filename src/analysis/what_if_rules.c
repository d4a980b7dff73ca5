/* what_if_rules.c: transforms of `pitot what-if`: syntax, what they match, and their costs. */
#include <stdlib.h>
#include <string.h>

#include "analysis/what_if.h"
#include "base/options.h"
#include "base/starts_with.h"
#include "names/demangle.h"
#include "trace/columns.h"

#define FACTOR_MAX 1000u
#define NS_MAX (INT64_C(1) << 50)
#define NO_STRAGGLER "no straggler"

static const char *const target_names[] = {
#define TARGET(name, usage, text) #name,
	WHAT_IF_TARGETS(TARGET)
#undef TARGET
		NULL,
};
/* What transforms begin with, for errors: of one it is two words. */
static const char *const target_words[] = {
#define TARGET(name, usage, text)                                                                  \
	[WHAT_IF_##name] = WHAT_IF_##name == WHAT_IF_straggler ? NO_STRAGGLER : #name,
	WHAT_IF_TARGETS(TARGET)
#undef TARGET
		NULL,
};
static const char *const target_usages[] = {
#define TARGET(name, usage, text) usage,
	WHAT_IF_TARGETS(TARGET)
#undef TARGET
};

/* --- syntax --- */

/* "0.5"; independent of the locale. */
static bool parse_factor(const char *text, double *factor)
{
	double unit = 1;
	bool any = false;

	for (*factor = 0; *text >= '0' && *text <= '9'; any = true)
		*factor = *factor * 10 + (*text++ - '0');
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; any = true)
			*factor += (*text++ - '0') * (unit /= 10);
	return any && !*text && *factor <= FACTOR_MAX;
}

/* With a unit: elsewhere a number alone is seconds, which nobody means here. */
static bool parse_ns(const char *text, int64_t *ns)
{
	uint64_t value;

	if (!text[strspn(text, "0123456789.")] || parse_duration(text, &value) < 0 ||
	    value > NS_MAX)
		return false;
	*ns = (int64_t)value;
	return true;
}

static bool parse_change(struct what_if_rule *rule, const char *text)
{
	if (!strcmp(text, "remove")) {
		rule->change = CHANGE_REMOVE;
		return true;
	}
	if (*text == 'x') {
		rule->change = CHANGE_SCALE;
		return parse_factor(text + 1, &rule->factor);
	}
	if (!*text || !strchr("=+-", *text) || !parse_ns(text + 1, &rule->ns))
		return false;
	rule->change = *text == '=' ? CHANGE_SET : CHANGE_ADD;
	rule->ns = *text == '-' ? -rule->ns : rule->ns;
	return true;
}

static bool has_glob(enum what_if_target target)
{
	return target == WHAT_IF_kernel || target == WHAT_IF_copy || target == WHAT_IF_call ||
	       target == WHAT_IF_host || target == WHAT_IF_python || target == WHAT_IF_sync ||
	       target == WHAT_IF_fuse;
}

/* "graph step", "graph 'step/forward' launch=10us" */
static int parse_graph(struct what_if_rule *rule, const char *rest, struct error *e)
{
	const char *launch = strstr(rest, " launch=");
	size_t length = launch ? (size_t)(launch - rest) : strlen(rest);

	if (launch && !parse_ns(launch + strlen(" launch="), &rule->ns))
		return error_set(e, E_USAGE, "'%s': launch= takes a duration, such as launch=10us",
				 rule->text);
	rule->has_ns = launch != NULL;
	rule->glob = strndup(rest, length);
	if (!rule->glob)
		return error_set(e, -ENOMEM, "out of memory");
	return *rule->glob ? 0
			   : error_set(e, E_USAGE, "'%s' needs a scope, or 'step': 'graph step'",
				       rule->text);
}

/* "copies pinned", "overlap copies", "streams merge", "streams split SCOPE" */
static int parse_words(struct what_if_rule *rule, const char *rest, struct error *e)
{
	static const struct {
		enum what_if_target target;
		const char *words;
		enum what_if_change change;
		bool has_scope;
	} forms[] = {
		{ WHAT_IF_copies, "pinned", CHANGE_SCALE, false },
		{ WHAT_IF_overlap, "copies", CHANGE_SPLIT, false },
		{ WHAT_IF_streams, "merge", CHANGE_MERGE, false },
		{ WHAT_IF_streams, "split ", CHANGE_SPLIT, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t length = strlen(forms[i].words);

		if (forms[i].target != rule->target || strncmp(rest, forms[i].words, length) != 0 ||
		    (rest[length] != 0) != forms[i].has_scope)
			continue;
		rule->change = forms[i].change;
		rule->glob = strdup(rest + length);
		return rule->glob ? 0 : error_set(e, -ENOMEM, "out of memory");
	}
	return error_set(e, E_USAGE, "'%s' is no transform: %s", rule->text,
			 target_usages[rule->target]);
}

/* "4", "4 x0.8" */
static bool parse_number(struct what_if_rule *rule, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	_cleanup_free_ char *number = strndup(text, digits);

	rule->change = CHANGE_SCALE;
	rule->factor = 1;
	return number && parse_u64(number, &rule->number) == 0 && rule->number > 1 &&
	       (!text[digits] || (!strncmp(text + digits, " x", 2) &&
				  parse_factor(text + digits + 2, &rule->factor)));
}

/* "fuse 4", "fuse:*elementwise* 4 x0.8": the name has no blanks */
static int parse_fuse(struct what_if_rule *rule, const char *rest, struct error *e)
{
	const char *name = *rest == ':' ? rest + 1 : rest;
	size_t length = strcspn(name, " ");

	rule->glob = strndup(name, length);
	if (!rule->glob)
		return error_set(e, -ENOMEM, "out of memory");
	return name[length] == ' ' && parse_number(rule, name + length + 1)
		       ? 0
		       : error_set(e, E_USAGE, "'%s' does not say how many kernels become one: %s",
				   rule->text, target_usages[WHAT_IF_fuse]);
}

/* "kernel:*gemm* x0.5" */
static int parse_cost(struct what_if_rule *rule, const char *rest, struct error *e)
{
	const char *change = strrchr(rest, ' ');

	rule->glob = *rest == ':' && change ? strndup(rest + 1, (size_t)(change - rest) - 1)
					    : strdup("");
	if (!rule->glob)
		return error_set(e, -ENOMEM, "out of memory");
	if (!change || !parse_change(rule, change + 1))
		return error_set(e, E_USAGE,
				 "'%s' does not say how it changes: x0.5, =2us, -2us, +2us or "
				 "remove",
				 rule->text);
	if (rule->target == WHAT_IF_sync && rule->change != CHANGE_REMOVE)
		return error_set(e, E_USAGE, "'%s': waiting can only be removed: 'sync remove'",
				 rule->text);
	if (rule->target == WHAT_IF_batch && rule->change != CHANGE_SCALE)
		return error_set(e, E_USAGE, "'%s': a batch is some times as large: %s", rule->text,
				 target_usages[WHAT_IF_batch]);
	return 0;
}

/* "no straggler", "no straggler 3" */
static int parse_straggler(struct what_if_rule *rule, const char *rest, struct error *e)
{
	uint64_t rank;

	rule->target = WHAT_IF_straggler;
	rule->has_rank = *rest != 0;
	if (rule->has_rank &&
	    (*rest != ' ' || parse_u64(rest + 1, &rank) < 0 || rank >= UINT32_MAX))
		return error_set(e, E_USAGE, "'%s' names no rank: %s", rule->text,
				 target_usages[WHAT_IF_straggler]);
	rule->rank = rule->has_rank ? (uint32_t)rank : 0;
	return 0;
}

int what_if_parse(struct what_if_rule *rule, const char *text, struct error *e)
{
	size_t length = strcspn(text, ": ");
	const char *rest = text + length;
	_cleanup_free_ char *word = strndup(text, length);
	size_t target = 0;

	*rule = (struct what_if_rule){ .text = text };
	if (!word)
		return error_set(e, -ENOMEM, "out of memory");
	if (starts_with(text, NO_STRAGGLER))
		return parse_straggler(rule, text + strlen(NO_STRAGGLER), e);
	while (target_names[target] && strcmp(target_names[target], word) != 0)
		target++;
	if (!target_names[target]) {
		error_set(e, E_USAGE, "unknown transform '%s'", text);
		return error_suggest(e, strcmp(word, "no") ? word : text, target_words, NULL);
	}
	rule->target = (enum what_if_target)target;
	if (*rest == ':' && !has_glob(rule->target))
		return error_set(e, E_USAGE, "'%s': %s takes no name", text, word);
	switch (rule->target) {
	case WHAT_IF_graph:
		return parse_graph(rule, *rest ? rest + 1 : rest, e);
	case WHAT_IF_copies:
	case WHAT_IF_overlap:
	case WHAT_IF_streams:
		return parse_words(rule, *rest ? rest + 1 : rest, e);
	case WHAT_IF_fuse:
		return parse_fuse(rule, rest, e);
	default:
		return parse_cost(rule, rest, e);
	}
}

int what_if_check(const struct what_if_rule *rules, size_t count, struct error *e)
{
	const struct what_if_rule *first = NULL;

	for (size_t i = 0; i < count; i++) {
		if (!what_if_has_order(&rules[i]))
			continue;
		if (first)
			return error_set(e, E_USAGE,
					 "'%s' and '%s' both change the order of work, which is "
					 "simulated one at a time",
					 first->text, rules[i].text);
		first = &rules[i];
	}
	return 0;
}

void what_if_rule_release(struct what_if_rule *rule)
{
	free(rule->glob);
	free(rule->matches);
	free(rule->times);
	rule->glob = NULL;
	rule->matches = NULL;
	rule->times = NULL;
}

/* --- what it matches --- */

/* Names that exist, for errors. */
struct known {
	VEC(char *) names;
	struct interner seen;
};

static int know(struct known *k, const char *name)
{
	bool is_new;
	char *copy;

	if (interner_add(&k->seen, name, strlen(name), &is_new) < 0)
		return -ENOMEM;
	if (!is_new)
		return 0;
	copy = strdup(name);
	return copy && vec_push(&k->names, copy) == 0 ? 0 : (free(copy), -ENOMEM);
}

static void known_release(struct known *k)
{
	for (size_t i = 0; i < k->names.count; i++)
		free(k->names.data[i]);
	vec_release(&k->names);
	interner_release(&k->seen);
}

static const struct task *task_at(const struct what_if *w, uint32_t index)
{
	return &w->report->causes.tasks.data[index];
}

static bool is_python(const struct callers *c, size_t caller)
{
	return caller < c->items.count && c->items.data[caller].class == FRAME_PYTHON;
}

/* What `matches` is indexed by; SIZE_MAX: the rule is not about this. */
static size_t key_of(const struct what_if *w, const struct what_if_rule *rule, enum cost_of what,
		     uint32_t index)
{
	const struct report *r = w->report;
	const struct task *task = task_at(w, index);
	struct path_place place;

	switch (rule->target) {
	case WHAT_IF_kernel:
	case WHAT_IF_copy:
		if (what != COST_WORK || !task_is_work(task))
			return SIZE_MAX;
		place = path_place_of_work(r, task);
		if (rule->target == WHAT_IF_copy)
			return place.class == PATH_COPY ? place.key : SIZE_MAX;
		return place.class == PATH_KERNEL && place.config != TRACE_NO_ROW ? place.config
										  : SIZE_MAX;
	case WHAT_IF_call:
	case WHAT_IF_sync:
		if (what != COST_CALL || task->kind != TASK_CALL ||
		    (rule->target == WHAT_IF_sync && !(task->flags & TASK_SYNC_CALL)))
			return SIZE_MAX;
		return r->calls.functions[task->row];
	case WHAT_IF_host:
	case WHAT_IF_python:
		if (what != COST_HOST || task->kind != TASK_CALL)
			return SIZE_MAX;
		place = path_place_of_host(r, task);
		return place.class == PATH_HOST && (rule->target == WHAT_IF_host ||
						    is_python(&r->callers, place.key))
			       ? place.key
			       : SIZE_MAX;
	default:
		return SIZE_MAX;
	}
}

static void add_name(const struct what_if *w, const struct what_if_rule *rule, size_t key,
		     struct strbuf *out)
{
	const struct report *r = w->report;
	size_t length;
	const char *name;

	switch (rule->target) {
	case WHAT_IF_kernel:
		kernel_name_short(
			trace_string(r->trace, kernel_config_columns(r->trace)->name[key]), out);
		break;
	case WHAT_IF_copy:
		name = schema_value_name(&schema_table(TABLE_memcpy)->columns[COLUMN_memcpy_kind],
					 key);
		strbuf_adds(out, name ? name : "?");
		break;
	case WHAT_IF_host:
	case WHAT_IF_python:
		caller_text(&r->callers, (uint32_t)key, CALLER_NONE, out);
		break;
	default:
		name = calls_function_name(r->trace, (uint32_t)key, &length);
		strbuf_add(out, name, length);
		break;
	}
}

static bool name_matches(const struct what_if *w, const struct what_if_rule *rule, size_t key,
			 const char *name)
{
	const struct trace *t = w->report->trace;

	if (!*rule->glob)
		return true;
	return rule->target == WHAT_IF_kernel
		       ? kernel_name_matches(rule->glob,
					     trace_string(t, kernel_config_columns(t)->name[key]))
		       : text_matches(rule->glob, name);
}

enum { UNSEEN, MATCHES, DIFFERS };

static size_t key_count(const struct what_if *w, const struct what_if_rule *rule)
{
	switch (rule->target) {
	case WHAT_IF_kernel:
		return trace_rows(w->report->trace, TABLE_kernel_config);
	case WHAT_IF_host:
	case WHAT_IF_python:
		return w->report->callers.items.count;
	case WHAT_IF_copy:
		return UINT8_MAX + 1u;
	default:
		return w->report->calls.function_count;
	}
}

/* Looks at each name once. */
static int match_names(const struct what_if *w, struct what_if_rule *rule, struct known *known)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	size_t keys = key_count(w, rule);
	int code = 0;

	rule->matches = calloc(keys + 1, 1);
	if (!rule->matches)
		return -ENOMEM;
	for (uint32_t i = w->from_task; i < w->until_task && code >= 0; i++)
		for (unsigned what = COST_WORK; what <= COST_HOST && code >= 0; what++) {
			size_t key = key_of(w, rule, (enum cost_of)what, i);

			if (key >= keys || rule->matches[key] != UNSEEN)
				continue;
			strbuf_clear(&name);
			add_name(w, rule, key, &name);
			rule->matches[key] =
				name_matches(w, rule, key, strbuf_text(&name)) ? MATCHES : DIFFERS;
			code = know(known, strbuf_text(&name));
		}
	return code;
}

/* --- costs --- */

/* Whether the work of a call is removed, and so the call. */
static bool removes_call(const struct what_if *w, const struct what_if_rule *rule, uint32_t call)
{
	uint32_t i = call + 1;

	if (rule->change != CHANGE_REMOVE || !(task_at(w, call)->flags & TASK_LAUNCH_CALL))
		return false;
	for (; i < w->until_task && task_at(w, i)->launch == call; i++)
		if (!task_is_work(task_at(w, i)) || !what_if_changes(w, rule, COST_WORK, i))
			return false;
	return i > call + 1;
}

static bool is_of_rank(const struct what_if *w, uint32_t rank, uint32_t index)
{
	const struct task_range *range = what_if_ranks_range(&w->ranks, index);

	return range && range->rank == rank;
}

bool what_if_changes(const struct what_if *w, const struct what_if_rule *rule, enum cost_of what,
		     uint32_t index)
{
	const struct task *task = task_at(w, index);
	bool is_call = task->kind == TASK_CALL;
	size_t key;

	if (what == COST_CALL && is_call && task->flags & TASK_UNKNOWN_WAIT)
		return false; /* how much of it is waiting, and for what, is unknown */
	switch (rule->target) {
	case WHAT_IF_gpu:
	case WHAT_IF_batch:
		return what == COST_WORK && task_is_work(task);
	case WHAT_IF_memset:
		return what == COST_WORK && task->kind == GPU_WORK_memset;
	case WHAT_IF_wait:
		return what == COST_WORK && what_if_rank_wait_ns(w, index);
	case WHAT_IF_comm:
		return what == COST_WORK && what_if_ranks_has(&w->ranks, index);
	case WHAT_IF_straggler:
		return w->ranks.pace && w->ranks.pace[index - w->ranks.first] < 1 &&
		       (!rule->has_rank || is_of_rank(w, rule->rank, index)) &&
		       (what == COST_WORK || what == COST_CALL || what == COST_HOST) &&
		       !what_if_ranks_has(&w->ranks, index);
	case WHAT_IF_launch:
		return what == COST_CALL && is_call && task->flags & TASK_LAUNCH_CALL &&
		       (what_if_call_kind(w, task) == api_kind_launch ||
			what_if_call_kind(w, task) == api_kind_graph_launch);
	case WHAT_IF_cpu:
		return is_call && (what == COST_CALL || what == COST_HOST);
	case WHAT_IF_graph:
	case WHAT_IF_fuse:
		return what_if_run_changes(w, rule, what, index);
	case WHAT_IF_copies:
		return (what == COST_CALL || what == COST_WORK) &&
		       rule->matches[index - w->from_task];
	case WHAT_IF_overlap:
	case WHAT_IF_streams:
		return what == COST_WORK && task_is_work(task) &&
		       rule->matches[index - w->from_task];
	case WHAT_IF_host:
		if (!*rule->glob)
			return what == COST_HOST && is_call;
		break;
	default:
		break;
	}
	key = key_of(w, rule, what, index);
	return key < key_count(w, rule) && rule->matches[key] == MATCHES;
}

static uint64_t changed(const struct what_if_rule *rule, uint64_t ns)
{
	switch (rule->change) {
	case CHANGE_SCALE:
		return (uint64_t)((double)ns * rule->factor);
	case CHANGE_SET:
		return (uint64_t)rule->ns;
	case CHANGE_ADD:
		return rule->ns < 0 && (uint64_t)-rule->ns > ns ? 0 : ns + (uint64_t)rule->ns;
	default:
		return 0;
	}
}

/* By how much a rank is faster before a collective if only a part of its excess remains. */
static double pace_of(const struct what_if *w, const struct what_if_rule *rule, uint32_t index)
{
	double pace = (double)w->ranks.pace[index - w->ranks.first];

	return pace + (1 - pace) * rule->factor;
}

uint64_t what_if_cost(const struct what_if *w, const struct what_if_rule *rule, enum cost_of what,
		      uint32_t index, uint64_t ns)
{
	bool of_work = rule->target == WHAT_IF_kernel || rule->target == WHAT_IF_copy ||
		       rule->target == WHAT_IF_memset;

	if (rule->target == WHAT_IF_graph || rule->target == WHAT_IF_fuse)
		return what_if_run_cost(w, rule, what, index, ns);
	if (rule->target == WHAT_IF_sync || rule->target == WHAT_IF_wait ||
	    rule->target == WHAT_IF_overlap || rule->target == WHAT_IF_streams)
		return ns;
	if (rule->target == WHAT_IF_straggler)
		return what_if_changes(w, rule, what, index)
			       ? (uint64_t)((double)ns * pace_of(w, rule, index))
			       : ns;
	if (rule->target == WHAT_IF_copies)
		return what_if_changes(w, rule, what, index)
			       ? MIN(ns, rule->times[index - w->from_task])
			       : ns;
	if (of_work && what == COST_CALL)
		return removes_call(w, rule, index) ? 0 : ns;
	if (of_work && what == COST_LATENCY)
		return rule->change == CHANGE_REMOVE && what_if_changes(w, rule, COST_WORK, index)
			       ? 0
			       : ns;
	return what_if_changes(w, rule, what, index) ? changed(rule, ns) : ns;
}

uint64_t what_if_rank_wait(const struct what_if *w, const struct what_if_rule *rule, uint32_t index,
			   uint64_t ns)
{
	bool changes = what_if_changes(w, rule, COST_WORK, index);

	if (rule->target == WHAT_IF_wait)
		return changes ? changed(rule, ns) : ns;
	return changes && rule->change == CHANGE_REMOVE && rule->target != WHAT_IF_comm
		       ? 0 /* with the collective */
		       : ns;
}

bool what_if_returns(const struct what_if *w, const struct what_if_rule *rule, uint32_t call)
{
	switch (rule->target) {
	case WHAT_IF_sync:
	case WHAT_IF_copies:
		return what_if_changes(w, rule, COST_CALL, call);
	case WHAT_IF_overlap:
		return rule->matches[call - w->from_task];
	default:
		return false;
	}
}

/* Counts what the rule changes. */
static void count_matches(const struct what_if *w, struct what_if_rule *rule)
{
	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		const struct task *task = task_at(w, i);
		struct arrival waited = { .from = TASK_NONE };
		bool any = false;

		if (task->kind == TASK_CALL)
			waited = causes_return(&w->report->causes, i);
		for (unsigned what = COST_WORK; what <= COST_HOST; what++) {
			if (!what_if_changes(w, rule, (enum cost_of)what, i))
				continue;
			any = true;
			if (what == COST_HOST)
				rule->cost_ns += what_if_host_ns(w, i);
			else if (rule->target == WHAT_IF_wait)
				rule->cost_ns += what_if_rank_wait_ns(w, i);
			else if (what == COST_WORK)
				rule->cost_ns += task->end_ns - task->start_ns -
						 (rule->change == CHANGE_REMOVE
							  ? 0
							  : what_if_rank_wait_ns(w, i));
			else if (waited.from == TASK_NONE)
				rule->cost_ns += task->end_ns - task->start_ns;
			else
				rule->cost_ns += rule->target == WHAT_IF_sync
							 ? waited.ns - task->start_ns
							 : task->end_ns - waited.ns;
		}
		rule->matched += any;
	}
}

#define SCOPES_KNOWN_MAX 10000u

/* Names of scopes, and their paths. */
static int know_scopes(const struct what_if *w, const struct what_if_rule *rule,
		       struct known *known)
{
	const struct nvtx_ranges *n = &w->report->ranges;
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	int code = rule->target == WHAT_IF_graph ? know(known, "step") : 0;

	for (uint32_t i = 0; i < MIN(n->path_count, SCOPES_KNOWN_MAX) && code >= 0; i++) {
		strbuf_clear(&path);
		scope_path_text(n, w->report->trace, i, &path);
		code = know(known, scope_path_name(n, w->report->trace, i));
		if (code >= 0)
			code = know(known, strbuf_text(&path));
	}
	return code;
}

static int no_match(const struct what_if_rule *rule, const struct known *known, struct error *e)
{
	_cleanup_strbuf_ struct strbuf word = STRBUF_INIT;
	const char *const *names = (const char *const *)known->names.data;

	error_set(e, E_USAGE, "'%s' changes nothing of what is simulated%s", rule->text,
		  rule->target == WHAT_IF_python ? ": it has no calls that lines of Python make"
						 : "");
	for (const char *c = rule->glob; *c; c++)
		if (!strchr("*?[]", *c))
			strbuf_addc(&word, *c);
	return *rule->glob && names[0]
		       ? error_suggest(e, strbuf_text(&word), names, ": pitot report has the names")
		       : E_USAGE;
}

static bool of_ranks(const struct what_if_rule *rule)
{
	return rule->target == WHAT_IF_comm || rule->target == WHAT_IF_straggler;
}

static int match_straggler(const struct what_if *w, struct what_if_rule *rule, struct error *e)
{
	bool is_there = false;

	for (size_t i = 0; i < w->ranks.ranges.count; i++) {
		const struct task_range *range = &w->ranks.ranges.data[i];

		if (rule->has_rank && range->rank != rule->rank)
			continue;
		is_there = true;
		rule->matched += range->slower;
		rule->cost_ns += range->slower_ns;
	}
	if (rule->matched)
		return 0;
	return is_there ? error_set(e, E_USAGE,
				    "'%s' changes nothing: %s longer than the median rank before a "
				    "collective that is simulated",
				    rule->text,
				    rule->has_rank ? "the rank does not need" : "no rank needs")
			: error_set(e, E_USAGE,
				    "'%s': rank %u is none of those that are simulated: pitot "
				    "report --ranks",
				    rule->text, rule->rank);
}

int what_if_match(const struct what_if *w, struct what_if_rule *rule, struct error *e)
{
	struct known known = { 0 };
	int code = 0;

	interner_init(&known.seen);
	if (rule->target == WHAT_IF_graph || rule->change == CHANGE_SPLIT)
		code = know_scopes(w, rule, &known);
	switch (rule->target) {
	case WHAT_IF_graph:
	case WHAT_IF_fuse:
		code = what_if_match_run(w, rule, e);
		break;
	case WHAT_IF_copies:
		code = what_if_match_copies(w, rule, e);
		break;
	case WHAT_IF_overlap:
	case WHAT_IF_streams:
		code = what_if_match_order(w, rule);
		break;
	default:
		if (has_glob(rule->target))
			code = match_names(w, rule, &known);
	}
	if (code >= 0 && vec_push(&known.names, NULL) < 0)
		code = -ENOMEM;
	if (code == -ENOMEM)
		error_set(e, code, "out of memory");
	if (code >= 0 && of_ranks(rule) && !w->ranks.ranges.count) {
		code = error_set(e, E_USAGE,
				 "'%s' needs all ranks of a job, each in a process of its own, in "
				 "the recording, and their collectives: pitot report --ranks",
				 rule->text);
	} else if (code >= 0 && rule->target == WHAT_IF_straggler) {
		code = match_straggler(w, rule, e);
	} else if (code >= 0) {
		count_matches(w, rule);
		code = rule->matched ? 0 : no_match(rule, &known, e);
	}
	known_release(&known);
	return code;
}
