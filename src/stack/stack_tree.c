#include "stack/stack_tree.h"

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
	free(t->slots);
	t->slots = NULL;
	t->slot_count = 0;
}

/* The slot that holds the node's id, or where it belongs. */
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
	const struct stack_tree_node *node = &t->nodes.data[id - 1];
	struct row_stack_node row = { .id = id, .parent = node->parent };

	ROW_MISSING(&row, stack_node, function);
	ROW_MISSING(&row, stack_node, file);
	ROW_MISSING(&row, stack_node, line);
	if (node->frame & FRAME_PYTHON) {
		row.kind = frame_kind_python;
		row.address = node->frame & ~FRAME_PYTHON;
		if (t->describe)
			t->describe(t->context, w, node->frame, &row);
	} else {
		row.kind = node->frame & FRAME_INTERRUPTED ? frame_kind_interrupted
							   : frame_kind_native;
		row.address = frame_address(node->frame);
	}
	writer_append(w, TABLE_stack_node, &row);
}

/* Id of a node, whose row is appended if it is new; 0: no room or memory, and *r says which. */
static uint32_t node_id(struct stack_tree *t, struct writer *w, struct stack_tree_node node, int *r)
{
	uint32_t *slot;

	if (t->nodes.count * 2 >= t->slot_count && (*r = grow(t)) < 0)
		return 0;
	slot = slot_of(t, &node);
	if (*slot)
		return *slot;
	*r = t->nodes.count < t->nodes_max ? vec_push(&t->nodes, node) : E_LIMIT;
	if (*r < 0)
		return 0;
	*slot = (uint32_t)t->nodes.count;
	append_node(t, w, *slot);
	return *slot;
}

int stack_tree_add(struct stack_tree *t, struct writer *w, uint32_t id, const uint64_t *frames,
		   unsigned count, enum stack_end end)
{
	struct row_stack row = { .id = id, .depth = count, .end = (uint8_t)end };
	int r = 0;

	while (count--) {
		struct stack_tree_node node = { frames[count], row.node };

		row.node = node_id(t, w, node, &r);
		if (!row.node) {
			t->refused++;
			return r;
		}
	}
	writer_append(w, TABLE_stack, &row);
	return 0;
}
