/*
 * flame_tree.c: until a tree is finished, the index of a parent is always smaller than that of its
 * children. The first children of a node are a short list, which suffices for most nodes and is
 * mostly near them in memory; further children are in a hash table.
 */
#include "analysis/flame/flame_tree.h"

#include <string.h>

#define SLOTS_MIN 1024
#define LIST_MAX 4 /* children in a node's list */

/* The tag, the upper half of the hash, avoids most cache misses on nodes that do not match. */
struct flame_slot {
	uint32_t node; /* 0: free */
	uint32_t tag;
};

int flame_tree_init(struct flame_tree *t)
{
	struct flame_node root = { .parent = FLAME_NONE };

	*t = (struct flame_tree){ .slot_count = SLOTS_MIN };
	t->slots = calloc(SLOTS_MIN, sizeof(*t->slots));
	if (t->slots && vec_push(&t->nodes, root) == 0)
		return 0;
	flame_tree_release(t);
	return -ENOMEM;
}

void flame_tree_release(struct flame_tree *t)
{
	vec_release(&t->nodes);
	free(t->slots);
	*t = (struct flame_tree){ 0 };
}

static uint64_t hash_of(uint32_t parent, uint32_t frame)
{
	return hash_u64((uint64_t)parent << 32 | frame);
}

static struct flame_slot *slot_of(const struct flame_tree *t, uint32_t parent, uint32_t frame)
{
	size_t mask = t->slot_count - 1;
	uint64_t hash = hash_of(parent, frame);

	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		struct flame_slot *slot = &t->slots[i];

		if (!slot->node ||
		    (slot->tag == hash >> 32 && t->nodes.data[slot->node].parent == parent &&
		     t->nodes.data[slot->node].frame == frame))
			return slot;
	}
}

static int grow_slots(struct flame_tree *t)
{
	size_t count = 4 * t->slot_count, mask = count - 1;
	struct flame_slot *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t old = 0; old < t->slot_count; old++) {
		const struct flame_node *n = &t->nodes.data[t->slots[old].node];
		size_t i = hash_of(n->parent, n->frame) & mask;

		if (!t->slots[old].node)
			continue;
		while (slots[i].node)
			i = (i + 1) & mask;
		slots[i] = t->slots[old];
	}
	free(t->slots);
	t->slots = slots;
	t->slot_count = count;
	return 0;
}

/* Adds a node without linking it. */
static uint32_t add_node(struct flame_tree *t, uint32_t parent, uint32_t frame)
{
	struct flame_node new = { .parent = parent, .frame = frame };

	if (t->nodes.count >= FLAME_NONE || vec_push(&t->nodes, new) < 0)
		return FLAME_NONE;
	return (uint32_t)t->nodes.count - 1;
}

uint32_t flame_tree_child(struct flame_tree *t, uint32_t parent, uint32_t frame)
{
	const struct flame_node *nodes = t->nodes.data;
	uint32_t last = 0, listed = 0, node;
	struct flame_slot *slot;

	for (node = nodes[parent].first; node; node = nodes[node].next, listed++) {
		if (nodes[node].frame == frame)
			return node;
		last = node;
	}
	if (listed < LIST_MAX) {
		node = add_node(t, parent, frame);
		if (node != FLAME_NONE && last)
			t->nodes.data[last].next = node;
		else if (node != FLAME_NONE)
			t->nodes.data[parent].first = node;
		return node;
	}
	if (3 * t->slots_used >= 2 * t->slot_count && grow_slots(t) < 0)
		return FLAME_NONE;
	slot = slot_of(t, parent, frame);
	if (slot->node)
		return slot->node;
	node = add_node(t, parent, frame);
	if (node == FLAME_NONE)
		return node;
	*slot = (struct flame_slot){ node, (uint32_t)(hash_of(parent, frame) >> 32) };
	t->slots_used++;
	return node;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void sum_up(struct flame_tree *t)
{
	struct flame_node *nodes = t->nodes.data;

	for (size_t i = 0; i < t->nodes.count; i++) {
		nodes[i].total_ns = nodes[i].self_ns;
		nodes[i].total_count = nodes[i].self_count;
		nodes[i].before_total_ns = nodes[i].before_self_ns;
	}
	for (size_t i = t->nodes.count; i-- > 1;) {
		struct flame_node *n = &nodes[i], *parent = &nodes[n->parent];

		parent->total_ns = sum(parent->total_ns, n->total_ns);
		parent->total_count = sum(parent->total_count, n->total_count);
		parent->before_total_ns = sum(parent->before_total_ns, n->before_total_ns);
	}
}

/* Lists of the children of each node, while a tree is ordered. */
struct ordering {
	const struct flame_tree *tree;
	const struct stacks *stacks;
	uint32_t *first, *next;
	VEC(uint32_t) scratch;
};

static int compare(const void *a, const void *b, void *user)
{
	const struct ordering *o = user;
	const struct flame_node *x = &o->tree->nodes.data[*(const uint32_t *)a];
	const struct flame_node *y = &o->tree->nodes.data[*(const uint32_t *)b];
	const struct stack_frame *frames = o->stacks->frames.data;
	int names;

	if (x->parent == FLAME_ROOT) /* kinds of time are not ordered by size */
		return x->frame < y->frame ? -1 : 1;
	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->before_total_ns != y->before_total_ns)
		return x->before_total_ns < y->before_total_ns ? 1 : -1;
	names = strcmp(stacks_text(o->stacks, frames[x->frame].name),
		       stacks_text(o->stacks, frames[y->frame].name));
	return names ? names : x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int order_children(struct ordering *o, uint32_t node)
{
	uint32_t *link = &o->first[node];

	o->scratch.count = 0;
	for (uint32_t c = *link; c != FLAME_NONE; c = o->next[c])
		if (vec_push(&o->scratch, c) < 0)
			return -ENOMEM;
	if (o->scratch.count < 2)
		return 0;
	qsort_r(o->scratch.data, o->scratch.count, sizeof(uint32_t), compare, o);
	for (size_t i = 0; i < o->scratch.count; i++) {
		*link = o->scratch.data[i];
		link = &o->next[*link];
	}
	*link = FLAME_NONE;
	return 0;
}

static int list_children(struct ordering *o)
{
	const struct flame_tree *t = o->tree;
	int r = 0;

	memset(o->first, 0xff, t->nodes.count * sizeof(*o->first));
	for (uint32_t i = (uint32_t)t->nodes.count; i-- > 1;) {
		const struct flame_node *n = &t->nodes.data[i];

		if (!n->total_count && !n->total_ns && !n->before_total_ns)
			continue;
		o->next[i] = o->first[n->parent];
		o->first[n->parent] = i;
	}
	for (uint32_t i = 0; i < t->nodes.count && r >= 0; i++)
		r = order_children(o, i);
	return r;
}

/* Writes the nodes in drawing order. Not recursive, because stacks can be very deep. */
static size_t emit(const struct ordering *o, struct flame_node *out)
{
	const struct flame_node *nodes = o->tree->nodes.data;
	uint32_t node = FLAME_ROOT, parent = FLAME_NONE, depth = 0;
	size_t count = 0;

	for (;;) {
		/* descend; `parent` is an index in the new order */
		out[count] = nodes[node];
		out[count].parent = parent;
		out[count].depth = depth ? depth - 1 : 0;
		if (o->first[node] != FLAME_NONE) {
			parent = (uint32_t)count++;
			depth++;
			node = o->first[node];
			continue;
		}
		out[count].end = (uint32_t)count + 1;
		count++;
		/* ascend to the next sibling */
		while (node != FLAME_ROOT && o->next[node] == FLAME_NONE) {
			node = nodes[node].parent;
			out[parent].end = (uint32_t)count;
			parent = out[parent].parent;
			depth--;
		}
		if (node == FLAME_ROOT)
			return count;
		node = o->next[node];
	}
}

int flame_tree_finish(struct flame_tree *t, const struct stacks *stacks)
{
	struct ordering o = { .tree = t, .stacks = stacks };
	struct flame_node *out = NULL;
	int r = -ENOMEM;

	free(t->slots); /* no children are added after this */
	t->slots = NULL;
	sum_up(t);
	o.first = malloc(t->nodes.count * sizeof(*o.first));
	o.next = malloc(t->nodes.count * sizeof(*o.next));
	if (o.first && o.next)
		r = list_children(&o);
	if (r >= 0) {
		out = malloc(t->nodes.count * sizeof(*out));
		r = out ? 0 : -ENOMEM;
	}
	if (r >= 0) {
		size_t count = emit(&o, out);

		free(t->nodes.data);
		t->nodes.data = out;
		t->nodes.capacity = t->nodes.count;
		t->nodes.count = count;
	}
	free(o.first);
	free(o.next);
	vec_release(&o.scratch);
	return r;
}

/* Whether a node is a section or a level, which are not reversed. */
static bool is_prefix(const struct flame_node *n, const struct stacks *stacks)
{
	return n->parent == FLAME_ROOT || stacks->frames.data[n->frame].class == FRAME_LEVEL;
}

int flame_tree_invert(struct flame_tree *t, const struct stacks *stacks)
{
	VEC(uint32_t) path = VEC_INIT;
	struct flame_tree out;
	int r = flame_tree_init(&out);

	if (r < 0)
		return r;
	for (size_t i = 1; i < t->nodes.count && r >= 0; i++) {
		const struct flame_node *n = &t->nodes.data[i];
		uint32_t at = FLAME_ROOT, up = (uint32_t)i;
		size_t turned;

		if (!n->self_count && !n->self_ns && !n->before_self_ns)
			continue;
		path.count = 0;
		for (; up != FLAME_ROOT && r >= 0; up = t->nodes.data[up].parent)
			r = vec_push(&path, up);
		for (turned = path.count; turned > 0 && r >= 0; turned--) {
			if (!is_prefix(&t->nodes.data[path.data[turned - 1]], stacks))
				break;
			at = flame_tree_child(&out, at, t->nodes.data[path.data[turned - 1]].frame);
			r = at == FLAME_NONE ? -ENOMEM : r;
		}
		for (size_t k = 0; k < turned && r >= 0; k++) {
			at = flame_tree_child(&out, at, t->nodes.data[path.data[k]].frame);
			r = at == FLAME_NONE ? -ENOMEM : r;
		}
		if (r < 0)
			break;
		flame_tree_add(&out, at, n->self_ns, n->self_count);
		out.nodes.data[at].before_self_ns += n->before_self_ns;
	}
	vec_release(&path);
	if (r < 0) {
		flame_tree_release(&out);
		return r;
	}
	flame_tree_release(t);
	*t = out;
	return 0;
}

int flame_tree_filter(struct flame_tree *t, const uint8_t *focus, const uint8_t *ignore)
{
	enum { FOCUSED = 1, IGNORED = 2 };
	_cleanup_free_ uint8_t *state = calloc(t->nodes.count, 1);

	if (!state)
		return -ENOMEM;
	for (size_t i = 1; i < t->nodes.count; i++) {
		struct flame_node *n = &t->nodes.data[i];

		state[i] = state[n->parent];
		if (n->parent == FLAME_ROOT) /* names of sections do not match */
			continue;
		if (focus && focus[n->frame])
			state[i] |= FOCUSED;
		if (ignore && ignore[n->frame])
			state[i] |= IGNORED;
	}
	for (size_t i = 1; i < t->nodes.count; i++) {
		struct flame_node *n = &t->nodes.data[i];

		if ((focus && !(state[i] & FOCUSED)) || state[i] & IGNORED)
			n->self_ns = n->self_count = n->before_self_ns = 0;
	}
	return 0;
}
