#include "export/flame/flame_picture.h"

#include <string.h>

const char *flame_class_word(enum frame_class class)
{
	static const char *const words[FRAME_CLASSES] = {
		[FRAME_NATIVE] = "native", [FRAME_INLINED] = "inlined", [FRAME_PYTHON] = "python",
		[FRAME_SYSTEM] = "system", [FRAME_CALL] = "call",       [FRAME_KERNEL] = "kernel",
		[FRAME_COPY] = "copy",     [FRAME_SET] = "set",         [FRAME_GRAPH] = "graph",
		[FRAME_LEVEL] = "group",   [FRAME_NOTE] = "note",       [FRAME_CODE] = "code",
		[FRAME_STALL] = "stall",
	};

	return words[class];
}

const char *flame_kind_word(enum flame_kind kind)
{
	static const char *const words[FLAME_KINDS] = {
		[FLAME_CPU] = "kind-cpu",       [FLAME_GPU] = "kind-gpu",
		[FLAME_WAIT] = "kind-wait",     [FLAME_LAUNCHES] = "kind-launches",
		[FLAME_OFF_CPU] = "kind-off",   [FLAME_STALLS] = "kind-stalls",
		[FLAME_MEMORY] = "kind-memory",
	};

	return words[kind];
}

int flame_change_step(uint64_t ns, uint64_t before_ns, uint64_t whole_ns)
{
	static const unsigned permille[] = { 2, 10, 30, 80 };
	uint64_t change = ns > before_ns ? ns - before_ns : before_ns - ns;
	int step = change != 0;

	for (size_t i = 0; i < ARRAY_SIZE(permille); i++)
		step += (unsigned __int128)change * 1000 >
			(unsigned __int128)whole_ns * permille[i];
	return ns > before_ns ? step : -step;
}

void flame_section_text(struct strbuf *out, const struct flame *f, enum flame_kind kind)
{
	const struct flame_section *s = &f->sections[kind];
	struct flame_node none = { 0 };
	const struct flame_node *n = s->node == FLAME_NONE ? &none : &f->tree.nodes.data[s->node];

	flame_whole(out, kind, n);
	if (n->total_ns < s->total_ns) {
		strbuf_adds(out, " (of ");
		flame_amount(out, kind, s->total_ns);
		strbuf_adds(out, " total)");
	}
	if (f->diff) {
		strbuf_adds(out, "; before ");
		flame_amount(out, kind, n->before_total_ns);
	}
}
