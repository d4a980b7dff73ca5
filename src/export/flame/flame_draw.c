#include "export/flame/flame_picture.h"

#include <errno.h>

#define STEPS 16 /* buckets per power of two */
#define BUCKETS (64 * STEPS)

/* Returns the bucket of a number: its power of two and the next four bits. */
static unsigned bucket_of(uint64_t v)
{
	unsigned power = 63 - (unsigned)__builtin_clzll(v | 1);

	return power * STEPS + (power >= 4 ? v >> (power - 4) & 15 : v << (4 - power) & 15);
}

static uint64_t bucket_start(unsigned bucket)
{
	unsigned power = bucket / STEPS;
	uint64_t start = (STEPS | bucket % STEPS);

	return power >= 4 ? start << (power - 4) : start >> (4 - power);
}

/*
 * Returns the least total with which at most `max` nodes are drawn. A parent is never smaller than
 * its children, so that no drawn box lacks its parent.
 */
static uint64_t find_least(const struct flame *f, const struct flame_node *root, uint32_t first,
			   size_t max, uint64_t fraction)
{
	size_t counts[BUCKETS] = { 0 }, sum = 0;
	unsigned bucket = BUCKETS;

	for (uint32_t i = first; i < root->end; i++)
		if (f->tree.nodes.data[i].depth < FLAME_DEPTH_MAX)
			counts[bucket_of(f->tree.nodes.data[i].total_ns)]++;
	while (bucket > 0 && sum + counts[bucket - 1] <= max)
		sum += counts[--bucket];
	return MAX(bucket ? bucket_start(MIN(bucket, BUCKETS - 1)) : 1,
		   MAX(root->total_ns / fraction, 1));
}

struct drawing_state {
	const struct flame *flame;
	struct flame_drawing *drawing;
	uint64_t *next_ns; /* per depth: start of the next box */
};

static int add_box(struct drawing_state *s, struct flame_box box)
{
	box.start_ns = s->next_ns[box.depth];
	s->next_ns[box.depth] += box.ns;
	s->next_ns[box.depth + 1] = box.start_ns;
	s->drawing->levels = MAX(s->drawing->levels, box.depth + 1);
	return vec_push(&s->drawing->boxes, box);
}

/*
 * Adds one box for node `i` and its following siblings, which are smaller still. Returns the node
 * after them.
 */
static uint32_t leave_out(struct drawing_state *s, uint32_t i, int *r)
{
	const struct flame_node *nodes = s->flame->tree.nodes.data, *n = &nodes[i];
	uint32_t end = nodes[n->parent].end;
	struct flame_box box = { .node = n->parent, .depth = n->depth, .left_out = end - i };

	for (; i < end; i = nodes[i].end) {
		box.ns += nodes[i].total_ns;
		box.count += nodes[i].total_count;
		box.before_ns += nodes[i].before_total_ns;
	}
	*r = box.ns ? add_box(s, box) : 0;
	return end;
}

int flame_draw(const struct flame *f, enum flame_kind kind, size_t max, uint64_t fraction,
	       struct flame_drawing *d)
{
	struct drawing_state s = { .flame = f, .drawing = d };
	uint32_t first = f->sections[kind].node, end;
	int r = 0;

	*d = (struct flame_drawing){ 0 };
	if (first == FLAME_NONE)
		return 0;
	end = f->tree.nodes.data[first].end;
	d->least_ns = find_least(f, &f->tree.nodes.data[first], first, max, fraction);
	s.next_ns = calloc(FLAME_DEPTH_MAX + 2, sizeof(*s.next_ns));
	if (!s.next_ns)
		return -ENOMEM;
	for (uint32_t i = first; i < end && r >= 0;) {
		const struct flame_node *n = &f->tree.nodes.data[i];
		struct flame_box box = { .node = i,
					 .depth = n->depth,
					 .ns = n->total_ns,
					 .count = n->total_count,
					 .before_ns = n->before_total_ns };

		if (i != first && (n->total_ns < d->least_ns || n->depth >= FLAME_DEPTH_MAX)) {
			i = leave_out(&s, i, &r);
			continue;
		}
		r = add_box(&s, box);
		i++;
	}
	free(s.next_ns);
	return r;
}

void flame_drawing_release(struct flame_drawing *d)
{
	vec_release(&d->boxes);
}
