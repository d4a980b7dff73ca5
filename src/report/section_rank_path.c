/* section_rank_path.c: what bounded a job of several ranks, by rank and owner. */
#include "report/section.h"

#include "analysis/rank_path.h"
#include "report/words.h"

#define PATH(member) MEMBER(struct rank_path, member)
#define OWNER(member) MEMBER(struct rank_path_owner, member)
#define ON_PATH(member) MEMBER(struct rank_on_path, member)
#define STAY(member) MEMBER(struct rank_path_stay, member)

static uint32_t number_of(const struct report_view *v, uint32_t rank)
{
	return v->report->collectives->ranks[rank].number;
}

static const char *class_name(unsigned class)
{
	return class == RANK_PATH_TRANSFER ? "transfer"
	       : class == RANK_PATH_PAUSE  ? "pause"
					   : path_class_names[class];
}

static void add_text(const struct report_view *v, uint32_t item, struct strbuf *out)
{
	const struct interned *text = &v->report->rank_path->texts.items[item];

	text_safe(out, text->text, text->length);
}

/* "train.py:9 load: host" */
static void read_bound(const struct report_view *v, const void *row, struct value *out)
{
	const struct rank_path_owner *o = row;

	if (o->line != RANK_PATH_NO_TEXT) {
		add_text(v, o->line, &out->text);
		strbuf_adds(&out->text, ": ");
	}
	add_text(v, o->name, &out->text);
	strbuf_adds(&out->text, o->class == RANK_PATH_PAUSE ? " (pause)" : "");
}

ROW_IF(has_line, struct rank_path_owner, row->line != RANK_PATH_NO_TEXT)
ROW_READ(read_owner_rank, struct rank_path_owner, out->n = number_of(v, row->rank))
ROW_READ(read_name, struct rank_path_owner, add_text(v, row->name, &out->text))
ROW_READ(read_line, struct rank_path_owner, add_text(v, row->line, &out->text))
ROW_READ(read_rank, struct rank_on_path, out->n = number_of(v, row->rank))
ROW_READ(read_stay_rank, struct rank_path_stay, out->n = number_of(v, row->rank))

static const struct field rank_fields[] = {
	FIELD(NULL, "share", SHARE, ON_PATH(ns), WHOLE(struct rank_path, window_ns)),
	FIELD("total_ns", "time", NS, ON_PATH(ns)),
	FIELD("transfer_ns", "transfers", NS, ON_PATH(transfer_ns)),
	FIELD("pause_ns", NULL, NS, ON_PATH(pause_ns)),
	FIELD("stays", "stays", COUNT, ON_PATH(stays)),
	FIELD("rank", "rank", ID, .value = read_rank),
};

static const struct field owner_fields[] = {
	FIELD(NULL, "share", SHARE, OWNER(ns), WHOLE(struct rank_path, window_ns)),
	FIELD("total_ns", "time", NS, OWNER(ns)),
	FIELD("count", "pieces", COUNT, OWNER(count)),
	FIELD("rank", "rank", ID, .value = read_owner_rank),
	FIELD("class", NULL, CHOICE, OWNER(class), .names = class_name),
	FIELD("name", NULL, TEXT, .value = read_name),
	FIELD("line", NULL, TEXT, .value = read_line, .when = has_line, .null = true),
	FIELD(NULL, "bounded by", TEXT, .value = read_bound, FLEXIBLE_COLUMN),
};

static const struct field stay_fields[] = {
	FIELD("start_ns", NULL, NS, STAY(start_ns)),
	FIELD("end_ns", NULL, NS, STAY(end_ns)),
	FIELD("rank", NULL, ID, .value = read_stay_rank),
};

static const struct field fields[] = {
	FIELD("window_ns", NULL, NS, PATH(window_ns)),
	FIELD("collectives", NULL, COUNT, PATH(collectives)),
	FIELD("transfer_ns", NULL, NS, PATH(class_ns[RANK_PATH_TRANSFER])),
	FIELD("unknown_ns", NULL, NS, PATH(class_ns[PATH_UNKNOWN])),
	LIST("ranks", ITEMS(struct rank_path, ranks, rank_count), rank_fields),
	LIST("owners", ITEMS(struct rank_path, owners, owner_count), owner_fields),
	LIST("stays", ITEMS(struct rank_path, stays, stay_count), stay_fields, .all = true),
};

static bool is_shown(const struct report_view *v)
{
	return v->report->options.critical_path && v->report->rank_path->window_ns;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct rank_path *p = v->report->rank_path;

	sentence_add(out, WORDS("of "), DURATION(p->window_ns), WORDS(", through "),
		     COUNTED_AS(p->collectives, "collective"), WORDS(", "),
		     PERCENT(p->class_ns[PATH_UNKNOWN], p->window_ns), WORDS(" unknown"));
}

/* Why there is none, of several ranks. */
static void print_none(const struct report_view *v)
{
	const struct report *r = v->report;

	if (!r->options.critical_path || r->rank_times->count < 2)
		return;
	report_title(v, "critical path over ranks",
		     !r->rank_times->waits_known
			     ? "not known: it is not known which rank waited for which"
			     : "not known: no collective after the start-up has the parts of all "
			       "of its ranks");
}

const struct section section_rank_path = {
	.key = "rank_path",
	.title = "critical path over ranks",
	RESULT(rank_path),
	FIELDS(fields),
	.shown = is_shown,
	.computed = is_shown,
	.remark = add_remark,
	.empty = print_none,
};
