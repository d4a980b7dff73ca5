/* section_collectives.c: collectives by function, size and communicator. */
#include "report/section.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/collective_groups.h"
#include "analysis/collectives.h"

static const char *function_name(unsigned function)
{
	return schema_value_name(
		&schema_table(TABLE_collective)->columns[COLUMN_collective_function], function);
}

static void read_communicator(const struct report_view *v, const void *row, struct value *out)
{
	const struct collective_group *g = row;

	if (g->name && *trace_string(v->report->trace, g->name))
		text_safe(&out->text, trace_string(v->report->trace, g->name),
			  trace_string_length(v->report->trace, g->name));
	else if (g->inferred)
		strbuf_addf(&out->text, "stream %" PRIu64 " (inferred)", g->communicator + 1);
	else
		strbuf_addf(&out->text, "%016" PRIx64, g->communicator);
}

#define GROUP(member) MEMBER(struct collective_group, member)

ROW_READ(read_last, struct collective_group,
	 out->n = v->report->collectives->ranks[row->last].number)
ROW_IF(has_last, struct collective_group, row->last_count)
ROW_IF(has_bytes, struct collective_group, row->bytes)
ROW_IF(is_compared, struct collective_group, row->compared)
/* When a kernel of one host ran by the clock of another one. */
ROW_IF(is_aligned, struct collective_group,
       row->compared && v->report->collectives->uncertainty_ns != UINT64_MAX)
ROW_IF(has_rate, struct collective_group, is_aligned(v, row) && row->bytes)
ROW_IF(has_link, struct collective_group, row->link_bytes_per_s)
ROW_IF(has_share, struct collective_group,
       has_rate(v, row) && row->transfer_ns && row->link_bytes_per_s)

/* Bus bandwidth as a part of the link's. */
static void read_link_share(const struct report_view *v, const void *row, struct value *out)
{
	const struct collective_group *g = row;
	double percent =
		1e11 * (double)g->bus_bytes / (double)g->transfer_ns / (double)g->link_bytes_per_s;

	(void)v;
	memcpy(&out->n, &percent, sizeof(percent));
}

/* The column is there if links are known. */
static const char *link_head(const struct report_view *v)
{
	const struct collective_groups *c = v->report->collective_groups;

	for (size_t i = 0; i < c->count; i++)
		if (has_share(v, &c->items[i]))
			return "of link";
	return NULL;
}

#define IF_COMPARED .when = is_compared, .null = true
#define IF_ALIGNED .when = is_aligned, .null = true

static const struct field group_fields[] = {
	FIELD("function", "function", CHOICE, GROUP(function), .names = function_name, LEFT_COLUMN),
	FIELD("ranks", "ranks", COUNT, GROUP(ranks)),
	FIELD("count", "count", COUNT, GROUP(count)),
	FIELD("compared", NULL, COUNT, GROUP(compared)),
	FIELD(NULL, "mean size", BYTES, GROUP(bytes), PER(struct collective_group, compared),
	      COUNTED(struct collective_group, bytes)),
	FIELD("bytes", NULL, BYTES, GROUP(bytes), .when = has_bytes, .null = true),
	FIELD("kernel_ns", NULL, NS, GROUP(kernel_ns), IF_COMPARED),
	FIELD(NULL, "transfer", NS, GROUP(transfer_ns), PER(struct collective_group, compared),
	      IF_ALIGNED),
	FIELD("transfer_ns", NULL, NS, GROUP(transfer_ns), IF_ALIGNED),
	FIELD(NULL, "bus", RATE, GROUP(bus_bytes), PER(struct collective_group, transfer_ns),
	      .when = has_rate, .null = true),
	{
		.head_of = link_head,
		.unit = UNIT_PERCENT,
		.value = read_link_share,
		.when = has_share,
		.null = true,
	},
	FIELD("link_bytes_per_s", NULL, COUNT, GROUP(link_bytes_per_s), .when = has_link,
	      .null = true),
	FIELD("bus_bytes", NULL, BYTES, GROUP(bus_bytes), .when = has_bytes, .null = true),
	FIELD(NULL, "skew", NS, GROUP(skew_ns), PER(struct collective_group, compared), IF_ALIGNED),
	FIELD("skew_ns", NULL, NS, GROUP(skew_ns), IF_ALIGNED),
	FIELD("max_skew_ns", "longest", NS, GROUP(max_skew_ns), IF_ALIGNED),
	FIELD("last_rank", "last", ID, .value = read_last, .when = has_last, .null = true),
	FIELD("last_count", "times", COUNT, GROUP(last_count), IF_ALIGNED),
	FIELD("caller", "line", LINE, GROUP(caller), .layout = LAYOUT_OPTIONAL_LEFT),
	FIELD("communicator", "communicator", TEXT, .value = read_communicator, FLEXIBLE_COLUMN),
};

static const struct field fields[] = {
	LIST("collectives", ITEMS(struct collective_groups, items, count), group_fields),
};

static bool shown(const struct report_view *v)
{
	return v->report->options.collectives && v->report->collective_groups->count;
}

static void print_none(const struct report_view *v)
{
	if (v->report->options.collectives)
		report_title(v, "collectives",
			     "none in the window; those of NCCL 2.27 and newer are recorded");
}

const struct section section_collectives = {
	.title = "collectives",
	RESULT(collective_groups),
	FIELDS(fields),
	.shown = shown,
	.empty = print_none,
};
