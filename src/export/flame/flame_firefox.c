/*
 * flame_firefox.c: the Firefox Profiler's processed profile format, version 48. Each kind of time
 * is a thread whose samples are the stacks that took time themselves, weighted with milliseconds;
 * its stack table is the tree.
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
	int r;
};

static void add_string(struct strbuf *out, const char *text, size_t length)
{
	strbuf_addc(out, '"');
	json_escape(out, text, length);
	strbuf_addc(out, '"');
}

/* Columns of tables: "name":[ … ], with a value for each of `count` rows. */
static void begin_column(struct firefox *x, const char *name)
{
	strbuf_addf(&x->text, "\"%s\":[", name);
}

static void end_column(struct firefox *x)
{
	strbuf_adds(&x->text, "],\n");
	if (x->r >= 0)
		x->r = flame_flush(&x->text, x->out, false);
}

static void next_value(struct firefox *x, uint64_t row)
{
	if (row)
		strbuf_addc(&x->text, ',');
	if (x->r >= 0)
		x->r = flame_flush(&x->text, x->out, false);
}

static void add_constant(struct firefox *x, const char *name, const char *value, uint64_t count)
{
	begin_column(x, name);
	for (uint64_t i = 0; i < count && x->r >= 0; i++) {
		next_value(x, i);
		strbuf_adds(&x->text, value);
	}
	end_column(x);
}

static void add_length(struct firefox *x, uint64_t length)
{
	strbuf_addf(&x->text, "\"length\":%llu}", (unsigned long long)length);
}

static void add_meta(struct firefox *x)
{
	static const char *const colors[FRAME_CLASSES] = {
		[FRAME_NATIVE] = "orange", [FRAME_INLINED] = "lightred", [FRAME_PYTHON] = "yellow",
		[FRAME_SYSTEM] = "brown",  [FRAME_CALL] = "lightblue",   [FRAME_KERNEL] = "green",
		[FRAME_COPY] = "blue",     [FRAME_SET] = "purple",       [FRAME_GRAPH] = "magenta",
		[FRAME_LEVEL] = "grey",    [FRAME_NOTE] = "grey",
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
	add_string(&x->text, x->write->title, strlen(x->write->title));
	strbuf_adds(&x->text, ",\"categories\":[");
	for (size_t i = 0; i < FRAME_CLASSES; i++)
		strbuf_addf(&x->text,
			    "%s{\"name\":\"%s\",\"color\":\"%s\",\"subcategories\":[\"Other\"]}",
			    i ? "," : "", frame_class_name((enum frame_class)i), colors[i]);
	strbuf_adds(&x->text, "]},\n\"libs\":[],\"pages\":[],\"counters\":[],\n");
}

/* The frames; a function each, so their columns have equal lengths. */
static void add_frames(struct firefox *x)
{
	const struct stacks *s = &x->flame->stacks;
	size_t count = s->frames.count;

	strbuf_adds(&x->text, "\"frameTable\":{");
	add_constant(x, "address", "-1", count);
	add_constant(x, "inlineDepth", "0", count);
	begin_column(x, "category");
	for (size_t i = 0; i < count && x->r >= 0; i++) {
		next_value(x, i);
		strbuf_addu(&x->text, s->frames.data[i].class);
	}
	end_column(x);
	add_constant(x, "subcategory", "0", count);
	begin_column(x, "func");
	for (size_t i = 0; i < count && x->r >= 0; i++) {
		next_value(x, i);
		strbuf_addu(&x->text, i);
	}
	end_column(x);
	add_constant(x, "nativeSymbol", "null", count);
	add_constant(x, "innerWindowID", "0", count);
	add_constant(x, "implementation", "null", count);
	begin_column(x, "line");
	for (size_t i = 0; i < count && x->r >= 0; i++) {
		next_value(x, i);
		if (s->frames.data[i].line)
			strbuf_addu(&x->text, s->frames.data[i].line);
		else
			strbuf_adds(&x->text, "null");
	}
	end_column(x);
	add_constant(x, "column", "null", count);
	add_length(x, count);
}

static void add_functions(struct firefox *x)
{
	const struct stacks *s = &x->flame->stacks;
	size_t count = s->frames.count;

	strbuf_adds(&x->text, ",\n\"funcTable\":{");
	add_constant(x, "isJS", "false", count);
	add_constant(x, "relevantForJS", "false", count);
	begin_column(x, "name");
	for (size_t i = 0; i < count && x->r >= 0; i++) {
		next_value(x, i);
		strbuf_addu(&x->text, s->frames.data[i].name);
	}
	end_column(x);
	add_constant(x, "resource", "-1", count);
	begin_column(x, "fileName");
	for (size_t i = 0; i < count && x->r >= 0; i++) {
		next_value(x, i);
		if (s->frames.data[i].file)
			strbuf_addu(&x->text, s->frames.data[i].file);
		else
			strbuf_adds(&x->text, "null");
	}
	end_column(x);
	add_constant(x, "lineNumber", "null", count);
	add_constant(x, "columnNumber", "null", count);
	add_length(x, count);
}

/* The nodes below the kind's own one. */
static void add_stacks(struct firefox *x, uint32_t first, uint32_t end)
{
	const struct flame_node *nodes = x->flame->tree.nodes.data;
	const struct stack_frame *frames = x->flame->stacks.frames.data;
	uint32_t below = first + 1;

	strbuf_adds(&x->text, ",\n\"stackTable\":{");
	begin_column(x, "frame");
	for (uint32_t i = below; i < end && x->r >= 0; i++) {
		next_value(x, i - below);
		strbuf_addu(&x->text, nodes[i].frame);
	}
	end_column(x);
	begin_column(x, "prefix");
	for (uint32_t i = below; i < end && x->r >= 0; i++) {
		next_value(x, i - below);
		if (nodes[i].parent == first)
			strbuf_adds(&x->text, "null");
		else
			strbuf_addu(&x->text, nodes[i].parent - below);
	}
	end_column(x);
	begin_column(x, "category");
	for (uint32_t i = below; i < end && x->r >= 0; i++) {
		next_value(x, i - below);
		strbuf_addu(&x->text, frames[nodes[i].frame].class);
	}
	end_column(x);
	add_constant(x, "subcategory", "0", end > below ? end - below : 0);
	add_length(x, end > below ? end - below : 0);
}

/* Milliseconds, exactly. */
static void add_ms(struct strbuf *out, uint64_t ns)
{
	strbuf_addf(out, "%llu.%06u", (unsigned long long)(ns / 1000000), (unsigned)(ns % 1000000));
}

enum sample_column { SAMPLE_STACK, SAMPLE_TIME, SAMPLE_WEIGHT };

static uint64_t add_samples(struct firefox *x, uint32_t first, uint32_t end,
			    enum sample_column column, const char *name)
{
	const struct flame_node *nodes = x->flame->tree.nodes.data;
	uint64_t rows = 0, time_ns = 0;

	begin_column(x, name);
	for (uint32_t i = first + 1; i < end && x->r >= 0; i++) {
		if (!nodes[i].self_ns && !nodes[i].self_count)
			continue;
		next_value(x, rows++);
		if (column == SAMPLE_STACK)
			strbuf_addu(&x->text, i - first - 1);
		else
			add_ms(&x->text, column == SAMPLE_TIME ? time_ns : nodes[i].self_ns);
		time_ns += nodes[i].self_ns;
	}
	end_column(x);
	return rows;
}

static void add_thread(struct firefox *x, enum flame_kind kind, bool main)
{
	const struct stacks *s = &x->flame->stacks;
	uint32_t node = x->flame->sections[kind].node, first = node == FLAME_NONE ? 0 : node;
	uint32_t end = node == FLAME_NONE ? 0 : x->flame->tree.nodes.data[node].end;
	uint64_t rows;

	strbuf_addf(
		&x->text,
		"{\"name\":\"%s\",\"processType\":\"default\",\"isMainThread\":%s,\"pid\":\"1\","
		"\"tid\":%d,\"processStartupTime\":0,\"processShutdownTime\":null,"
		"\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],\n"
		"\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],"
		"\"phase\":[],\"category\":[],\"length\":0},\n"
		"\"resourceTable\":{\"lib\":[],\"name\":[],\"host\":[],\"type\":[],\"length\":0},\n"
		"\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
		"\"functionSize\":[],\"length\":0},\n\"samples\":{\"weightType\":\"tracing-ms\",",
		flame_kind_title(kind), main ? "true" : "false", (int)kind + 1);
	add_samples(x, first, end, SAMPLE_STACK, "stack");
	add_samples(x, first, end, SAMPLE_TIME, "time");
	rows = add_samples(x, first, end, SAMPLE_WEIGHT, "weight");
	add_length(x, rows);
	strbuf_adds(&x->text, ",\n");
	add_frames(x);
	add_functions(x);
	add_stacks(x, first, end);
	strbuf_adds(&x->text, ",\n\"stringArray\":[");
	for (size_t i = 0; i < s->texts.count && x->r >= 0; i++) {
		next_value(x, i);
		add_string(&x->text, s->texts.items[i].text, s->texts.items[i].length);
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
