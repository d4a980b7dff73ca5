/*
 * flame_firefox.c: the Firefox Profiler's processed profile format, version 48. Each kind of time
 * is a thread. Its samples are the stacks with self time, weighted in milliseconds (or samples),
 * and its stack table is the flame graph's tree.
 */
#include <string.h>

#include "base/json.h"
#include "export/flame/flame_formats.h"

#define FORMAT_VERSION 48
#define GECKO_VERSION 28

struct firefox {
	const struct flame *flame;
	const struct flame_write *write;
	struct output *out;
	struct strbuf text;
	enum flame_kind kind; /* of the current thread */
	uint32_t first; /* root node of the kind */
	uint64_t time_ns; /* of the samples written so far */
	int r;
};

/* A column of a table: the same text in every row, or a value written by `add`. */
struct column {
	const char *name;
	const char *constant;
	void (*add)(struct firefox *x, uint32_t row);
};

/* Writes a table of the rows in [begin, end) that has_row accepts; NULL accepts all. */
static void add_table(struct firefox *x, const struct column *columns, uint32_t begin, uint32_t end,
		      bool has_row(const struct firefox *x, uint32_t row))
{
	uint64_t rows = 0;

	for (const struct column *c = columns; c->name; c++) {
		strbuf_addf(&x->text, "\"%s\":[", c->name);
		rows = 0;
		for (uint32_t row = begin; row < end && x->r >= 0; row++) {
			if (has_row && !has_row(x, row))
				continue;
			if (rows++)
				strbuf_addc(&x->text, ',');
			if (c->constant)
				strbuf_adds(&x->text, c->constant);
			else
				c->add(x, row);
			x->r = flame_flush(&x->text, x->out, false);
		}
		strbuf_adds(&x->text, "],\n");
	}
	strbuf_addf(&x->text, "\"length\":%llu}", (unsigned long long)rows);
}

static void add_meta(struct firefox *x)
{
	static const char *const colors[FRAME_CLASSES] = {
		[FRAME_NATIVE] = "orange", [FRAME_INLINED] = "lightred", [FRAME_PYTHON] = "yellow",
		[FRAME_SYSTEM] = "brown",  [FRAME_CALL] = "lightblue",   [FRAME_KERNEL] = "green",
		[FRAME_COPY] = "blue",     [FRAME_SET] = "purple",       [FRAME_GRAPH] = "magenta",
		[FRAME_LEVEL] = "grey",    [FRAME_NOTE] = "grey",        [FRAME_CODE] = "blue",
		[FRAME_STALL] = "red",
	};
	const struct trace *t = x->flame->stacks.trace;
	uint64_t start_ns, end_ns;
	int64_t real_ns;

	trace_span(t, &start_ns, &end_ns);
	real_ns = trace_unix_ns(t, start_ns);
	strbuf_addf(&x->text,
		    "{\"meta\":{\"version\":%d,\"preprocessedProfileVersion\":%d,\"interval\":1,"
		    "\"startTime\":%lld,\"processType\":0,\"stackwalk\":1,\"debug\":false,"
		    "\"symbolicated\":true,\"symbolicationNotSupported\":true,\"markerSchema\":[],"
		    "\"importedFrom\":\"pitot " PITOT_VERSION "\",\"product\":",
		    GECKO_VERSION, FORMAT_VERSION, (long long)(real_ns / 1000000));
	json_quote(&x->text, x->write->title, strlen(x->write->title));
	strbuf_adds(&x->text, ",\"categories\":[");
	for (size_t i = 0; i < FRAME_CLASSES; i++)
		strbuf_addf(&x->text,
			    "%s{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"]}",
			    i ? "," : "", frame_class_name((enum frame_class)i), colors[i]);
	strbuf_adds(&x->text, "]},\n\"libs\":[],\"pages\":[],\"counters\":[],\n");
}

static const struct stack_frame *frame_at(const struct firefox *x, uint32_t frame)
{
	return &x->flame->stacks.frames.data[frame];
}

static const struct flame_node *node_at(const struct firefox *x, uint32_t node)
{
	return &x->flame->tree.nodes.data[node];
}

static void add_row(struct firefox *x, uint32_t row)
{
	strbuf_addu(&x->text, row);
}

static void add_or_null(struct firefox *x, uint64_t value)
{
	if (value)
		strbuf_addu(&x->text, value);
	else
		strbuf_adds(&x->text, "null");
}

static void add_frame_category(struct firefox *x, uint32_t frame)
{
	strbuf_addu(&x->text, frame_at(x, frame)->class);
}

static void add_frame_line(struct firefox *x, uint32_t frame)
{
	add_or_null(x, frame_at(x, frame)->line);
}

static void add_function_name(struct firefox *x, uint32_t frame)
{
	strbuf_addu(&x->text, frame_at(x, frame)->name);
}

static void add_function_file(struct firefox *x, uint32_t frame)
{
	add_or_null(x, frame_at(x, frame)->file);
}

static const struct column frame_columns[] = {
	{ "address", .constant = "-1" },
	{ "inlineDepth", .constant = "0" },
	{ "category", .add = add_frame_category },
	{ "subcategory", .constant = "0" },
	{ "func", .add = add_row }, /* one function per frame */
	{ "nativeSymbol", .constant = "null" },
	{ "innerWindowID", .constant = "0" },
	{ "implementation", .constant = "null" },
	{ "line", .add = add_frame_line },
	{ "column", .constant = "null" },
	{ .name = NULL },
};

static const struct column function_columns[] = {
	{ "isJS", .constant = "false" },          { "relevantForJS", .constant = "false" },
	{ "name", .add = add_function_name },     { "resource", .constant = "-1" },
	{ "fileName", .add = add_function_file }, { "lineNumber", .constant = "null" },
	{ "columnNumber", .constant = "null" },   { .name = NULL },
};

static void add_stack_frame(struct firefox *x, uint32_t node)
{
	strbuf_addu(&x->text, node_at(x, node)->frame);
}

/* Stacks are the nodes below the kind's root, counted from there. */
static void add_stack_prefix(struct firefox *x, uint32_t node)
{
	uint32_t parent = node_at(x, node)->parent;

	if (parent == x->first)
		strbuf_adds(&x->text, "null");
	else
		strbuf_addu(&x->text, parent - x->first - 1);
}

static void add_stack_category(struct firefox *x, uint32_t node)
{
	add_frame_category(x, node_at(x, node)->frame);
}

static const struct column stack_columns[] = {
	{ "frame", .add = add_stack_frame },
	{ "prefix", .add = add_stack_prefix },
	{ "category", .add = add_stack_category },
	{ "subcategory", .constant = "0" },
	{ .name = NULL },
};

static bool has_own_time(const struct firefox *x, uint32_t node)
{
	return node_at(x, node)->self_ns || node_at(x, node)->self_count;
}

/* Writes exact milliseconds. */
static void add_ms(struct strbuf *out, uint64_t ns)
{
	strbuf_addf(out, "%llu.%06u", (unsigned long long)(ns / 1000000), (unsigned)(ns % 1000000));
}

static void add_sample_stack(struct firefox *x, uint32_t node)
{
	strbuf_addu(&x->text, node - x->first - 1);
}

static void add_sample_time(struct firefox *x, uint32_t node)
{
	add_ms(&x->text, x->time_ns);
	x->time_ns += node_at(x, node)->self_ns;
}

static void add_sample_weight(struct firefox *x, uint32_t node)
{
	if (flame_kind_unit(x->kind) != FLAME_NS)
		strbuf_addu(&x->text, node_at(x, node)->self_ns);
	else
		add_ms(&x->text, node_at(x, node)->self_ns);
}

static const struct column sample_columns[] = {
	{ "stack", .add = add_sample_stack },
	{ "time", .add = add_sample_time },
	{ "weight", .add = add_sample_weight },
	{ .name = NULL },
};

static void add_thread(struct firefox *x, enum flame_kind kind, bool main)
{
	const struct stacks *s = &x->flame->stacks;
	uint32_t node = x->flame->sections[kind].node;
	uint32_t end = node == FLAME_NONE ? 0 : node_at(x, node)->end;

	x->first = node == FLAME_NONE ? 0 : node;
	x->time_ns = 0;
	x->kind = kind;
	strbuf_addf(
		&x->text,
		"{\"name\":\"%s\",\"processType\":\"default\",\"isMainThread\":%s,\"pid\":\"1\","
		"\"tid\":%d,\"processStartupTime\":0,\"processShutdownTime\":null,"
		"\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\n"
		"\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],"
		"\"phase\":[],\"category\":[],\"length\":0},\n"
		"\"resourceTable\":{\"lib\":[],\"name\":[],\"host\":[],\"type\":[],\"length\":0},\n"
		"\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
		"\"functionSize\":[],\"length\":0},\n\"samples\":{\"weightType\":\"%s\",",
		flame_kind_title(kind), main ? "true" : "false", (int)kind + 1,
		flame_kind_unit(kind) == FLAME_NS ? "tracing-ms" : flame_kind_unit_name(kind));
	add_table(x, sample_columns, x->first + 1, end, has_own_time);
	strbuf_adds(&x->text, ",\n\"frameTable\":{");
	add_table(x, frame_columns, 0, (uint32_t)s->frames.count, NULL);
	strbuf_adds(&x->text, ",\n\"funcTable\":{");
	add_table(x, function_columns, 0, (uint32_t)s->frames.count, NULL);
	strbuf_adds(&x->text, ",\n\"stackTable\":{");
	add_table(x, stack_columns, x->first + 1, end, NULL);
	strbuf_adds(&x->text, ",\n\"stringArray\":[");
	for (size_t i = 0; i < s->texts.count && x->r >= 0; i++) {
		if (i)
			strbuf_addc(&x->text, ',');
		json_quote(&x->text, s->texts.items[i].text, s->texts.items[i].length);
		x->r = flame_flush(&x->text, x->out, false);
	}
	strbuf_adds(&x->text, "]}");
}

int flame_firefox_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct firefox x = { .flame = f, .write = w, .out = out };
	bool any = false;

	add_meta(&x);
	strbuf_adds(&x.text, "\"threads\":[\n");
	for (enum flame_kind kind = 0; kind < FLAME_KINDS && x.r >= 0; kind++) {
		if (!(f->kinds & 1u << kind))
			continue;
		strbuf_adds(&x.text, any ? ",\n" : "");
		add_thread(&x, kind, !any);
		any = true;
	}
	strbuf_adds(&x.text, "]}\n");
	if (x.r >= 0)
		x.r = flame_flush(&x.text, out, true);
	strbuf_release(&x.text);
	return x.r;
}
