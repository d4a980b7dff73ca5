/* section_critical_path.c: what bounded the length of the window, by owner. */
#include "report/section.h"

#include "analysis/critical_path.h"
#include "analysis/verdict.h"
#include "report/words.h"

#define PATH(member) MEMBER(struct critical_path, member)
#define OWNER(member) MEMBER(struct path_owner, member)
#define EDGES(member) MEMBER(struct path_edges, member)
#define UNKNOWN(member) MEMBER(struct critical_path, unknown.member)

void report_place_text(const struct report_view *v, struct path_place p, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT;

	path_place_text(v->report, p, v->full_names, &plain);
	text_safe(out, strbuf_text(&plain), plain.length);
}

static const char *class_name(unsigned class)
{
	return path_class_names[class];
}

ROW_READ(read_name, struct path_owner, report_place_text(v, row->place, &out->text))

ROW_IF(has_potential, struct path_owner, row->potential_ns != CRITICAL_UNKNOWN)

static const struct field owner_fields[] = {
	FIELD(NULL, "share", SHARE, OWNER(ns), WHOLE(struct critical_path, window_ns)),
	FIELD("total_ns", "time", NS, OWNER(ns)),
	FIELD("count", "pieces", COUNT, OWNER(count)),
	FIELD("potential_ns", "potential", NS, OWNER(potential_ns), .when = has_potential,
	      .null = true),
	FIELD("class", NULL, CHOICE, OWNER(place.class), .names = class_name),
	FIELD("name", "bounded by", CODE, .value = read_name, FLEXIBLE_COLUMN),
};

static uint64_t host_ns(const struct critical_path *p)
{
	return p->class_ns[PATH_HOST] + p->class_ns[PATH_CALL];
}

static bool is_contradicted(const struct report_view *v)
{
	const struct verdict *whole = &v->report->verdicts->whole;

	return whole->kind > VERDICT_MEASURED &&
	       verdict_contradicts(v->report->critical_path->class_ns, whole->busy_ns,
				   whole->bounds.span_ns);
}

ROW_IF(is_hidden, struct path_owner, is_contradicted(v))

static void read_contradicted(const struct report_view *v, const void *row, struct value *out)
{
	(void)row;
	out->n = is_contradicted(v);
}

static const struct field edge_fields[] = {
	FIELD("kind", NULL, TEXT, EDGES(kind)),
	FIELD("count", NULL, COUNT, EDGES(count)),
	FIELD("contradictions", NULL, COUNT, EDGES(contradictions)),
	FIELD("typical_ns", NULL, NS, EDGES(typical_ns)),
};

static const struct field unknown_fields[] = {
	FIELD("untimed_work", NULL, COUNT, UNKNOWN(untimed)),
	FIELD("work_without_call", NULL, COUNT, UNKNOWN(unlaunched)),
	FIELD("calls_on_unknown_streams", NULL, COUNT, UNKNOWN(streams)),
	FIELD("waits_for_unknown_events", NULL, COUNT, UNKNOWN(events)),
	FIELD("assumed_waits", NULL, COUNT, UNKNOWN(assumed)),
	FIELD("streams_of_unknown_kind", NULL, COUNT, UNKNOWN(blocking)),
	FIELD("graphs_without_dependencies", NULL, COUNT, UNKNOWN(unordered_graphs)),
};

static const struct field fields[] = {
	FIELD("start_ns", NULL, TIME, PATH(start_ns)),
	FIELD("window_ns", NULL, NS, PATH(window_ns)),
	FIELD("pid", NULL, PID, PATH(process)),
	FIELD("unknown_ns", NULL, NS, PATH(class_ns[PATH_UNKNOWN])),
	FIELD("work_ns", NULL, NS, PATH(work_ns)),
	FIELD("path_work_ns", NULL, NS, PATH(path_work_ns)),
	FIELD("tight_work_ns", NULL, NS, PATH(tight_ns)),
	FIELD("threads", NULL, COUNT, PATH(threads)),
	FIELD("threads_side_by_side", NULL, FLAG, PATH(beside)),
	FIELD("identity_ns", NULL, NS, PATH(identity_ns)),
	FIELD("contradictions", NULL, COUNT, PATH(contradictions)),
	FIELD("contradiction_ns", NULL, NS, PATH(contradiction_ns)),
	FIELD("contradicts_busy", NULL, FLAG, .value = read_contradicted),
	LIST("owners", ITEMS(struct critical_path, owners, owner_count), owner_fields,
	     .hidden = is_hidden),
	LIST("edges", ITEMS(struct critical_path, edges, edge_count), edge_fields, .all = true),
	OBJECT("unknown", unknown_fields),
};

static bool is_shown(const struct report_view *v)
{
	return v->report->critical_path->window_ns != 0;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct critical_path *p = v->report->critical_path;

	sentence_add(out, WORDS("of "), DURATION(p->window_ns));
	report_of_process(v->report, p->process, out);
	if (is_contradicted(v)) {
		strbuf_adds(out, ", not known");
		return;
	}
	sentence_add(out, WORDS(", "), PERCENT(p->class_ns[PATH_UNKNOWN], p->window_ns),
		     WORDS(" unknown"));
}

static void add_count(struct strbuf *out, uint64_t count, const char *one, const char *rest)
{
	if (!count)
		return;
	sentence_add(out, WORDS(out->length ? ", " : ""), COUNTED_AS(count, one), WORDS(rest));
}

/* What the path cannot know, and what of the other work could lengthen it. */
static void add_notes(const struct report_view *v, struct strbuf *out)
{
	const struct critical_path *p = v->report->critical_path;
	const struct causes_unknown *u = &p->unknown;
	const struct verdict *whole = &v->report->verdicts->whole;
	_cleanup_strbuf_ struct strbuf missing = STRBUF_INIT;
	bool contradicted = is_contradicted(v);

	if (contradicted)
		sentence_add(out, WORDS("the path that was found is "), DURATION(host_ns(p)),
			     WORDS(" of host code and calls and "), DURATION(p->path_work_ns),
			     WORDS(" of GPU work; this contradicts GPU utilization "),
			     PERCENT(whole->busy_ns, whole->bounds.span_ns),
			     WORDS(": the recording lacks what work waited for\n"));
	else if (p->work_ns)
		sentence_add(out, DURATION(p->path_work_ns), WORDS(" of "), DURATION(p->work_ns),
			     WORDS(" of GPU work is on the path; "), DURATION(p->tight_ns),
			     WORDS(" more would be if it took 100 us longer\n"));
	add_count(&missing, u->untimed, "piece", " of work without times");
	add_count(&missing, u->unlaunched, "piece", " of work without a recorded call");
	add_count(&missing, u->streams, "call", " on unknown streams");
	add_count(&missing, u->events, "wait", " for events recorded earlier");
	add_count(&missing, u->unordered_graphs, "graph launch",
		  " without dependencies, taken in order");
	add_count(&missing, p->contradictions, "contradiction", " between times");
	if (p->beside && !contradicted)
		sentence_add(out, WORDS("no potentials: what "), COUNTED_AS(p->threads, "thread"),
			     WORDS(" wait for each other for is unknown\n"));
	if (p->identity_ns)
		sentence_add(out, WORDS("a simulation without a change ends "),
			     DURATION(p->identity_ns), WORDS(" off\n"));
	if (missing.length)
		sentence_add(out, WORDS("not known: "), WORDS(missing.data), WORDS("\n"));
}

static void print_none(const struct report_view *v)
{
	if (v->report->options.critical_path)
		report_title(v, "critical path in detail",
			     "no calls and no GPU work in the window");
}

const struct section section_critical_path = {
	.key = "critical_path",
	.title = "critical path in detail",
	RESULT(critical_path),
	FIELDS(fields),
	.shown = is_shown,
	.computed = is_shown,
	.remark = add_remark,
	.after = add_notes,
	.empty = print_none,
};
