/*
 * perfetto_sink_stacks.c: call stacks of calls, and CPU samples, row by row. Native functions are
 * not symbolized inside the program. Such a frame has its file, build id and address, from which
 * readers find its name.
 */
#include <errno.h>

#include "names/module_name.h"
#include "perfetto/perfetto_sink_state.h"
#include "schema/event_words.h"

#define DEPTH_MAX 2048u /* of a stack: packets must fit into the service's buffer */

/* --- parts --- */

/* Returns the iid of a hash in a field of interned data; *is_new: it must be defined. */
static uint64_t intern_part(struct perfetto_live *p, struct live_track *track, uint32_t field,
			    uint64_t hash, bool *is_new)
{
	size_t known = track->defined.parts.count;
	uint64_t iid = map_number(&track->defined.parts, (uint64_t)field << 56 | hash >> 8);

	*is_new = track->defined.parts.count > known;
	p->out.failed |= !iid;
	return iid;
}

/* Returns 0 for "". */
static uint64_t intern_text(struct perfetto_live *p, struct live_track *track, uint32_t field,
			    const char *text)
{
	size_t length = strlen(text);
	bool is_new = false;
	uint64_t iid = length ? intern_part(p, track, field, hash_bytes(text, length), &is_new) : 0;

	if (is_new)
		perfetto_intern_name(&p->out, field, iid, text, length);
	return iid;
}

/* Returns the module last mapped at the address, or NULL. */
static const struct row_module *find_module(const struct perfetto_live *p, uint64_t address)
{
	for (size_t i = p->modules.count; i-- > 0;) {
		const struct row_module *m = &p->modules.data[i];

		if (address >= m->start_address && address < m->end_address)
			return m;
	}
	return NULL;
}

static uint64_t intern_mapping(struct perfetto_live *p, struct live_track *track,
			       const struct row_module *m, const char *other)
{
	struct perfetto_mapping mapping = { .path = other, .build_id = "" };
	uint64_t key = m ? m->start_address : 0, iid;
	bool is_new;

	if (m)
		mapping = (struct perfetto_mapping){ .path = live_text(p, m->path),
						     .build_id = live_text(p, m->build_id),
						     .start = m->start_address,
						     .end = m->end_address,
						     .offset = m->file_offset,
						     .bias = m->load_bias };
	key = hash_u64(key ^ hash_bytes(mapping.path, strlen(mapping.path)));
	iid = intern_part(p, track, DATA_MAPPINGS, key, &is_new);
	if (is_new)
		perfetto_intern_mapping(&p->out, iid, &mapping);
	return iid;
}

/* --- frames --- */

static void describe_python(struct perfetto_live *p, struct live_track *track,
			    const struct row_stack_node *node, struct perfetto_frame *frame)
{
	bool is_unknown = node->missing >> COLUMN_stack_node_function & 1;
	const char *function = is_unknown ? "?" : live_text(p, node->function);
	const char *file = is_unknown ? "" : live_text(p, node->file);

	strbuf_clear(&p->text);
	if (*file)
		perfetto_python_name(&p->text, function, file);
	else
		strbuf_adds(&p->text, function);
	frame->name = intern_text(p, track, DATA_FUNCTION_NAMES, strbuf_text(&p->text));
	frame->mapping = intern_mapping(p, track, NULL, "[python]");
	frame->source = intern_text(p, track, DATA_SOURCE_PATHS, file);
	frame->line = node->missing >> COLUMN_stack_node_line & 1 ? 0 : node->line;
	frame->kind = KIND_INTERPRETED;
}

/* Names the frame like an export without symbols. */
static void describe_native(struct perfetto_live *p, struct live_track *track,
			    const struct row_stack_node *node, struct perfetto_frame *frame)
{
	const struct row_module *m = find_module(p, node->address);

	frame->address = node->address - (m ? m->load_bias : 0);
	frame->kind = KIND_NATIVE;
	strbuf_clear(&p->text);
	if (m) {
		module_name(live_text(p, m->path), &p->text);
		strbuf_addf(&p->text, "+0x%llx", (unsigned long long)frame->address);
	} else {
		strbuf_adds(&p->text, "[unknown]");
	}
	frame->name = intern_text(p, track, DATA_FUNCTION_NAMES, strbuf_text(&p->text));
	frame->mapping = intern_mapping(p, track, m, "[unknown]");
}

static uint64_t intern_frame(struct perfetto_live *p, struct live_track *track,
			     const struct row_stack_node *node)
{
	uint64_t key = hash_u64(node->address ^ (uint64_t)node->kind << 62), iid;
	struct perfetto_frame frame = { 0 };
	bool is_new;

	iid = intern_part(p, track, DATA_FRAMES, hash_u64(key ^ node->line), &is_new);
	if (!is_new)
		return iid;
	raw_reserve(&p->out, 0);
	if (node->kind == frame_kind_python)
		describe_python(p, track, node, &frame);
	else
		describe_native(p, track, node, &frame);
	perfetto_intern_frame(&p->out, iid, &frame);
	return iid;
}

static uint64_t intern_note(struct perfetto_live *p, struct live_track *track, const char *note)
{
	struct perfetto_frame frame = {
		.name = intern_text(p, track, DATA_FUNCTION_NAMES, note),
		.mapping = intern_mapping(p, track, NULL, "[unknown]"),
	};
	bool is_new;
	uint64_t iid = intern_part(p, track, DATA_FRAMES, hash_bytes(note, strlen(note)), &is_new);

	if (is_new)
		perfetto_intern_frame(&p->out, iid, &frame);
	return iid;
}

/* --- stacks --- */

static bool is_vendor(const struct perfetto_live *p, const struct row_stack_node *node)
{
	const struct row_module *m =
		node->kind == frame_kind_python ? NULL : find_module(p, node->address);

	return m && is_vendor_module(live_text(p, m->path));
}

/*
 * Finds the nodes and the note of a stack. of_call: excludes the frames of CUDA's libraries below
 * the program's own call.
 */
static int find_nodes(struct perfetto_live *p, uint32_t id, bool of_call)
{
	const struct row_stack *stack = definitions_row(&p->definitions, TABLE_stack, id);
	uint32_t next = stack ? stack->node : 0;

	p->frames.count = 0;
	p->note = stack ? stack_end_note(stack->end) : "";
	while (next && p->frames.count < DEPTH_MAX) {
		const struct row_stack_node *node =
			definitions_row(&p->definitions, TABLE_stack_node, next);

		if (!node)
			break;
		of_call = of_call && is_vendor(p, node);
		if (!of_call && vec_push(&p->frames, node) < 0)
			return -ENOMEM;
		next = node->parent;
	}
	if (p->frames.count == DEPTH_MAX && next)
		p->note = stack_end_note(stack_end_depth);
	return 0;
}

int live_call_stack(struct perfetto_live *p, struct live_track *track, uint32_t stack,
		    uint64_t *iid, bool *is_new)
{
	uint64_t *known;

	*iid = 0;
	*is_new = false;
	if (!definitions_row(&p->definitions, TABLE_stack, stack))
		return 0;
	known = map_at(&track->defined.stacks, stack, 0);
	if (!known)
		return -ENOMEM;
	if (!*known && find_nodes(p, stack, true) < 0)
		return -ENOMEM;
	if (!*known) {
		*is_new = p->frames.count > 0;
		*known = *is_new ? 1 : 2;
	}
	*iid = *known == 1 ? stack : 0;
	return 0;
}

void live_define_stack(struct perfetto_live *p, struct live_track *track, uint64_t iid)
{
	uint64_t note = *p->note ? intern_note(p, track, p->note) : 0;
	size_t token;

	for (size_t i = p->frames.count; i-- > 0;)
		intern_frame(p, track, p->frames.data[i]);
	raw_reserve(&p->out, (p->frames.count + 1) * PROTO_FIELD_MAX);
	token = proto_open(&p->out, DATA_CALLSTACKS);
	proto_uint(&p->out, 1, iid);
	if (note)
		proto_uint(&p->out, 2, note);
	for (size_t i = p->frames.count; i-- > 0;)
		proto_uint(&p->out, 2, intern_frame(p, track, p->frames.data[i]));
	proto_close(&p->out, token);
}

/* --- samples --- */

static int write_sample(struct perfetto_live *p, const struct row_cpu_sample *row)
{
	struct live_track *track = live_track(p, LIVE_SAMPLES, 0, 0);
	uint32_t stack = row->missing >> COLUMN_cpu_sample_stack & 1 ? 0 : row->stack;
	struct perfetto_sample sample = {
		.stack_iid = stack + UINT64_C(1),
		.weight_ns = row->weight_ns,
		.pid = p->pid,
		.thread = row->thread,
		.cpu = row->missing >> COLUMN_cpu_sample_cpu & 1 ? -1 : (int32_t)row->cpu,
	};
	int is_new = track ? map_add(&track->defined.stacks, sample.stack_iid) : -ENOMEM;
	size_t packet, data, defaults;

	if (is_new < 0 || (is_new && find_nodes(p, stack, false) < 0))
		return -ENOMEM;
	if (is_new && !p->frames.count)
		p->note = NO_STACK;
	p->time_ns = row->time_ns;
	if (map_add(&track->defined.parts, row->thread) > 0) {
		live_describe_thread(p, track, row->thread);
		track->described = 1;
	}
	packet = perfetto_sequence_open(&p->out, &track->slices.sequence, row->time_ns, &defaults);
	if (defaults)
		perfetto_sample_defaults(&p->out, defaults, false);
	if (is_new) {
		data = proto_open(&p->out, PACKET_INTERNED_DATA);
		live_define_stack(p, track, sample.stack_iid);
		proto_close(&p->out, data);
	}
	perfetto_sample_write(&p->out, &sample);
	proto_close(&p->out, packet);
	return 0;
}

int live_sample(struct perfetto_live *p, const struct row_cpu_sample *row)
{
	return p->samples.count < LIVE_SAMPLES_MAX ? vec_push(&p->samples, *row) : -ENOMEM;
}

void live_samples_flush(struct perfetto_live *p)
{
	for (size_t i = 0; i < p->samples.count; i++) {
		raw_reserve(&p->out, 0);
		if (write_sample(p, &p->samples.data[i]) < 0)
			live_discard(p);
		else
			live_emit(p);
	}
	p->samples.count = 0;
}
