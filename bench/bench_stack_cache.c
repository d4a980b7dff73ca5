/* layer: stack */
/*
 * bench_stack_cache: the cost of a launch's stack in a Python program whose loop has many different
 * stacks. Prints nanoseconds per launch, and how many stacks were in the thread's cache. The stacks
 * are those of nested modules like PyTorch's, with 88 frames on CPython 3.12.
 *
 *	bench_stack_cache [libpython…]	default: the newest that the loader finds
 *
 * Between two launches the program reads TRAMPLED bytes, because real launches find processor
 * caches that other code has used.
 */
#include <stdio.h>
#include <string.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/reserve.h"
#include "stack/intern.h"
#include "stack/python/python_splice.h"
#include "stack/stack_cache.h"
#include "python_library.h"

#define FRAMES_MAX 512u
#define TRAMPLED (128u << 10)
#define INTERRUPTED_CYCLES 50000u /* of a launch that was interrupted, and is ignored */

static struct python_runtime runtime;
static struct python_eval eval;
static struct python_codes *codes;
static struct stack_modules modules;
static struct stack_walker walker;
static struct stack_cache *cache;
static struct stack_interner interner;
static uint64_t native[FRAMES_MAX], frames[FRAMES_MAX];
static struct python_frame python[FRAMES_MAX];
static uint64_t launches, found, cycles, cycles_found;
static uint8_t trampled[TRAMPLED];
static volatile uint8_t sum;

static bool on_new_stack(void *context, uint32_t id, const uint64_t *stack, unsigned count,
			 enum stack_end end)
{
	(void)context;
	(void)stack;
	return id + count + end > 0;
}

/* Works like stack_capture.c. */
static void walk_and_add(const struct stack_registers *registers, const struct cache_python *where)
{
	struct python_stacks stacks = { .native = native, .python = python };
	enum python_match match;
	enum stack_end end;
	uint32_t id;
	unsigned n;

	stacks.native_count = stack_walk(&walker, registers, native, FRAMES_MAX, &end);
	stacks.native_complete = end == stack_end_complete;
	stacks.python_count = python_walk_from(&runtime, where->state, python, FRAMES_MAX,
					       &stacks.python_complete);
	python_code_ids(codes, python, stacks.python_count);
	n = python_splice(&eval, &stacks, frames, FRAMES_MAX, &match);
	id = stack_intern(&interner, frames, n, end, on_new_stack, NULL);
	if (id && end == stack_end_complete && match == PYTHON_MATCH_EXACT)
		stack_cache_add(cache, &walker, registers, where, id);
}

static __attribute__((noinline)) void capture(void)
{
	uint64_t start, end;
	struct stack_registers registers;
	struct cache_python where;
	uint32_t id;

	for (size_t i = 0; i < TRAMPLED; i += 64)
		sum = (uint8_t)(sum + trampled[i]);
	start = __rdtsc();
	where = (struct cache_python){ .runtime = &runtime,
				       .state = python_thread_state(&runtime),
				       .freed = python_codes_freed(codes) };
	STACK_CAPTURE(&registers);
	id = stack_cache_find(cache, &walker, &registers, &where);
	if (!id)
		walk_and_add(&registers, &where);
	end = __rdtsc();
	if (end - start > INTERRUPTED_CYCLES)
		return;
	found += id != 0;
	cycles_found += id ? end - start : 0;
	cycles += end - start;
	launches++;
}

/* Functions between the interpreter and the launch. */
#define LEVEL(name, next, room)                                                                    \
	__attribute__((noinline)) static void name(long which)                                     \
	{                                                                                          \
		volatile char bytes[room];                                                         \
		bytes[0] = (char)which;                                                            \
		next(which);                                                                       \
		bytes[0] = (char)(bytes[0] + 1);                                                   \
	}
__attribute__((noinline)) static void level_0(long which)
{
	capture();
	__asm__ volatile("" : : "r"(which));
}
LEVEL(level_1, level_0, 200)
LEVEL(level_2, level_1, 24)
LEVEL(level_3, level_2, 100)
LEVEL(level_4, level_3, 300)
LEVEL(level_5, level_4, 56)
LEVEL(level_6, level_5, 8)
LEVEL(level_7, level_6, 100)
LEVEL(level_8, level_7, 40)
LEVEL(level_9, level_8, 24)
LEVEL(even, level_9, 48)
LEVEL(odd, level_9, 64)

static void *launch(void *self, void *number)
{
	long which = CALL(long (*)(void *), "PyLong_AsLong", number);

	(void)self;
	if (which & 1)
		odd(which);
	else
		even(which);
	return CALL(void *(*)(long), "PyLong_FromLong", 0);
}

static void *report(void *self, void *number)
{
	static uint64_t start_ns, start_cycles;
	long turns = CALL(long (*)(void *), "PyLong_AsLong", number);
	double ns;

	(void)self;
	if (turns) {
		ns = (double)(clock_monotonic_ns() - start_ns) / (double)(__rdtsc() - start_cycles);
		printf("%5.0f stacks in turn: %5.0f ns per launch, %5.1f %% cached in %4.0f ns\n",
		       (double)launches / (double)turns, ns * (double)cycles / (double)launches,
		       100.0 * (double)found / (double)launches,
		       found ? ns * (double)cycles_found / (double)found : 0);
	}
	while (stack_modules_update(&modules, NS_PER_S) > 0)
		;
	launches = found = cycles = cycles_found = 0;
	start_ns = clock_monotonic_ns();
	start_cycles = __rdtsc();
	return CALL(void *(*)(long), "PyLong_FromLong", 0);
}

/* A model of nested modules, four deep, repeated for the requested number of distinct launches. */
static const char script[] =
	"class Module:\n"
	"    def _call_impl(self, *args, **kwargs):\n"
	"        forward_call = self.forward\n"
	"        return forward_call(*args, **kwargs)\n"
	"    def _wrapped_call_impl(self, *args, **kwargs):\n"
	"        return self._call_impl(*args, **kwargs)\n"
	"    def __call__(self, *args, **kwargs):\n"
	"        return self._wrapped_call_impl(*args, **kwargs)\n"
	"class Linear(Module):\n"
	"    def forward(self, x, *, which=0):\n"
	"        return launch(which)\n"
	"def module(name, children, direct):\n"
	"    lines = [f'        self.child_{i}(x, which={i})' for i in range(len(children))]\n"
	"    lines += [f'        launch({i})' for i in range(direct)]\n"
	"    text = f'class {name}(Module):\\n    def forward(self, x, *, which=0):\\n' + "
	"'\\n'.join(lines)\n"
	"    space = dict(Module=Module, launch=launch)\n"
	"    exec(text, space)\n"
	"    made = space[name]()\n"
	"    for i, child in enumerate(children): setattr(made, f'child_{i}', child)\n"
	"    return made\n"
	"def layer(n):\n"
	"    mlp = module('MLP', [Linear() for i in range(n)], n // 2)\n"
	"    attention = module('Attention', [Linear() for i in range(n)], n // 2)\n"
	"    return module('Layer', [attention, mlp], n - n // 2 * 2 + n // 2)\n"
	"class Model(Module):\n"
	"    def __init__(self, size): self.layers = [layer(size) for i in range(4)]\n"
	"    def forward(self, x, *, turns=1):\n"
	"        for turn in range(turns):\n"
	"            for one in self.layers: one(x, which=0)\n"
	"class Causal(Module):\n"
	"    def __init__(self, size): self.model = Model(size)\n"
	"    def forward(self, x, *, turns=1): self.model(x, turns=turns)\n"
	"def sample(model, turns):\n"
	"    model('x', turns=turns)\n"
	"def generate(model, turns): sample(model, turns)\n"
	"def main():\n"
	"    for n in 1, 7, 28, 70:\n"
	"        model = Causal(n)\n"
	"        generate(model, 5)\n"
	"        report(0)\n"
	"        generate(model, 1)\n"
	"        report(0)\n"
	"        turns = 20000 // n\n"
	"        generate(model, turns)\n"
	"        report(turns)\n"
	"main()\n";

int main(int argc, char **argv)
{
	static struct python_method methods[] = { { "launch", launch, METH_O_, NULL },
						  { "report", report, METH_O_, NULL } };
	struct error e = { 0 };

	if (!open_library(argc > 1 ? argv[1] : NULL)) {
		puts("skipped: no libpython here; give its path as argument");
		return argc > 1;
	}
	if (python_runtime_find(&runtime, &e) < 0 || python_eval_find(&runtime, &eval, &e) < 0) {
		printf("skipped: %s\n", e.text);
		return 0;
	}
	codes = python_codes_new(PYTHON_CODES_SLOTS, PYTHON_CODES_BYTES);
	cache = reserve_memory(sizeof(*cache));
	stack_modules_init(&modules, STACK_RULE_BYTES);
	stack_modules_update(&modules, NS_PER_S);
	if (!codes || !cache || !stack_walker_init(&walker, &modules) ||
	    stack_interner_init(&interner, 1u << 16, 0) < 0)
		return 1;
	python_codes_attach(codes, &runtime);
	return run_script(script, methods, ARRAY_SIZE(methods));
}
