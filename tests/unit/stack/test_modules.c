/* Modules come and go while threads walk through them. */
#include "stack/unwind/modules.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "all_parts.h"
#include "stack/unwind/unwind_self.h"

#define THREADS 3
#define CHURN_NS (2 * NS_PER_S)
#define UNWIND_PART_RULES 50000 /* bytes */

/* ThreadSanitizer does not see the dynamic linker's own lock. */
EXPORT const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:dl_iterate_phdr_cb\nrace:ld-linux-x86-64.so\n";
}

static struct stack_modules modules;
static atomic_bool stop;
static atomic_uint complete, partial, other;
static __thread struct stack_walker *walker;
static __thread enum stack_end last_end;

static void update_all(void)
{
	compile_wanted_parts(&modules);
}

static struct stack_module *module_of(const void *code)
{
	const struct stack_range *range = stack_map_find(atomic_load(&modules.map), (uint64_t)code);

	return range ? range->module : NULL;
}

/* The cell of the part that has this code. */
static struct unwind_part *part_of(const void *code)
{
	struct stack_module *module = module_of(code);
	uint64_t offset = (uint64_t)code - module->bias - module->code_start;

	return atomic_load(&module->parts[offset >> UNWIND_PART_SHIFT]);
}

static void count_here(void)
{
	uint64_t frames[128];
	struct stack_registers registers;
	enum stack_end end;
	unsigned n;

	STACK_CAPTURE(&registers);
	n = stack_walk(walker, &registers, frames, 128, &end);
	atomic_fetch_add(end == stack_end_complete  ? &complete
			 : end == stack_end_partial ? &partial
						    : &other,
			 1);
	last_end = end;
	assert_true(n > 1 || end == stack_end_partial);
}

static void *open_plugin(int which)
{
	void *module = dlopen(which ? STACK_MODULES "/walk_plugin_3000.so"
				    : STACK_MODULES "/walk_plugin_100.so",
			      RTLD_NOW);

	if (!module)
		fail_msg("%s", dlerror());
	return module;
}

static void call_plugin(void *module, int depth)
{
	((void (*)(void (*)(void), int))dlsym(module, "plugin_call"))(count_here, depth);
}

static struct stack_walker *walker_new(void)
{
	struct stack_walker *w = malloc(sizeof(*w));

	assert_true(stack_walker_init(w, &modules));
	return w;
}

static void walker_free(struct stack_walker *w)
{
	stack_walker_release(w);
	free(w);
}

static void parts_are_compiled_when_stacks_want_them(void **state)
{
	void *plugin = open_plugin(0);
	void *code = dlsym(plugin, "plugin_call");
	unsigned parts, left;

	(void)state;
	update_all();
	walker = walker_new();
	assert_non_null(module_of(code));
	assert_null(part_of(code));
	call_plugin(plugin, 3); /* the stack does not wait for it */
	assert_int_equal(atomic_load(&complete), 1);
	assert_ptr_equal(part_of(code), &unwind_part_wanted);
	parts = modules.parts;
	update_all();
	assert_true(modules.parts > parts);
	assert_true(part_of(code)->count > 0);
	left = walker->lookups_left;
	walker->generation = 0; /* forgets what it has read */
	call_plugin(plugin, 3);
	assert_int_equal(atomic_load(&complete), 2);
	assert_int_equal(walker->lookups_left, left);
	assert_int_equal(atomic_load(&other) + atomic_load(&partial), 0);
	dlclose(plugin);
	update_all();
	assert_null(module_of(code));
	assert_null(modules.retired);
	walker_free(walker);
}

/* Nobody has looked since it was loaded, or unloaded and another one loaded at its place. */
static void a_module_is_known_at_once(void **state)
{
	(void)state;
	if (!dlsym(RTLD_DEFAULT, "_dl_find_object"))
		skip(); /* glibc before 2.35 */
	update_all();
	walker = walker_new();
	atomic_store(&complete, 0);
	for (int i = 0; i < 4; i++) {
		void *plugin = open_plugin(i % 2);

		assert_null(module_of(dlsym(plugin, "plugin_call")));
		call_plugin(plugin, 3);
		assert_int_equal(last_end, stack_end_complete);
		dlclose(plugin);
	}
	walker_free(walker);
}

/* What caches remember of stacks is of one generation of modules. */
static void each_map_is_a_generation(void **state)
{
	uint64_t generation;
	void *plugin;

	(void)state;
	update_all();
	generation = atomic_load(&modules.map)->generation;
	update_all();
	assert_int_equal(atomic_load(&modules.map)->generation, generation);
	for (int i = 1; i <= 2; i++) {
		plugin = open_plugin(1);
		update_all();
		assert_int_equal(atomic_load(&modules.map)->generation, ++generation);
		dlclose(plugin);
		update_all();
		assert_int_equal(atomic_load(&modules.map)->generation, ++generation);
	}
}

static void a_map_in_use_is_kept(void **state)
{
	int slot = stack_slot_reserve(&modules);
	const struct stack_map *map;
	void *plugin;
	size_t count;

	(void)state;
	map = stack_map_enter(&modules, slot);
	count = map->count;
	plugin = open_plugin(1);
	update_all();
	assert_ptr_equal(modules.retired, map);
	assert_int_equal(map->count, count);
	stack_map_leave(&modules, slot);
	dlclose(plugin);
	update_all();
	assert_null(modules.retired);
	stack_slot_release(&modules, slot);
}

static void memory_has_a_ceiling(void **state)
{
	static struct stack_modules small;
	unsigned parts;

	(void)state;
	stack_modules_init(&small, 200000);
	compile_all_parts(&small);
	parts = small.parts;
	assert_true(parts > 0 && small.failures > 0);
	/* Of the last part, the rules are there already. */
	assert_in_range(small.store.bytes, 1, 200000 + UNWIND_PART_RULES);
	compile_all_parts(&small);
	assert_int_equal(small.parts, parts);
	stack_modules_release(&small);
	assert_int_equal(small.store.bytes, 0);
}

static int count_segments(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X))
			++*(size_t *)context;
	return 0;
}

static void each_segment_of_code_is_there_once(void **state)
{
	const struct stack_map *map;
	size_t segments = 0;

	(void)state;
	update_all();
	map = atomic_load(&modules.map);
	dl_iterate_phdr(count_segments, &segments);
	assert_int_equal(map->count, segments);
	for (size_t i = 0; i < map->count; i++) {
		assert_true(map->ranges[i].start < map->ranges[i].end);
		assert_true(!i || map->ranges[i - 1].end <= map->ranges[i].start);
	}
}

/*
 * With enough time one update compiles all that is wanted: it does not begin again after each part.
 */
static void one_update_is_enough(void **state)
{
	static struct stack_modules own;

	(void)state;
	stack_modules_init(&own, (size_t)1 << 30);
	compile_wanted_parts(&own);
	want_all_parts(&own);
	assert_int_equal(stack_modules_update(&own, 3600 * NS_PER_S), 0);
	assert_true(own.parts > 3);
	stack_modules_release(&own);
}

static void slots_run_out(void **state)
{
	static int slots[STACK_WALKERS_MAX];

	(void)state;
	for (unsigned i = 0; i < STACK_WALKERS_MAX; i++)
		assert_true((slots[i] = stack_slot_reserve(&modules)) >= 0);
	assert_int_equal(stack_slot_reserve(&modules), -1);
	stack_slot_release(&modules, -1); /* a walker without one: nothing happens */
	assert_int_equal(stack_slot_reserve(&modules), -1);
	for (unsigned i = 0; i < STACK_WALKERS_MAX; i++)
		stack_slot_release(&modules, slots[i]);
}

/* With one between them a map could be freed under the one that is in it. */
static void each_walker_has_a_slot_of_its_own(void **state)
{
	struct stack_walker *a = walker_new(), *b = walker_new();
	int slot = a->slot;

	(void)state;
	assert_int_not_equal(a->slot, b->slot);
	walker_free(a);
	a = walker_new();
	assert_int_equal(a->slot, slot); /* it is used again */
	walker_free(a);
	walker_free(b);
}

/* The child has nothing of its parent's but memory, and begins anew. */
static void after_a_fork(void **state)
{
	pid_t child;
	int status;

	(void)state;
	update_all();
	walker = walker_new();
	child = fork();
	if (child == 0) {
		unsigned before = atomic_load(&complete);

		stack_modules_after_fork(&modules);
		if (!stack_walker_init(walker, &modules))
			_exit(2);
		count_here(); /* no map yet: no stack */
		for (int i = 0; i < 5; i++) {
			update_all();
			count_here();
		}
		_exit(atomic_load(&complete) > before ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	walker_free(walker);
}

/* --- everything at once --- */

static void *walk_plugins(void *argument)
{
	int which = (int)(intptr_t)argument;

	walker = walker_new();
	while (!atomic_load(&stop)) {
		void *plugin = open_plugin(which ^= 1);

		/* Now and then it stays until its parts are there. */
		for (int i = 0; i < 20 || (which && last_end != stack_end_complete && i < 100000);
		     i++)
			call_plugin(plugin, i % 10);
		dlclose(plugin);
	}
	walker_free(walker);
	return NULL;
}

static void *collect(void *argument)
{
	while (!atomic_load(&stop)) {
		stack_modules_update(&modules, NS_PER_MS);
		sched_yield();
	}
	return argument;
}

static void loading_and_unloading_while_walking(void **state)
{
	pthread_t threads[THREADS], collector;
	uint64_t until = clock_monotonic_ns() + CHURN_NS;
	unsigned enough = atomic_load(&complete) + 10;

	(void)state;
	pthread_create(&collector, NULL, collect, NULL);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, walk_plugins, (void *)(i % 2));
	while (clock_monotonic_ns() < until || atomic_load(&complete) < enough)
		usleep(10000);
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(collector, NULL);
	print_message("%u stacks complete, %u partial, %u other; %u parts\n",
		      atomic_load(&complete), atomic_load(&partial), atomic_load(&other),
		      modules.parts);
	update_all();
	assert_null(modules.retired);
	stack_modules_release(&modules);
	assert_int_equal(modules.store.bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_compiled_when_stacks_want_them),
		cmocka_unit_test(a_module_is_known_at_once),
		cmocka_unit_test(each_map_is_a_generation),
		cmocka_unit_test(a_map_in_use_is_kept),
		cmocka_unit_test(memory_has_a_ceiling),
		cmocka_unit_test(each_segment_of_code_is_there_once),
		cmocka_unit_test(one_update_is_enough),
		cmocka_unit_test(slots_run_out),
		cmocka_unit_test(each_walker_has_a_slot_of_its_own),
		cmocka_unit_test(after_a_fork),
		cmocka_unit_test(loading_and_unloading_while_walking),
	};

	stack_modules_init(&modules, STACK_RULE_BYTES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
