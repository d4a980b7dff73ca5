#include "compare/renamed.h"

#include <errno.h>
#include <stdlib.h>

#define CELLS_MAX ((size_t)1 << 24) /* of the alignment's table; beyond, nothing is matched */
#define NONE SIZE_MAX
#define CONFLICT (SIZE_MAX - 1)

/* A launch of a step. */
struct token {
	uint64_t key; /* of its name, or the shape of a kernel that only its side has */
	uint32_t quantity;
	bool is_alone; /* only its side has it */
};

struct order {
	struct token *tokens;
	size_t *partner; /* by token: the other side's, or NONE */
	size_t *target; /* by quantity: the other side's that all launches are paired with */
	size_t count, quantities;
};

static bool is_pair(const struct token *a, const struct token *b)
{
	return a->is_alone == b->is_alone && a->key == b->key && (!a->is_alone || a->key);
}

static bool has_kernel(struct run_side side, const char *name)
{
	for (size_t i = 0; i < side.count; i++)
		if (measured_run_find(&side.runs[i], QUANTITY_kernel, name))
			return true;
	return false;
}

static const struct measured_run *typical_run(struct run_side side)
{
	for (size_t i = 0; i < side.count; i++)
		if (side.runs[i].order.count)
			return &side.runs[i];
	return NULL;
}

static int order_init(struct order *o, const struct measured_run *run, struct run_side other)
{
	size_t count = run->order.count, quantities = run->quantities.count;

	*o = (struct order){ .count = count, .quantities = quantities };
	o->tokens = calloc(count + 1, sizeof(*o->tokens));
	o->partner = calloc(count + 1, sizeof(*o->partner));
	o->target = calloc(quantities + 1, sizeof(*o->target));
	if (!o->tokens || !o->partner || !o->target)
		return -ENOMEM;
	for (size_t i = 0; i < quantities; i++)
		o->target[i] = NONE;
	for (size_t i = 0; i < count; i++) {
		const struct kernel_launch *launch = &run->order.data[i];
		const char *name = run->quantities.data[launch->quantity].name;
		bool is_alone = !has_kernel(other, name);

		o->partner[i] = NONE;
		o->tokens[i] = (struct token){ is_alone ? launch->shape
							: quantity_key(QUANTITY_kernel, name),
					       launch->quantity, is_alone };
	}
	return 0;
}

static void order_release(struct order *o)
{
	free(o->tokens);
	free(o->partner);
	free(o->target);
}

static void pair(struct order *a, size_t i, struct order *b, size_t k)
{
	a->partner[i] = k;
	b->partner[k] = i;
}

/* Aligns a[at …] with b[at …], of n and m tokens, in a table of the lengths of their suffixes. */
static int align_middle(struct order *a, struct order *b, size_t at, size_t n, size_t m)
{
	_cleanup_free_ uint16_t *lengths = NULL;
	size_t i = 0, k = 0, width = m + 1;

	if (!n || !m || n >= UINT16_MAX || m >= UINT16_MAX || (n + 1) * (m + 1) > CELLS_MAX)
		return 0;
	lengths = calloc((n + 1) * width, sizeof(*lengths));
	if (!lengths)
		return -ENOMEM;
	for (i = n; i-- > 0;)
		for (k = m; k-- > 0;)
			lengths[i * width + k] =
				is_pair(&a->tokens[at + i], &b->tokens[at + k])
					? (uint16_t)(lengths[(i + 1) * width + k + 1] + 1)
					: MAX(lengths[(i + 1) * width + k],
					      lengths[i * width + k + 1]);
	for (i = k = 0; i < n && k < m;) {
		if (is_pair(&a->tokens[at + i], &b->tokens[at + k]))
			pair(a, at + i++, b, at + k++);
		else if (lengths[(i + 1) * width + k] >= lengths[i * width + k + 1])
			i++;
		else
			k++;
	}
	return 0;
}

static int align(struct order *a, struct order *b)
{
	size_t start = 0, n = a->count, m = b->count;

	for (; start < MIN(n, m) && is_pair(&a->tokens[start], &b->tokens[start]); start++)
		pair(a, start, b, start);
	for (; MIN(n, m) > start && is_pair(&a->tokens[n - 1], &b->tokens[m - 1]); n--, m--)
		pair(a, n - 1, b, m - 1);
	return align_middle(a, b, start, n - start, m - start);
}

/* The end of the run of pairs from i on of which each has two names. */
static size_t run_end(const struct order *a, size_t i)
{
	size_t end = i + 1;

	while (end < a->count && a->tokens[end].is_alone &&
	       a->partner[end] == a->partner[end - 1] + 1)
		end++;
	return end;
}

/* Whether what comes before and after a run is aligned as well. */
static bool is_enclosed(const struct order *a, const struct order *b, size_t i, size_t end)
{
	size_t first = a->partner[i], last = a->partner[end - 1];
	bool before = i ? first && a->partner[i - 1] == first - 1 : !first;
	bool after = end < a->count ? a->partner[end] == last + 1 : last + 1 == b->count;

	return before && after;
}

static void aim(struct order *o, uint32_t quantity, size_t target)
{
	size_t *of = &o->target[quantity];

	*of = *of == NONE || *of == target ? target : CONFLICT;
}

/* Sets the targets of all launches that only one side has. */
static void aim_all(struct order *a, struct order *b)
{
	size_t end;

	for (size_t i = 0; i < a->count; i = end) {
		bool is_run = a->tokens[i].is_alone && a->partner[i] != NONE;
		bool counts;

		end = is_run ? run_end(a, i) : i + 1;
		counts = is_run && is_enclosed(a, b, i, end);
		for (size_t k = i; k < end; k++) {
			size_t other = a->partner[k];

			if (!a->tokens[k].is_alone)
				continue;
			aim(a, a->tokens[k].quantity,
			    counts ? b->tokens[other].quantity : CONFLICT);
			if (other != NONE)
				aim(b, b->tokens[other].quantity,
				    counts ? a->tokens[k].quantity : CONFLICT);
		}
	}
	for (size_t k = 0; k < b->count; k++)
		if (b->tokens[k].is_alone && b->partner[k] == NONE)
			aim(b, b->tokens[k].quantity, CONFLICT);
}

static bool has_partner(const struct order *o, const struct order *other, size_t quantity)
{
	size_t target = o->target[quantity];

	return target < CONFLICT && other->target[target] == quantity;
}

static int collect(struct renamed_kernels *r, const struct measured_run *a,
		   const struct order *of_a, const struct measured_run *b, const struct order *of_b,
		   bool by_scope)
{
	for (size_t i = 0; i < of_a->quantities; i++) {
		size_t target = of_a->target[i];

		if (!has_partner(of_a, of_b, i))
			continue;
		if (vec_push(&r->items, ((struct renamed_kernel){ a->quantities.data[i].name,
								  b->quantities.data[target].name,
								  by_scope })) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* --- scopes --- */

/* The kernels of a scope that have no partner: one of each side, none (0), or several. */
struct scope_kernels {
	size_t a, b; /* quantity + 1 */
};

/* A scope around all of a step says nothing of places in it. */
static bool is_one_scope(const struct measured_run *run)
{
	for (size_t i = 1; i < run->order.count; i++)
		if (run->order.data[i].scope != run->order.data[0].scope)
			return false;
	return true;
}

/* Takes what has a partner out of the tokens; the others' targets are not known. */
static void leave_unmatched(struct order *o, const uint8_t *matched)
{
	for (size_t i = 0; i < o->count; i++)
		o->tokens[i].is_alone &= !matched[o->tokens[i].quantity];
	for (size_t i = 0; i < o->quantities; i++)
		o->target[i] = NONE;
}

static int add_scopes(const struct order *o, const struct measured_run *run, bool is_a,
		      struct map *numbers, struct scope_kernels *scopes)
{
	for (size_t i = 0; i < o->count; i++) {
		uint64_t scope = run->order.data[i].scope, *number;
		size_t quantity = (size_t)o->tokens[i].quantity + 1, *of;

		if (!o->tokens[i].is_alone || !scope)
			continue;
		number = map_at(numbers, scope, numbers->count);
		if (!number)
			return -ENOMEM;
		of = is_a ? &scopes[*number].a : &scopes[*number].b;
		*of = !*of || *of == quantity ? quantity : CONFLICT;
	}
	return 0;
}

static void aim_by_scope(struct order *o, const struct measured_run *run, bool is_a,
			 const struct map *numbers, const struct scope_kernels *scopes)
{
	for (size_t i = 0; i < o->count; i++) {
		uint64_t scope = run->order.data[i].scope, number;
		bool known = scope && map_get(numbers, scope, &number);
		size_t own = !known ? 0 : is_a ? scopes[number].a : scopes[number].b;
		size_t other = !known ? 0 : is_a ? scopes[number].b : scopes[number].a;

		if (o->tokens[i].is_alone)
			aim(o, o->tokens[i].quantity,
			    !other || own == CONFLICT || other == CONFLICT ? CONFLICT : other - 1);
	}
}

static int match_scopes(struct renamed_kernels *r, const struct measured_run *a, struct order *of_a,
			const struct measured_run *b, struct order *of_b)
{
	_cleanup_free_ struct scope_kernels *scopes =
		calloc(of_a->count + of_b->count + 1, sizeof(*scopes));
	_cleanup_free_ uint8_t *matched = calloc(of_a->quantities + of_b->quantities + 1, 1);
	_cleanup_(map_release) struct map numbers = MAP_INIT;
	int rc = scopes && matched ? 0 : -ENOMEM;

	for (size_t i = 0; i < of_a->quantities && rc == 0; i++)
		matched[i] = has_partner(of_a, of_b, i);
	for (size_t i = 0; i < of_b->quantities && rc == 0; i++)
		matched[of_a->quantities + i] = has_partner(of_b, of_a, i);
	if (rc == 0) {
		leave_unmatched(of_a, matched);
		leave_unmatched(of_b, matched + of_a->quantities);
		rc = add_scopes(of_a, a, true, &numbers, scopes);
	}
	if (rc == 0)
		rc = add_scopes(of_b, b, false, &numbers, scopes);
	if (rc == 0) {
		aim_by_scope(of_a, a, true, &numbers, scopes);
		aim_by_scope(of_b, b, false, &numbers, scopes);
		rc = collect(r, a, of_a, b, of_b, true);
	}
	return rc;
}

int renamed_init(struct renamed_kernels *r, struct run_side a, struct run_side b)
{
	const struct measured_run *run_a = typical_run(a), *run_b = typical_run(b);
	struct order of_a = { 0 }, of_b = { 0 };
	int rc;

	*r = (struct renamed_kernels){ .items = VEC_INIT };
	if (!run_a || !run_b)
		return 0;
	rc = order_init(&of_a, run_a, b);
	if (rc == 0)
		rc = order_init(&of_b, run_b, a);
	if (rc == 0)
		rc = align(&of_a, &of_b);
	if (rc == 0) {
		aim_all(&of_a, &of_b);
		rc = collect(r, run_a, &of_a, run_b, &of_b, false);
	}
	if (rc == 0 && !is_one_scope(run_a) && !is_one_scope(run_b))
		rc = match_scopes(r, run_a, &of_a, run_b, &of_b);
	order_release(&of_a);
	order_release(&of_b);
	return rc;
}

void renamed_release(struct renamed_kernels *r)
{
	vec_release(&r->items);
}
