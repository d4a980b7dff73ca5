/*
 * perfetto_sink_stacks.c: call stacks of calls, CPU samples and times off the CPU. Native functions
 * are not symbolized inside the program. Such a frame has its file, build id and address, from
 * which readers find its name. An export has the names (struct perfetto_export).
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
	p->out->failed |= !iid;
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
		perfetto_intern_name(p->out, field, iid, text, length);
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
			       const struct perfetto_mapping *m)
{
	uint64_t key = hash_u64(m->start ^ hash_bytes(m->path, strlen(m->path)));
	bool is_new;
	uint64_t iid = intern_part(p, track, DATA_MAPPINGS, key, &is_new);

	if (is_new)
		perfetto_intern_mapping(p->out, iid, m);
	return iid;
}

/* --- frames of a live trace: pointers to rows of stack_node, or to notes --- */

#define NOTE (UINT64_C(1) << 63)

static void describe_python(struct perfetto_live *p, const struct row_stack_node *node,
			    struct perfetto_frame_text *f)
{
	bool is_unknown = node->missing >> COLUMN_stack_node_function & 1;

	f->function = is_unknown ? "?" : live_text(p, node->function);
	f->source = is_unknown ? "" : live_text(p, node->file);
	f->mapping.path = "[python]";
	f->line = node->missing >> COLUMN_stack_node_line & 1 ? 0 : node->line;
	f->kind = KIND_INTERPRETED;
}

/* Names the frame like an export without symbols. */
static void describe_native(struct perfetto_live *p, const struct row_stack_node *node,
			    struct perfetto_frame_text *f)
{
	const struct row_module *m = find_module(p, node->address);

	f->address = node->address - (m ? m->load_bias : 0);
	f->kind = KIND_NATIVE;
	f->function = "[unknown]";
	if (!m)
		return;
	strbuf_clear(&p->text);
	module_name(live_text(p, m->path), &p->text);
	strbuf_addf(&p->text, "+0x%llx", (unsigned long long)f->address);
	f->function = strbuf_text(&p->text);
	f->mapping = (struct perfetto_mapping){ .path = live_text(p, m->path),
						.build_id = live_text(p, m->build_id),
						.start = m->start_address,
						.end = m->end_address,
						.offset = m->file_offset,
						.bias = m->load_bias };
}

static uint64_t frame_key(uint64_t frame)
{
	const char *note = (const char *)(uintptr_t)(frame & ~NOTE);
	const struct row_stack_node *node = (const void *)note;

	if (frame & NOTE)
		return hash_bytes(note, strlen(note));
	return hash_u64(hash_u64(node->address ^ (uint64_t)node->kind << 62) ^ node->line);
}

static void describe_frame(struct perfetto_live *p, uint64_t frame, struct perfetto_frame_text *f)
{
	const char *note = (const char *)(uintptr_t)(frame & ~NOTE);
	const struct row_stack_node *node = (const void *)note;

	f->mapping.path = "[unknown]";
	if (frame & NOTE)
		f->function = note;
	else if (node->kind == frame_kind_python)
		describe_python(p, node, f);
	else
		describe_native(p, node, f);
}

static bool is_vendor(const struct perfetto_live *p, const struct row_stack_node *node)
{
	const struct row_module *m =
		node->kind == frame_kind_python ? NULL : find_module(p, node->address);

	return m && is_vendor_module(live_text(p, m->path));
}

static int add_note(struct perfetto_live *p, const char *note)
{
	return vec_push(&p->frames.items, NOTE | (uint64_t)(uintptr_t)note);
}

static int find_nodes(struct perfetto_live *p, uint32_t id, bool of_call)
{
	const struct row_stack *stack = definitions_row(&p->definitions, TABLE_stack, id);
	const char *note = stack ? stack_end_note(stack->end) : "";
	uint32_t next = stack ? stack->node : 0;
	uint64_t *frames;
	size_t count;

	while (next && p->frames.items.count < DEPTH_MAX) {
		const struct row_stack_node *node =
			definitions_row(&p->definitions, TABLE_stack_node, next);

		if (!node)
			break;
		of_call = of_call && is_vendor(p, node);
		if (!of_call && vec_push(&p->frames.items, (uint64_t)(uintptr_t)node) < 0)
			return -ENOMEM;
		next = node->parent;
	}
	count = p->frames.items.count;
	if (count == DEPTH_MAX && next)
		note = stack_end_note(stack_end_depth);
	if (count && *note && add_note(p, note) < 0)
		return -ENOMEM;
	count = p->frames.items.count;
	frames = p->frames.items.data;
	for (size_t i = 0; i < count / 2; i++) {
		uint64_t outer = frames[count - 1 - i];

		frames[count - 1 - i] = frames[i];
		frames[i] = outer;
	}
	return 0;
}

/* --- stacks --- */

/* Finds the frames of a stack; none if it is not known. */
static int find_frames(struct perfetto_live *p, uint32_t stack, bool of_call)
{
	p->frames.items.count = 0;
	return p->export ? p->export->find_stack(p->export->user, stack, of_call, &p->frames)
			 : find_nodes(p, stack, of_call);
}

static uint64_t intern_function(struct perfetto_live *p, struct live_track *track,
				const struct perfetto_frame_text *f)
{
	if (f->kind != KIND_INTERPRETED || !*f->source)
		return intern_text(p, track, DATA_FUNCTION_NAMES, f->function);
	strbuf_clear(&p->text);
	perfetto_python_name(&p->text, f->function, f->source);
	return intern_text(p, track, DATA_FUNCTION_NAMES, strbuf_text(&p->text));
}

static uint64_t intern_frame(struct perfetto_live *p, struct live_track *track, uint64_t number)
{
	struct perfetto_frame_text text = { .source = "", .mapping.build_id = "" };
	struct perfetto_frame frame;
	bool is_note = number & NOTE, is_new;
	uint64_t key = p->export && !is_note ? hash_u64(number) : frame_key(number);
	uint64_t iid = intern_part(p, track, DATA_FRAMES, key, &is_new);

	if (!is_new)
		return iid;
	raw_reserve(p->out, 0);
	if (p->export && !is_note)
		p->export->describe_frame(p->export->user, number, &text);
	else
		describe_frame(p, number, &text);
	frame.name = intern_function(p, track, &text);
	frame.mapping = intern_mapping(p, track, &text.mapping);
	frame.source = intern_text(p, track, DATA_SOURCE_PATHS, text.source);
	frame.address = text.address;
	frame.line = text.line;
	frame.kind = text.kind;
	perfetto_intern_frame(p->out, iid, &frame);
	return iid;
}

int live_call_stack(struct perfetto_live *p, struct live_track *track, uint32_t stack,
		    uint64_t *iid, bool *is_new)
{
	uint64_t *known;

	*iid = 0;
	*is_new = false;
	if (!stack || (!p->export && !definitions_row(&p->definitions, TABLE_stack, stack)))
		return 0;
	known = map_at(&track->defined.stacks, stack, 0);
	if (!known || (!*known && find_frames(p, stack, true) < 0))
		return -ENOMEM;
	if (!*known) {
		*is_new = p->frames.items.count > 0;
		*known = *is_new ? 1 : 2;
	}
	*iid = *known == 1 ? stack : 0;
	return 0;
}

void live_define_stack(struct perfetto_live *p, struct live_track *track, uint64_t iid)
{
	size_t count = p->frames.items.count, token;
	uint64_t *frames = p->frames.items.data;

	for (size_t i = 0; i < count; i++)
		frames[i] = intern_frame(p, track, frames[i]);
	raw_reserve(p->out, count * PROTO_FIELD_MAX);
	token = proto_open(p->out, DATA_CALLSTACKS);
	proto_uint(p->out, 1, iid);
	for (size_t i = 0; i < count; i++)
		proto_uint(p->out, 2, frames[i]);
	proto_close(p->out, token);
}

/* --- samples --- */

#define STATE_BITS 3 /* of the keys of stacks off the CPU */

/* off_cpu: why the thread did not run; NULL: it ran. */
static int find_sample_frames(struct perfetto_live *p, uint32_t stack, const char *off_cpu)
{
	if (find_frames(p, stack, false) < 0 ||
	    (!p->frames.items.count && add_note(p, NO_STACK) < 0))
		return -ENOMEM;
	return off_cpu ? add_note(p, off_cpu) : 0;
}

static int write_sample(struct perfetto_live *p, uint64_t time_ns, uint32_t stack,
			const char *off_cpu, struct perfetto_sample *sample)
{
	struct live_track *track = live_track(p, off_cpu ? LIVE_OFF_CPU : LIVE_SAMPLES, 0,
					      p->export ? p->export->session : 0);
	int is_new = track ? map_add(&track->defined.stacks, sample->stack_iid) : -ENOMEM;
	size_t packet, data, defaults;

	if (is_new < 0 || (is_new && find_sample_frames(p, stack, off_cpu) < 0))
		return -ENOMEM;
	p->time_ns = time_ns;
	sample->pid = p->pid;
	if (map_add(&track->defined.parts, sample->thread) > 0) {
		live_describe_thread(p, track, sample->thread);
		track->described = 1;
	}
	packet = perfetto_sequence_open(p->out, &track->slices.sequence, time_ns, &defaults);
	if (defaults)
		perfetto_sample_defaults(p->out, defaults, off_cpu);
	if (is_new) {
		data = proto_open(p->out, PACKET_INTERNED_DATA);
		live_define_stack(p, track, sample->stack_iid);
		proto_close(p->out, data);
	}
	perfetto_sample_write(p->out, sample);
	proto_close(p->out, packet);
	return 0;
}

static int write_cpu_sample(struct perfetto_live *p, const struct row_cpu_sample *row)
{
	uint32_t stack = row->missing >> COLUMN_cpu_sample_stack & 1 ? 0 : row->stack;

	return write_sample(
		p, row->time_ns, stack, NULL,
		&(struct perfetto_sample){
			.stack_iid = stack + UINT64_C(1),
			.weight_ns = row->weight_ns,
			.thread = row->thread,
			.cpu = row->missing >> COLUMN_cpu_sample_cpu & 1 ? -1 : (int32_t)row->cpu,
		});
}

int live_off_cpu(struct perfetto_live *p, const struct row_off_cpu *row)
{
	uint32_t stack = row->missing >> COLUMN_off_cpu_stack & 1 ? 0 : row->stack;
	uint8_t state = row->state < OFF_CPU_STATES ? row->state : off_cpu_state_unknown;

	return write_sample(p, row->start_ns, stack, off_cpu_note(state),
			    &(struct perfetto_sample){
				    .stack_iid = ((uint64_t)stack << STATE_BITS | state) + 1,
				    .weight_ns = MAX(row->end_ns, row->start_ns) - row->start_ns,
				    .thread = row->thread,
				    .cpu = -1,
			    });
}

int live_sample(struct perfetto_live *p, const struct row_cpu_sample *row)
{
	if (p->export)
		return write_cpu_sample(p, row);
	return p->samples.count < LIVE_SAMPLES_MAX ? vec_push(&p->samples, *row) : -ENOMEM;
}

void live_samples_flush(struct perfetto_live *p)
{
	for (size_t i = 0; i < p->samples.count; i++) {
		raw_reserve(p->out, 0);
		if (write_cpu_sample(p, &p->samples.data[i]) < 0)
			live_discard(p);
		else
			live_emit(p);
	}
	p->samples.count = 0;
}
