#include "cli/flame_print.h"

#include "base/human.h"
#include "base/json.h"
#include "cli/ui.h"

/* "total_ns", "total_samples" */
static void add_amount(struct json *j, enum flame_kind kind, const char *what, uint64_t ns)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;

	strbuf_addf(&key, "%s_%s", what, flame_kind_unit_name(kind));
	j->out->failed |= key.failed;
	json_key_u64(j, strbuf_text(&key), ns);
}

static void add_node(struct json *j, const struct flame *f, enum flame_kind kind, uint32_t i)
{
	const struct flame_node *n = &f->tree.nodes.data[i];
	uint32_t first = f->sections[kind].node;

	json_object(j);
	json_key_u64(j, "id", i - first);
	json_key_known(j, "parent", i != first, n->parent - first);
	json_key_string(j, "name", flame_name(f, i));
	json_key_string(j, "class", frame_class_name((enum frame_class)flame_frame(f, i)->class));
	add_amount(j, kind, "self", n->self_ns);
	add_amount(j, kind, "total", n->total_ns);
	json_key_u64(j, "count", n->total_count);
	if (f->diff)
		add_amount(j, kind, "before_total", n->before_total_ns);
	json_end(j);
}

static void add_section(struct json *j, const struct flame *f, enum flame_kind kind)
{
	const struct flame_section *s = &f->sections[kind];

	json_object(j);
	json_key_string(j, "name", flame_kind_frame(kind));
	add_amount(j, kind, "total", s->total_ns);
	json_key_u64(j, "count", s->count);
	if (flame_kind_attribution(kind))
		json_key_string(j, "attribution", flame_kind_attribution(kind));
	if (kind == FLAME_MEMORY) {
		json_key_u64(j, "without_stack", s->stackless);
	} else if (kind == FLAME_STALLS) {
		json_key_u64(j, "unmatched", s->unmatched);
	} else if (flame_kind_is_sampled(kind)) {
		json_key_u64(j, "without_stack", s->stackless);
	} else {
		json_key_u64(j, "untimed", s->untimed);
		json_key_u64(j, "unmatched", s->unmatched);
		json_key_u64(j, "unmatched_ns", s->unmatched_ns);
	}
	json_key_array(j, "nodes");
	for (uint32_t i = s->node; i != FLAME_NONE && i < f->tree.nodes.data[s->node].end; i++)
		add_node(j, f, kind, i);
	json_end(j);
	json_end(j);
}

void flame_print_json(const struct flame *f, struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	json_key_array(&j, "sections");
	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++)
		if (f->kinds & 1u << kind)
			add_section(&j, f, kind);
	json_finish(&j);
}

static void add_missing_cpu(const struct trace *t, const struct capability_note *cpu, bool wanted,
			    struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf reason = STRBUF_INIT;

	if (!wanted && !cpu->known)
		return;
	strbuf_addf(out, "%sno CPU samples", out->length ? "; " : "");
	capability_no_samples(t, cpu, &reason);
	if (reason.length)
		strbuf_addf(out, ": %s", strbuf_text(&reason));
	else if (!cpu->known)
		strbuf_adds(out, " were recorded: `pitot record --cpu` takes them");
}

/* Whether a filter has removed all stacks. */
static bool is_filtered_away(const struct flame *f)
{
	uint64_t all = 0, left = 0;

	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++) {
		const struct flame_section *s = &f->sections[kind];

		all += s->total_ns;
		left += s->node == FLAME_NONE ? 0 : f->tree.nodes.data[s->node].total_ns;
	}
	return all && !left;
}

void flame_print_gaps(const struct flame *f, const struct capability_note *cpu, bool cpu_wanted,
		      struct strbuf *out)
{
	const struct flame_section *gpu = &f->sections[FLAME_GPU];
	uint64_t samples = f->sections[FLAME_CPU].stackless,
		 pauses = f->sections[FLAME_OFF_CPU].stackless;
	bool empty = is_filtered_away(f);

	if (gpu->untimed)
		cli_add_count(out, "; ", gpu->untimed, "operation without times is left out",
			      "operations without times are left out");
	if (gpu->unmatched) {
		cli_add_count(out, "; ", gpu->unmatched, "operation (", "operations (");
		human_duration(out, gpu->unmatched_ns);
		strbuf_adds(out, ") without a recorded launch");
	}
	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++)
		if (f->sections[kind].total_ns && flame_kind_attribution(kind))
			strbuf_addf(out, "%s%s", out->length ? "; " : "",
				    flame_kind_attribution(kind));
	if (f->sections[FLAME_STALLS].unmatched)
		cli_add_count(out, "; ", f->sections[FLAME_STALLS].unmatched,
			      "sample of a kernel without a recorded launch",
			      "samples of kernels without a recorded launch");
	if (gpu->uncaptured)
		cli_add_count(
			out, "; ", gpu->uncaptured,
			"operation of a graph stands below its launch: what captured it was not "
			"recorded",
			"operations of graphs stand below their launches: what captured them was "
			"not "
			"recorded");
	if (f->calls && !f->calls_with_stack && !empty)
		strbuf_addf(out,
			    "%sno call stacks were recorded: calls are shown under their threads",
			    out->length ? "; " : "");
	if (samples && !empty)
		cli_add_count(out, "; ", samples,
			      "CPU sample without a stack, shown under its thread",
			      "CPU samples without a stack, shown under their threads");
	if (pauses && !empty)
		cli_add_count(out, "; ", pauses,
			      "interval off the CPU without a stack, shown under its thread",
			      "intervals off the CPU without a stack, shown under their threads");
	if (empty)
		strbuf_addf(out, "%s--focus and --ignore leave no stack", out->length ? "; " : "");
	if (cpu && !(flame_kinds_recorded(f->stacks.trace) & 1u << FLAME_CPU))
		add_missing_cpu(f->stacks.trace, cpu, cpu_wanted, out);
}

bool flame_print_empty(const struct flame *f, bool narrowed, struct strbuf *out)
{
	unsigned others = flame_kinds_recorded(f->stacks.trace) & ~f->kinds;
	const char *separator = "",
		   *why = capability_engine_refusal(f->stacks.trace, "pc-sampling");

	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++)
		if (f->kinds & 1u << kind && f->sections[kind].node != FLAME_NONE)
			return false;
	if (is_filtered_away(f))
		return true; /* flame_print_gaps prints a note about it */
	strbuf_adds(out, narrowed ? "no " : "the recording has no ");
	for (enum flame_kind kind = 0; kind < FLAME_KINDS; kind++) {
		if (!(f->kinds & 1u << kind))
			continue;
		strbuf_addf(out, "%s%s", separator, flame_kind_title(kind));
		separator = " and no ";
	}
	if (!narrowed && f->kinds == 1u << FLAME_STALLS && *why)
		strbuf_addf(out, ": %s", why);
	else if (!narrowed && f->kinds == 1u << FLAME_MEMORY)
		strbuf_adds(out, ": `pitot record --memory` records it");
	else if (!narrowed && f->kinds == 1u << FLAME_STALLS)
		strbuf_adds(out, ": `pitot record --engine pc-sampling` takes them");
	else if (narrowed)
		strbuf_adds(out, " within --since, --until and --where");
	else if (others & (1u << FLAME_CPU | 1u << FLAME_OFF_CPU))
		strbuf_adds(out, "; it has CPU samples: `pitot flame --mode cpu`");
	else if (others & 1u << FLAME_GPU)
		strbuf_adds(out, "; it has GPU work: `pitot flame --mode gpu`");
	else
		strbuf_adds(out, "; `pitot report` says why");
	return true;
}
