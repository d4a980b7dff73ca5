/*
 * Stacks of calls and of samples on any number of threads: each that lives has its own walker, and
 * counts are exact.
 */
#include "unit/capture/captured_rows.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/reserve.h"
#include "capture/stack/stack_capture.h"
#include "capture/stack/stack_rows.h"

#ifdef __SANITIZE_THREAD__ /* to which each thread costs as much as all before it */
#define AT_ONCE 100u
#define ONE_AFTER_ANOTHER 1000u
#else
#define AT_ONCE 900u
#define ONE_AFTER_ANOTHER 3000u
#endif
#define CALLS 20000u

atomic_bool collector_idle;

void collector_wake(void)
{
}

static int begin(void **state)
{
	const struct settings settings = { .stacks = SETTING_STACKS_NATIVE };

	(void)state;
	if (!stack_capture_start(&settings))
		return -1;
	while (stack_capture_update(NS_PER_S))
		;
	return 0;
}

/*
 * What the collector does with rings: events are dropped, rings of ended threads go to the next
 * ones.
 */
static void drain(void)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		bool dead = atomic_load(&r->state) == RING_DEAD;

		ring_consume(r, ring_available(r));
		if (dead)
			ring_recycle(r);
	}
}

/* The stack of a call, by the walker of a sample too. 2: it has both. */
static unsigned both_stacks(struct stack_sampler *sampler)
{
	struct stack_registers registers;
	uint64_t *frames = malloc(STACK_FRAMES_MAX * sizeof(*frames));
	enum stack_end how;
	unsigned both;

	STACK_CAPTURE(&registers);
	both = (ring_get() && stack_capture_call(ring_get())) +
	       (stack_capture_sample(sampler, &registers, frames, &how) > 0);
	free(frames);
	return both;
}

/* --- counts --- */

static void *call_often(void *unused)
{
	for (unsigned i = 0; i < CALLS; i++)
		assert_int_not_equal(stack_capture_call(ring_get()), 0);
	return unused;
}

static void sums_of_two_threads_are_exact(void **state)
{
	struct stack_capture_counts counts;
	pthread_t threads[2];

	(void)state;
	stack_capture_counts(&counts);
	assert_int_equal(counts.walked + counts.none, 0);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
		for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
			pthread_join(threads[i], NULL);
		drain();
		stack_capture_counts(&counts);
		assert_int_equal(counts.walked + counts.none, 2 * CALLS * round);
		assert_int_equal(counts.no_memory, 0);
	}
}

/* --- threads --- */

static atomic_uint complete; /* threads that had both stacks */
static sem_t ready, gate;

static void *live(void *sampler)
{
	if (both_stacks(sampler) == 2)
		atomic_fetch_add(&complete, 1);
	return NULL;
}

static void *live_until_all_do(void *sampler)
{
	live(sampler);
	sem_post(&ready);
	sem_wait(&gate);
	return NULL;
}

/* So many threads at once; samplers are zeroed, as a new thread's are. */
static void run_at_once(unsigned count, struct stack_sampler *samplers)
{
	pthread_t *threads = calloc(count, sizeof(*threads));
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 << 10);
	sem_init(&ready, 0, 0);
	sem_init(&gate, 0, 0);
	atomic_store(&complete, 0);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(
			pthread_create(&threads[i], &small, live_until_all_do, &samplers[i]), 0);
	for (unsigned i = 0; i < count; i++)
		sem_wait(&ready);
	for (unsigned i = 0; i < count; i++)
		sem_post(&gate);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < count; i++)
		stack_sampler_reset(&samplers[i]);
	drain();
	pthread_attr_destroy(&small);
	free(threads);
	assert_int_equal(atomic_load(&complete), count);
}

static void threads_that_live_have_walkers(void **state)
{
	struct stack_sampler *samplers = reserve_memory(AT_ONCE * sizeof(*samplers));
	struct stack_capture_counts counts;
	pthread_t thread;

	(void)state;
	assert_non_null(samplers);
	run_at_once(AT_ONCE, samplers);
	atomic_store(&complete, 0);
	for (unsigned i = 0; i < ONE_AFTER_ANOTHER; i++) {
		assert_int_equal(pthread_create(&thread, NULL, live, &samplers[0]), 0);
		pthread_join(thread, NULL);
		stack_sampler_reset(&samplers[0]);
		if (i % 3 == 0)
			drain();
	}
	drain();
	assert_int_equal(atomic_load(&complete), ONE_AFTER_ANOTHER);
	run_at_once(AT_ONCE, samplers);
	stack_capture_counts(&counts);
	assert_int_equal(counts.no_memory, 0);
	munmap(samplers, AT_ONCE * sizeof(*samplers));
}

/* --- generations --- */

#define SMALL_LIMIT 300u /* stacks of a generation */
#define LEVELS 10u /* of calls, of one of two functions each */
#define GENERATIONS 5u

static atomic_bool stop;
static __thread uint32_t newest; /* generation of which the thread had a number */
static atomic_uint gone_back; /* numbers of older generations after that */

static void go(unsigned path, unsigned levels);

static __attribute__((noinline)) void left(unsigned path, unsigned levels)
{
	go(path, levels);
	__asm__ volatile("");
}

static __attribute__((noinline)) void right(unsigned path, unsigned levels)
{
	go(path, levels);
	__asm__ volatile("nop");
}

/* Goes where the path's bits lead, and has a call there that knows its path. */
static __attribute__((noinline)) void go(unsigned path, unsigned levels)
{
	struct ring_event event = { .kind = RING_API_CALL, .d = path };

	if (levels == LEVELS) {
		event.c = stack_capture_call(ring_get());
		ring_push(ring_get(), &event, 1);
		if (event.c && event.c >> STACK_TABLE_ID_BITS < newest)
			atomic_fetch_add(&gone_back, 1);
		newest = event.c ? event.c >> STACK_TABLE_ID_BITS : newest;
	} else if (path >> levels & 1) {
		left(path, levels + 1);
	} else {
		right(path, levels + 1);
	}
	__asm__ volatile("");
}

static void *call_everywhere(void *seed)
{
	uint64_t random = (uint64_t)(uintptr_t)seed;

	for (unsigned i = 0; !atomic_load(&stop); i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		go(random >> 40 & ((1u << LEVELS) - 1), 0);
		if (i % 64 == 0)
			usleep(1000);
	}
	return NULL;
}

static void make_rows(struct writer *w)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		uint64_t available = ring_available(r), done = 0, slots;

		while (done < available) {
			uint64_t at = atomic_load(&r->tail);
			const struct ring_event *event = ring_slot(r, at);
			struct row_api_call row = { .start_ns = 1,
						    .end_ns = 1,
						    .correlation = event->d,
						    .stack = event->c };

			slots = 1;
			if (event->kind == RING_STACK)
				slots = stack_rows_event(w, r, at);
			else
				writer_append(w, TABLE_api_call, &row);
			ring_consume(r, slots);
			done += slots;
		}
	}
}

/* The frames of a stack as one number. */
static uint64_t frames_of(const struct row_stack *stack, struct map *parents, struct map *addresses)
{
	uint64_t hash = stack->end, address, node = stack->node;

	for (unsigned i = 0; i < stack->depth; i++) {
		assert_true(map_get(addresses, node, &address));
		hash = hash_u64(hash ^ address);
		assert_true(map_get(parents, node, &node));
	}
	assert_int_equal(node, 0);
	return hash;
}

static void check_rows(struct captured *captured)
{
	struct map parents = MAP_INIT, addresses = MAP_INIT, frames = MAP_INIT, paths = MAP_INIT,
		   stacks_of_paths = MAP_INIT;
	size_t calls_count, stacks_count, nodes_count;
	struct row_api_call *calls = captured_rows(captured, TABLE_api_call, &calls_count);
	struct row_stack *stacks = captured_rows(captured, TABLE_stack, &stacks_count);
	struct row_stack_node *nodes = captured_rows(captured, TABLE_stack_node, &nodes_count);
	uint64_t seen = 0, hash;

	for (size_t i = 0; i < nodes_count; i++) {
		assert_int_equal(*map_at(&addresses, nodes[i].id, nodes[i].address),
				 nodes[i].address);
		assert_int_equal(*map_at(&parents, nodes[i].id, nodes[i].parent), nodes[i].parent);
	}
	for (size_t i = 0; i < stacks_count; i++) {
		hash = frames_of(&stacks[i], &parents, &addresses);
		assert_int_equal(*map_at(&frames, stacks[i].id, hash), hash);
	}
	for (size_t i = 0; i < calls_count; i++) {
		uint32_t id = calls[i].stack;

		if (!id)
			continue;
		assert_true(map_get(&frames, id, &hash)); /* its stack is in the segment */
		/*
		 * One number is one stack, and one path, wherever it was met, has one stack on each
		 * thread.
		 */
		assert_int_equal(*map_at(&paths, id, calls[i].correlation), calls[i].correlation);
		assert_int_equal(*map_at(&stacks_of_paths, calls[i].correlation, hash), hash);
		seen |= UINT64_C(1) << (id >> STACK_TABLE_ID_BITS);
	}
	assert_true(__builtin_popcountll(seen) >= (int)GENERATIONS);
	free(calls);
	free(stacks);
	free(nodes);
	map_release(&parents);
	map_release(&addresses);
	map_release(&frames);
	map_release(&paths);
	map_release(&stacks_of_paths);
}

static void numbers_are_of_one_stack_while_generations_change(void **state)
{
	const struct settings settings = { .stacks = SETTING_STACKS_NATIVE,
					   .stacks_max = SMALL_LIMIT };
	struct captured *captured = captured_begin();
	uint32_t last = 0, begun = 0;
	pthread_t threads[3];

	(void)state;
	assert_true(stack_capture_start(&settings)); /* from the next generation on */
	stack_capture_renew(0);
	atomic_store(&stop, false);
	for (uintptr_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call_everywhere, (void *)i), 0);
	while (begun <= GENERATIONS) {
		uint64_t frame = 0x1000 + begun;
		uint32_t id;

		stack_capture_update(NS_PER_MS);
		make_rows(captured->writer);
		id = stack_rows_sample(captured->writer, &frame, 1, stack_end_complete);
		begun += id && id >> STACK_TABLE_ID_BITS != last;
		last = id ? id >> STACK_TABLE_ID_BITS : last;
		usleep(1000);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&gone_back), 0);
	make_rows(captured->writer);
	captured_close(captured);
	check_rows(captured);
	captured_free(captured);
	stack_rows_reset();
	drain();
}

/* --- losses --- */

static const struct stack_capture_counts *invented; /* NULL: those that there are */

void __real_stack_capture_counts(struct stack_capture_counts *counts);
void __wrap_stack_capture_counts(struct stack_capture_counts *counts);

void __wrap_stack_capture_counts(struct stack_capture_counts *counts)
{
	if (invented)
		*counts = *invented;
	else
		__real_stack_capture_counts(counts);
}

/* Whatever is left out of a stack is a loss, each time as much as is new. */
static void what_stacks_lack_is_told(void **state)
{
	static const struct stack_capture_counts once = { .table_full = 1,
							  .no_memory = 10,
							  .python = { .no_slot = 100,
								      .no_room = 1000,
								      .not_code = 10000,
								      .bad_strings = 100000,
								      .cut_names = 1000000,
								      .no_lines = 10000000 } },
						 again = { .table_full = 1,
							   .no_memory = 30,
							   .python = { .no_slot = 100,
								       .no_room = 3000,
								       .not_code = 30000,
								       .bad_strings = 300000,
								       .cut_names = 1000000,
								       .no_lines = 30000000 } };
	struct captured *captured = captured_begin();
	uint64_t lost[UINT8_MAX + 1] = { 0 };
	struct row_loss *rows;
	size_t count;

	(void)state;
	stack_rows_reset();
	invented = &once;
	stack_rows_losses(captured->writer, 1, 2);
	stack_rows_losses(captured->writer, 2, 3);
	invented = &again;
	stack_rows_losses(captured->writer, 3, 4);
	invented = NULL;
	captured_close(captured);
	rows = captured_rows(captured, TABLE_loss, &count);
	for (size_t i = 0; i < count; i++)
		lost[rows[i].reason] += rows[i].count;
	assert_int_equal(lost[loss_reason_stack_limit], 1 + 100 + 3000);
	assert_int_equal(lost[loss_reason_no_memory], 30);
	assert_int_equal(lost[loss_reason_unnamed_frames], 30000);
	assert_int_equal(lost[loss_reason_string_limit], 1300000 + 30000000);
	free(rows);
	captured_free(captured);
	stack_rows_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_of_two_threads_are_exact),
		cmocka_unit_test(threads_that_live_have_walkers),
		cmocka_unit_test(numbers_are_of_one_stack_while_generations_change),
		cmocka_unit_test(what_stacks_lack_is_told),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
