#include "stack/stack_tree.h"

#include <string.h>

#include "base/map.h"

#define SLOTS_MIN 4096u

void stack_tree_init(struct stack_tree *t, uint32_t nodes_max, stack_describe *describe,
		     void *context)
{
	*t = (struct stack_tree){ .nodes_max = nodes_max,
				  .describe = describe,
				  .context = context };
}

void stack_tree_release(struct stack_tree *t)
{
	vec_release(&t->nodes);
	vec_release(&t->stacks);
	vec_release(&t->path);
	map_release(&t->known);
	free(t->slots);
	t->slots = NULL;
	t->slot_count = 0;
}

static struct stack_tree_node *node_at(const struct stack_tree *t, uint32_t id)
{
	return &t->nodes.data[id - t->first_node - 1];
}

/* Returns the slot of the node (its index in `nodes` plus 1), or the free slot where it belongs. */
static uint32_t *slot_of(const struct stack_tree *t, const struct stack_tree_node *node)
{
	size_t mask = t->slot_count - 1;
	size_t i = hash_u64(node->frame ^ hash_u64(node->parent)) & mask;

	for (; t->slots[i]; i = (i + 1) & mask) {
		const struct stack_tree_node *other = &t->nodes.data[t->slots[i] - 1];

		if (other->frame == node->frame && other->parent == node->parent)
			break;
	}
	return &t->slots[i];
}

static int grow(struct stack_tree *t)
{
	size_t count = MAX(t->slot_count * 2, SLOTS_MIN);
	uint32_t *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(t->slots);
	t->slots = slots;
	t->slot_count = count;
	for (size_t i = 0; i < t->nodes.count; i++)
		*slot_of(t, &t->nodes.data[i]) = (uint32_t)i + 1;
	return 0;
}

static void append_node(struct stack_tree *t, struct writer *w, uint32_t id)
{
	const struct stack_tree_node *node = node_at(t, id);
	struct row_stack_node row = { .id = id, .parent = node->parent };

	ROW_MISSING(&row, stack_node, function, file, line);
	if (node->frame & FRAME_PYTHON) {
		row.kind = frame_kind_python;
		row.address = node->frame & ~FRAME_PYTHON;
		if (t->describe)
			t->describe(t->context, w, node->frame, &row);
	} else if (frame_is_kernel(node->frame)) {
		row.kind = frame_kind_kernel;
		row.address = frame_kernel_address(node->frame);
	} else {
		row.kind = node->frame & FRAME_INTERRUPTED ? frame_kind_interrupted
							   : frame_kind_native;
		row.address = frame_address(node->frame);
	}
	writer_append(w, TABLE_stack_node, &row);
}

/* Returns the id of a node, new or existing; 0 and *rc without room or memory. */
static uint32_t node_id(struct stack_tree *t, struct stack_tree_node node, int *rc)
{
	uint32_t *slot;

	if (t->nodes.count * 2 >= t->slot_count && (*rc = grow(t)) < 0)
		return 0;
	slot = slot_of(t, &node);
	if (*slot)
		return t->first_node + *slot;
	*rc = t->nodes.count < t->nodes_max ? vec_push(&t->nodes, node) : E_LIMIT;
	if (*rc < 0)
		return 0;
	*slot = (uint32_t)t->nodes.count;
	return t->first_node + *slot;
}

/* Returns the entry of a stack, created if necessary; NULL without memory or for a foreign id. */
static struct stack_tree_stack *stack_at(struct stack_tree *t, uint32_t id)
{
	size_t known = t->stacks.count, place = id - t->first_stack;

	if (id <= t->first_stack || place > STACK_TREE_IDS)
		return NULL;
	if (place > known) {
		if (vec_reserve(&t->stacks, place - known) < 0)
			return NULL;
		memset(&t->stacks.data[known], 0, (place - known) * sizeof(*t->stacks.data));
		t->stacks.count = place;
	}
	return &t->stacks.data[place - 1];
}

/* Appends the node rows that the segment lacks, from the thread's start to this node. */
static void append_nodes(struct stack_tree *t, struct writer *w, uint32_t id, uint32_t segment)
{
	unsigned count = 0;

	for (; id && node_at(t, id)->segment != segment; id = node_at(t, id)->parent)
		t->path.data[count++] = id;
	while (count--) {
		append_node(t, w, t->path.data[count]);
		node_at(t, t->path.data[count])->segment = segment;
	}
}

static void append_stack(struct stack_tree *t, struct writer *w, uint32_t id)
{
	struct stack_tree_stack *stack = &t->stacks.data[id - t->first_stack - 1];
	struct row_stack row = {
		.id = id, .node = stack->node, .depth = stack->depth, .end = stack->end
	};

	append_nodes(t, w, stack->node, writer_epoch(w));
	writer_append(w, TABLE_stack, &row);
	stack->segment = writer_epoch(w);
}

void stack_tree_need(void *tree, struct writer *w, uint32_t id)
{
	struct stack_tree *t = tree;
	struct stack_tree_stack *stack = stack_at(t, id);

	if (!stack || stack->segment == writer_epoch(w))
		return;
	if (stack->node) {
		append_stack(t, w, id);
	} else if (!stack->awaited && !stack->refused) {
		stack->awaited = true;
		t->awaited++;
		writer_hold_epoch(w, true);
	}
}

/* Adds a stack's nodes. Returns the innermost one's id; 0 and *rc without room or memory. */
static uint32_t add_nodes(struct stack_tree *t, const uint64_t *frames, unsigned count, int *rc)
{
	uint32_t id = 0;

	*rc = count && count <= STACK_DEPTH_MAX ? vec_reserve(&t->path, count) : E_LIMIT;
	while (*rc == 0 && count--)
		id = node_id(t, (struct stack_tree_node){ .frame = frames[count], .parent = id },
			     rc);
	return *rc == 0 ? id : 0;
}

int stack_tree_add(struct stack_tree *t, struct writer *w, uint32_t id, const uint64_t *frames,
		   unsigned count, enum stack_end end)
{
	struct stack_tree_stack *stack = stack_at(t, id);
	int rc = stack ? 0 : -ENOMEM;

	if (stack) {
		stack->node = add_nodes(t, frames, count, &rc);
		stack->depth = (uint16_t)count;
		stack->end = (uint8_t)end;
		stack->refused = rc < 0;
		if (stack->awaited && --t->awaited == 0 && !(t->other && t->other->awaited))
			writer_hold_epoch(w, false);
		stack->awaited = false;
	}
	if (rc < 0)
		t->refused++;
	else
		append_stack(t, w, id);
	return rc;
}

uint32_t stack_tree_id(struct stack_tree *t, struct writer *w, const uint64_t *frames,
		       unsigned count, enum stack_end end, bool *is_new)
{
	int rc;
	uint32_t node = add_nodes(t, frames, count, &rc), id = (uint32_t)t->stacks.count + 1;
	uint64_t *known = NULL;
	struct stack_tree_stack stack = { .node = node,
					  .depth = (uint16_t)count,
					  .end = (uint8_t)end };

	writer_on_stack(w, stack_tree_need, t);
	if (is_new)
		*is_new = false;
	if (node && id <= STACK_TREE_IDS)
		known = map_at(&t->known, (uint64_t)node << 8 | (uint8_t)end, id);
	if (!known || (*known == id && vec_push(&t->stacks, stack) < 0)) {
		if (known)
			*known = 0;
		t->refused++;
		return 0;
	}
	if (*known == id) {
		append_stack(t, w, id);
		if (is_new)
			*is_new = true;
	}
	return (uint32_t)*known;
}
