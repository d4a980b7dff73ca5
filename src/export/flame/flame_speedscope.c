/*
 * flame_speedscope.c: speedscope's own file format, with a sampled profile for each kind of time
 * and weights in nanoseconds or samples.
 */
#include <string.h>

#include "base/json.h"
#include "export/flame/flame_formats.h"
#include "export/flame/flame_path.h"

struct speedscope {
	const struct flame *flame;
	struct output *out;
	struct strbuf text;
};

static void add_string(struct strbuf *out, const char *text)
{
	json_quote(out, text, strlen(text));
}

static int add_frames(struct speedscope *x)
{
	const struct stacks *s = &x->flame->stacks;
	int r = 0;

	strbuf_adds(&x->text, "\"shared\":{\"frames\":[\n");
	for (size_t i = 0; i < s->frames.count && r >= 0; i++) {
		const struct stack_frame *f = &s->frames.data[i];

		strbuf_adds(&x->text, i ? ",\n{\"name\":" : "{\"name\":");
		add_string(&x->text, stacks_text(s, f->name));
		if (f->file) {
			strbuf_adds(&x->text, ",\"file\":");
			add_string(&x->text, stacks_text(s, f->file));
		}
		if (f->file && f->line)
			strbuf_addf(&x->text, ",\"line\":%u", f->line);
		strbuf_addc(&x->text, '}');
		r = flame_flush(&x->text, x->out, false);
	}
	strbuf_adds(&x->text, "]},\n");
	return r;
}

static void add_stack(struct speedscope *x, const struct flame_path *path)
{
	strbuf_addc(&x->text, '[');
	for (size_t i = 0; i < path->nodes.count; i++) {
		if (i)
			strbuf_addc(&x->text, ',');
		strbuf_addu(&x->text, x->flame->tree.nodes.data[path->nodes.data[i]].frame);
	}
	strbuf_addc(&x->text, ']');
}

static void add_weight(struct speedscope *x, const struct flame_path *path)
{
	strbuf_addu(&x->text, x->flame->tree.nodes.data[path->node - 1].self_ns);
}

/* Writes a list with one item for each node with self time. */
static int add_list(struct speedscope *x, enum flame_kind kind, const char *separator,
		    void add(struct speedscope *, const struct flame_path *))
{
	_cleanup_(flame_path_release) struct flame_path path = flame_path_init(x->flame, kind);
	bool any = false;
	int r = 0;

	while (r >= 0 && flame_path_next(&path)) {
		strbuf_adds(&x->text, any ? separator : "");
		any = true;
		add(x, &path);
		r = flame_flush(&x->text, x->out, false);
	}
	strbuf_addc(&x->text, ']');
	return path.failed ? -ENOMEM : r;
}

static int add_profile(struct speedscope *x, enum flame_kind kind)
{
	static const char *const units[] = { "nanoseconds", "none", "bytes" };
	uint32_t node = x->flame->sections[kind].node;
	uint64_t total = node == FLAME_NONE ? 0 : x->flame->tree.nodes.data[node].total_ns;
	int r;

	strbuf_addf(&x->text,
		    "{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,"
		    "\"endValue\":%llu,\n\"samples\":[\n",
		    flame_kind_title(kind), units[flame_kind_unit(kind)],
		    (unsigned long long)total);
	r = add_list(x, kind, ",\n", add_stack);
	strbuf_adds(&x->text, ",\n\"weights\":[");
	if (r >= 0)
		r = add_list(x, kind, ",", add_weight);
	strbuf_addc(&x->text, '}');
	return r;
}

int flame_speedscope_write(const struct flame *f, const struct flame_write *w, struct output *out)
{
	struct speedscope x = { .flame = f, .out = out };
	bool any = false;
	int r;

	strbuf_adds(&x.text,
		    "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
		    "\"exporter\":\"pitot " PITOT_VERSION "\",\"name\":");
	add_string(&x.text, w->title);
	strbuf_adds(&x.text, ",\"activeProfileIndex\":0,\n");
	r = add_frames(&x);
	strbuf_adds(&x.text, "\"profiles\":[\n");
	for (enum flame_kind kind = 0; kind < FLAME_KINDS && r >= 0; kind++) {
		if (!(f->kinds & 1u << kind))
			continue;
		strbuf_adds(&x.text, any ? ",\n" : "");
		any = true;
		r = add_profile(&x, kind);
	}
	strbuf_adds(&x.text, "]}\n");
	if (r >= 0)
		r = flame_flush(&x.text, out, true);
	strbuf_release(&x.text);
	return r;
}
