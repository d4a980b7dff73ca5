/*
 * flame_tree.c: until a tree is finished, the index of a parent is always smaller than that of its
 * children.
 */
#include "analysis/flame/flame_tree.h"

#include <string.h>

#include "base/search.h"

int flame_tree_init(struct flame_tree *t)
{
	struct flame_node root = { .parent = FLAME_NONE };

	*t = (struct flame_tree){ .children = MAP_INIT };
	return vec_push(&t->nodes, root);
}

void flame_tree_release(struct flame_tree *t)
{
	vec_release(&t->nodes);
	map_release(&t->children);
	*t = (struct flame_tree){ 0 };
}

uint32_t flame_tree_child(struct flame_tree *t, uint32_t parent, uint32_t frame)
{
	struct flame_node new = { .parent = parent, .frame = frame };
	uint64_t *node;

	if (parent == FLAME_NONE || frame == FLAME_NONE)
		return FLAME_NONE;
	node = map_at(&t->children, (uint64_t)parent << 32 | frame, t->nodes.count);
	if (!node || t->nodes.count >= FLAME_NONE ||
	    (*node == t->nodes.count && vec_push(&t->nodes, new) < 0))
		return FLAME_NONE;
	return (uint32_t)*node;
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

	if (x->parent == FLAME_ROOT) /* kinds of time are not ordered by size */
		return ORDER_OF(x->frame, y->frame);
	return ORDER_OF(y->total_ns, x->total_ns)
		       ?: ORDER_OF(y->before_total_ns, x->before_total_ns)
		       ?: strcmp(stacks_text(o->stacks, frames[x->frame].name),
				 stacks_text(o->stacks, frames[y->frame].name))
		       ?: ORDER_OF(x->frame, y->frame);
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
	int rc = 0;

	memset(o->first, 0xff, t->nodes.count * sizeof(*o->first));
	for (uint32_t i = (uint32_t)t->nodes.count; i-- > 1;) {
		const struct flame_node *n = &t->nodes.data[i];

		if (!n->total_count && !n->total_ns && !n->before_total_ns)
			continue;
		o->next[i] = o->first[n->parent];
		o->first[n->parent] = i;
	}
	for (uint32_t i = 0; i < t->nodes.count && rc >= 0; i++)
		rc = order_children(o, i);
	return rc;
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
	int rc = -ENOMEM;

	map_release(&t->children); /* no children are added after this */
	sum_up(t);
	o.first = malloc(t->nodes.count * sizeof(*o.first));
	o.next = malloc(t->nodes.count * sizeof(*o.next));
	if (o.first && o.next)
		rc = list_children(&o);
	if (rc >= 0) {
		out = malloc(t->nodes.count * sizeof(*out));
		rc = out ? 0 : -ENOMEM;
	}
	if (rc >= 0) {
		size_t count = emit(&o, out);

		free(t->nodes.data);
		t->nodes.data = out;
		t->nodes.capacity = t->nodes.count;
		t->nodes.count = count;
	}
	free(o.first);
	free(o.next);
	vec_release(&o.scratch);
	return rc;
}

/* Whether a node is a section or a level, which are not reversed. */
static bool is_prefix(const struct flame_node *n, const struct stacks *stacks)
{
	return n->parent == FLAME_ROOT || stacks->frames.data[n->frame].class == FRAME_LEVEL;
}

static bool has_own(const struct flame_node *n)
{
	return n->self_count || n->self_ns || n->before_self_ns;
}

#define STEPS_MAX (UINT64_C(1) << 25) /* half a second's */
#define DEPTH_MIN 256u

/*
 * Inverting a chain of n frames takes n * n / 2 steps and as many nodes. Returns how many callers
 * of each frame are kept: all, unless a file asks for the work of hours.
 */
static size_t callers_kept(struct flame_tree *t)
{
	uint64_t steps = 0, count = 0;

	for (size_t i = 1; i < t->nodes.count; i++) {
		struct flame_node *n = &t->nodes.data[i];

		n->depth = n->parent == FLAME_ROOT ? 1 : t->nodes.data[n->parent].depth + 1;
		steps += has_own(n) ? n->depth : 0;
		count += has_own(n);
	}
	return steps <= STEPS_MAX ? SIZE_MAX : (size_t)MAX(STEPS_MAX / count, DEPTH_MIN);
}

int flame_tree_invert(struct flame_tree *t, const struct stacks *stacks, uint32_t deeper)
{
	VEC(uint32_t) path = VEC_INIT;
	size_t most = callers_kept(t);
	struct flame_tree out;
	int rc = flame_tree_init(&out);

	if (rc < 0)
		return rc;
	for (size_t i = 1; i < t->nodes.count && rc >= 0; i++) {
		const struct flame_node *n = &t->nodes.data[i];
		uint32_t at = FLAME_ROOT, up = (uint32_t)i;
		size_t turned;

		if (!has_own(n))
			continue;
		path.count = 0;
		for (; up != FLAME_ROOT && rc >= 0; up = t->nodes.data[up].parent)
			rc = vec_push(&path, up);
		for (turned = path.count; turned > 0 && rc >= 0; turned--) {
			if (!is_prefix(&t->nodes.data[path.data[turned - 1]], stacks))
				break;
			at = flame_tree_child(&out, at, t->nodes.data[path.data[turned - 1]].frame);
			rc = at == FLAME_NONE ? -ENOMEM : rc;
		}
		for (size_t k = 0; k < turned && k <= most && rc >= 0; k++) {
			uint32_t frame = k < most ? t->nodes.data[path.data[k]].frame : deeper;

			at = flame_tree_child(&out, at, frame);
			rc = at == FLAME_NONE ? -ENOMEM : rc;
		}
		if (rc < 0)
			break;
		flame_tree_add(&out, at, n->self_ns, n->self_count);
		out.nodes.data[at].before_self_ns += n->before_self_ns;
	}
	vec_release(&path);
	if (rc < 0) {
		flame_tree_release(&out);
		return rc;
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
