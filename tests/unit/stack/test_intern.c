/* link: -Wl,--wrap=writer_append */
/* Stacks get numbers from many threads at once; the tree shares what they have in common. */
#include "stack/intern.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "stack/stack_tree.h"
#include "support/cmocka_tests.h"

#define THREADS 4
#define STACKS 2000u
#define ROUNDS 20
#define IDS_MAX 65536u

static struct stack_interner interner;
static _Atomic uint64_t handed[IDS_MAX]; /* first frame of the stack that got the number */
static atomic_uint refusals_left;

static bool take(void *context, uint32_t id, const uint64_t *frames, unsigned count,
		 enum stack_end end)
{
	(void)context;
	(void)end;
	if (atomic_load(&refusals_left) && atomic_fetch_sub(&refusals_left, 1))
		return false;
	assert_true(id && id < IDS_MAX && count);
	assert_int_equal(atomic_exchange(&handed[id], frames[0]), 0);
	return true;
}

static unsigned make_stack(unsigned which, uint64_t *frames)
{
	unsigned count = 1 + which % 30;

	for (unsigned i = 0; i < count; i++)
		frames[i] = 0x7f0000000000 + (i ? i * 64 : which * 4 + 4);
	return count;
}

static void *intern_all(void *argument)
{
	uint64_t frames[64];

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < STACKS; i++) {
			unsigned which = (i * 7 + round) % STACKS, n = make_stack(which, frames);
			uint32_t id =
				stack_intern(&interner, frames, n, stack_end_complete, take, NULL);

			assert_int_equal(atomic_load(&handed[id]), frames[0]);
		}
	}
	return argument;
}

static void fresh(uint32_t limit)
{
	memset((void *)handed, 0, sizeof(handed));
	assert_int_equal(stack_interner_init(&interner, limit, 0), 0);
}

static void threads_agree(void **state)
{
	pthread_t threads[THREADS];
	uint64_t frames[64];
	uint32_t id;

	(void)state;
	fresh(6144);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, intern_all, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&interner.count), STACKS);
	assert_int_equal(atomic_load(&interner.refused), 0);
	/* Equal frames that ended otherwise are another stack. */
	id = stack_intern(&interner, frames, make_stack(5, frames), stack_end_complete, take, NULL);
	assert_int_equal(id, stack_intern(&interner, frames, make_stack(5, frames),
					  stack_end_complete, take, NULL));
	assert_int_not_equal(id, stack_intern(&interner, frames, make_stack(5, frames),
					      stack_end_depth, take, NULL));
	stack_interner_release(&interner);
}

static void a_full_table_refuses(void **state)
{
	uint64_t frames[64];
	unsigned kept = 0;

	(void)state;
	fresh(47);
	for (unsigned i = 0; i < 100; i++)
		kept += stack_intern(&interner, frames, make_stack(i, frames), stack_end_complete,
				     take, NULL) > 0;
	assert_int_equal(kept, 47);
	assert_int_equal(atomic_load(&interner.refused), 53);
	/* What it has is still found. */
	assert_int_not_equal(stack_intern(&interner, frames, make_stack(0, frames),
					  stack_end_complete, take, NULL),
			     0);
	stack_interner_release(&interner);
}

static void what_was_not_taken_is_tried_again(void **state)
{
	uint64_t frames[64];
	unsigned n = make_stack(3, frames);

	(void)state;
	fresh(64);
	atomic_store(&refusals_left, 1);
	assert_int_equal(stack_intern(&interner, frames, n, stack_end_complete, take, NULL), 0);
	assert_int_not_equal(stack_intern(&interner, frames, n, stack_end_complete, take, NULL), 0);
	assert_int_equal(atomic_load(&interner.refused), 0); /* take counts it */
	stack_interner_release(&interner);
}

static void describe(void *context, struct writer *w, uint64_t frame, struct row_stack_node *row)
{
	++*(int *)context;
	row->line = (uint32_t)frame;
	row->function = writer_string(w, "f", 1);
	row->missing &= ~(UINT64_C(1) << COLUMN_stack_node_line |
			  UINT64_C(1) << COLUMN_stack_node_function);
}

static void the_tree_shares_callers(void **state)
{
	uint64_t a[] = { 10, FRAME_PYTHON | 77, 30, 40 }, b[] = { 11, FRAME_PYTHON | 77, 30, 40 },
		 c[] = { 30, 40 };
	struct writer_options options = { .directory = *state };
	struct stack_tree tree;
	struct writer *w;
	int described = 0;

	assert_int_equal(writer_open(&options, &w, NULL), 0);
	stack_tree_init(&tree, 6, describe, &described);
	writer_on_stack(w, stack_tree_need, &tree);
	assert_int_equal(stack_tree_add(&tree, w, 1, a, 4, stack_end_complete), 0);
	assert_int_equal(stack_tree_add(&tree, w, 2, b, 4, stack_end_complete), 0);
	assert_int_equal(stack_tree_add(&tree, w, 3, c, 2, stack_end_truncated), 0);
	assert_int_equal(tree.nodes.count, 5);
	assert_int_equal(tree.nodes.data[0].frame, 40);
	assert_int_equal(tree.nodes.data[3].parent, 3);
	assert_int_equal(tree.nodes.data[4].parent, 3);
	assert_int_equal(described, 1);
	a[0] = 12;
	assert_int_equal(stack_tree_add(&tree, w, 4, a, 4, stack_end_complete), 0);
	a[0] = 13;
	assert_int_equal(stack_tree_add(&tree, w, 5, a, 4, stack_end_complete), E_LIMIT);
	assert_int_equal(tree.refused, 1);
	writer_close(&w);
	stack_tree_release(&tree);
}

static void call(struct writer *w, uint32_t stack)
{
	struct row_api_call row = { .stack = stack };

	row.start_ns = row.end_ns = 1;
	writer_append(w, TABLE_api_call, &row);
}

/* Without an interner, too, a stack has one id, and ids have no gaps. */
static void a_stack_keeps_its_id(void **state)
{
	uint64_t frames[] = { 10, 30 };
	struct writer_options options = { .directory = *state };
	struct stack_tree tree;
	struct writer *w;
	bool is_new;

	assert_int_equal(writer_open(&options, &w, NULL), 0);
	stack_tree_init(&tree, 10, NULL, NULL);
	for (unsigned i = 0; i < 6; i++) {
		frames[0] = 10 + i % 3;
		assert_int_equal(stack_tree_id(&tree, w, frames, 2, stack_end_complete, &is_new),
				 1 + i % 3);
		assert_int_equal(is_new, i < 3);
	}
	assert_int_equal(stack_tree_id(&tree, w, frames, 2, stack_end_truncated, NULL), 4);
	assert_int_equal(tree.stacks.count, 4);
	writer_close(&w);
	stack_tree_release(&tree);
}

static struct row_stack_node nodes[8];
static unsigned node_count;

void __real_writer_append(struct writer *w, enum table_id table, const void *row);
void __wrap_writer_append(struct writer *w, enum table_id table, const void *row);
void __wrap_writer_append(struct writer *w, enum table_id table, const void *row)
{
	if (table == TABLE_stack_node && node_count < ARRAY_SIZE(nodes))
		nodes[node_count++] = *(const struct row_stack_node *)row;
	__real_writer_append(w, table, row);
}

static void assert_node(unsigned i, unsigned kind, uint64_t address)
{
	assert_int_equal(nodes[i].kind, kind);
	assert_int_equal(nodes[i].address, address);
	assert_int_equal(nodes[i].id, i + 1);
	assert_int_equal(nodes[i].parent, i);
}

static void frames_of_every_kind(void **state)
{
	const uint64_t system = UINT64_C(0xffffffff81000010);
	uint64_t frames[] = { frame_of_kernel(system), 50 | FRAME_INTERRUPTED, FRAME_PYTHON | 77,
			      30 };
	struct writer_options options = { .directory = *state };
	struct stack_tree tree;
	struct writer *w;

	assert_int_equal(writer_open(&options, &w, NULL), 0);
	stack_tree_init(&tree, 10, NULL, NULL);
	writer_on_stack(w, stack_tree_need, &tree);
	node_count = 0;
	assert_int_equal(stack_tree_add(&tree, w, 1, frames, 4, stack_end_complete), 0);
	call(w, 1);
	writer_close(&w);
	assert_int_equal(node_count, 4);
	assert_node(0, frame_kind_native, 30);
	assert_node(1, frame_kind_python, 77);
	assert_node(2, frame_kind_interrupted, 50);
	assert_node(3, frame_kind_kernel, system);
	stack_tree_release(&tree);
}

/* Flushes until a new segment has begun, with rows that refer to no stack; how many it took. */
static unsigned fill_segment(struct writer *w)
{
	uint32_t segment = writer_epoch(w);
	unsigned rows = 0;

	for (; writer_epoch(w) == segment && rows < 100; rows++) {
		call(w, 0);
		assert_int_equal(writer_flush(w), 0);
	}
	return rows;
}

static uint32_t node_segment(const struct stack_tree *t, uint32_t id)
{
	return t->nodes.data[id - 1].segment;
}

static void each_segment_gets_the_stacks_that_it_needs(void **state)
{
	uint64_t a[] = { 10, FRAME_PYTHON | 77, 30 }, b[] = { 11, FRAME_PYTHON | 77, 30 };
	struct writer_options options = { .directory = *state, .segment_bytes = 4000 };
	struct stack_tree tree;
	struct writer *w;
	int described = 0;

	assert_int_equal(writer_open(&options, &w, NULL), 0);
	stack_tree_init(&tree, 1000, describe, &described);
	writer_on_stack(w, stack_tree_need, &tree);
	assert_int_equal(stack_tree_add(&tree, w, 1, a, 3, stack_end_complete), 0);
	assert_int_equal(stack_tree_add(&tree, w, 2, b, 3, stack_end_complete), 0);
	call(w, 1);
	assert_int_equal(described, 1); /* its row is there */
	fill_segment(w);
	assert_int_equal(writer_epoch(w), 2);
	call(w, 2);
	call(w, 2);
	assert_int_equal(described, 2);
	assert_int_equal(tree.stacks.data[0].segment, 1);
	assert_int_equal(tree.stacks.data[1].segment, 2);
	assert_int_equal(node_segment(&tree, 3), 1); /* 10 */
	assert_int_equal(node_segment(&tree, 2), 2);
	assert_int_equal(node_segment(&tree, 4), 2); /* 11 */
	call(w, 1);
	assert_int_equal(node_segment(&tree, 3), 2);
	assert_int_equal(described, 2);
	assert_int_equal(tree.nodes.count, 4); /* the same ids */
	writer_close(&w);
	stack_tree_release(&tree);
}

static void a_stack_that_comes_late_is_in_the_segment_that_needs_it(void **state)
{
	uint64_t a[] = { 10, 30 };
	struct writer_options options = { .directory = *state, .segment_bytes = 4000 };
	struct stack_tree tree;
	struct writer *w;
	unsigned rows, longer;

	assert_int_equal(writer_open(&options, &w, NULL), 0);
	stack_tree_init(&tree, 1000, NULL, NULL);
	writer_on_stack(w, stack_tree_need, &tree);
	assert_int_equal(stack_tree_add(&tree, w, 1, a, 2, stack_end_complete), 0);
	fill_segment(w);
	rows = fill_segment(w);
	call(w, 3); /* nobody knows it yet */
	call(w, 3);
	for (unsigned i = 0; i < rows + 2; i++) {
		call(w, 1);
		writer_flush(w);
	}
	assert_int_equal(writer_epoch(w), 3);
	assert_int_equal(tree.awaited, 1);
	assert_int_equal(stack_tree_add(&tree, w, 3, a, 2, stack_end_depth), 0);
	assert_int_equal(tree.stacks.data[2].segment, 3);
	assert_int_equal(tree.awaited, 0);
	assert_int_equal(fill_segment(w), 1); /* at once */
	/* One that never comes does not hold for ever. */
	call(w, 4);
	longer = fill_segment(w);
	assert_true(longer > rows && longer < 100);
	writer_close(&w);
	stack_tree_release(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_agree),
		cmocka_unit_test(a_full_table_refuses),
		cmocka_unit_test(what_was_not_taken_is_tried_again),
		folder_test(the_tree_shares_callers),
		folder_test(a_stack_keeps_its_id),
		folder_test(frames_of_every_kind),
		folder_test(each_segment_gets_the_stacks_that_it_needs),
		folder_test(a_stack_that_comes_late_is_in_the_segment_that_needs_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
