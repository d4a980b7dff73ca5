#include "analysis/callers.h"

#include <string.h>

#include "report_fixture.h"

#define APP UINT64_C(0x400000)
#define TORCH UINT64_C(0x7f1000000000)
#define PYTHON UINT64_C(0x7f2000000000)
#define CUDART UINT64_C(0x7f3000000000)
#define USER "/home/user/train.py"
#define LIBRARY "/venv/lib/python3.12/site-packages/torch/nn/linear.py"

static void modules(struct maker *m)
{
	maker_module(m, "/home/user/app", NULL, APP, APP + 0x10000, 0);
	maker_module(m, "/venv/lib/libtorch.so", NULL, TORCH, TORCH + 0x10000, TORCH);
	maker_module(m, "/usr/bin/python3.12", NULL, PYTHON, PYTHON + 0x10000, PYTHON);
	maker_symbol(m, APP + 0x10, 0, "main", "/home/user/app", "/src/main.c", 5, APP);
	maker_symbol(m, APP + 0x110, 0, "step(int)", "/home/user/app", "/src/step.cc", 20, APP);
	maker_symbol(m, APP + 0x110, 1, "thrust::sort(float*)", "/home/user/app",
		     "/usr/local/cuda/include/thrust/sort.h", 88, 0);
	maker_symbol(m, APP + 0x210, 0, "only::inlined()", "/home/user/app",
		     "/usr/include/c++/12/x.h", 7, APP);
	maker_symbol(m, APP + 0x410, 0, "__device_stub__Z3addPf(float*)", "/home/user/app", NULL, 0,
		     0);
	maker_symbol(m, APP + 0x420, 0, "cudaLaunchKernel", "/home/user/app", NULL, 0, 0);
	maker_symbol(m, APP + 0x430, 0, "libcudart_static_4d8b33a106dceb", "/home/user/app", NULL,
		     0, 0);
	maker_symbol(m, TORCH + 0x10, 0, "at::add()", "/venv/lib/libtorch.so", NULL, 0, 0);
	maker_symbol(m, TORCH + 0x20, 0, "torch::autograd::generated::MmBackward0::apply(int)",
		     "/venv/lib/libtorch.so", NULL, 0, 0);
	maker_symbol(m, TORCH + 0x30, 0, "torch::autograd::CppNode<a::F<b::G> >::apply()",
		     "/venv/lib/libtorch.so", NULL, 0, 0);
	maker_module(m, "/venv/lib/libcudart.so.13", NULL, CUDART, CUDART + 0x10000, CUDART);
	maker_symbol(m, CUDART + 0x10, 0, "cudaLaunchKernel", "/venv/lib/libcudart.so.13", NULL, 0,
		     0);
	maker_symbol(m, PYTHON + 0x10, 0, "_PyEval_Vector", "/usr/bin/python3.12", NULL, 0, 0);
}

/* Stacks, by their innermost frames, and what they come to. */
struct expected {
	uint32_t stack;
	const char *text;
	bool in_kernel; /* the operating system's, innermost */
};

static size_t write_stacks(struct maker *m, struct expected *x)
{
	uint32_t entry, user, library, native;
	size_t n = 0;

#define STACK(node) maker_stack(m, node, 3, stack_end_complete)
	entry = maker_native(m, 0, APP + 0x10);
	x[n++] = (struct expected){ STACK(entry), "main.c:5 main", false };
	native = maker_native(m, entry, TORCH + 0x10);
	x[n++] = (struct expected){ STACK(native), "main.c:5 main -> at::add", false };
	/* a header's function that is inlined there is not the user's */
	native = maker_native(m, entry, APP + 0x110);
	x[n++] = (struct expected){ STACK(native), "step.cc:20 step", false };
	x[n++] = (struct expected){ STACK(maker_native(m, entry, APP + 0x210)),
				    "x.h:7 only::inlined", false };
	x[n++] = (struct expected){ STACK(maker_native(m, entry, APP + 0x310)), "app+0x400310",
				    false };
	/* CUDA's runtime, linked into the program */
	native = maker_native(m, maker_native(m, entry, APP + 0x110), APP + 0x410);
	native = maker_native(m, maker_native(m, native, APP + 0x420), APP + 0x430);
	x[n++] = (struct expected){ STACK(native), "step.cc:20 step", false };
	/* Python comes first */
	user = maker_python(m, maker_native(m, entry, PYTHON + 0x10), "train", USER, 7);
	x[n++] = (struct expected){ STACK(user), "train.py:7 train", false };
	x[n++] = (struct expected){ STACK(maker_native(m, user, PYTHON + 0x10)), "train.py:7 train",
				    false };
	x[n++] = (struct expected){ STACK(maker_native(m, user, APP + 0x110)),
				    "train.py:7 train -> step", false };
	library = maker_python(m, maker_native(m, user, PYTHON + 0x10), "forward", LIBRARY, 3);
	native = maker_native(m, library, TORCH + 0x10);
	/* wherever the callee is, it is one function that the line called: see one_row_a_line */
	x[n++] = (struct expected){ STACK(native), "train.py:7 train -> forward", false };
	/* a user's line that a library called again */
	user = maker_python(m, native, "hook", "/home/user/hooks.py", 9);
	x[n++] = (struct expected){ STACK(user), "hooks.py:9 hook", false };
	native = maker_exact(m, user, frame_kind_kernel, UINT64_C(0xffffffff81000010));
	x[n++] = (struct expected){ STACK(native), "hooks.py:9 hook", true };
	/* nothing of the user's */
	library = maker_python(m, 0, "forward", LIBRARY, 3);
	x[n++] = (struct expected){ STACK(maker_native(m, library, TORCH + 0x10)),
				    "linear.py:3 forward -> at::add", false };
	x[n++] = (struct expected){ STACK(maker_native(m, 0, TORCH + 0x10)), "at::add", false };
	/* the operating system's code is no caller while there is another */
	for (int i = 0; i < 2; i++) {
		native = maker_native(m, i ? entry : 0, TORCH + 0x10);
		native = maker_exact(m, native, frame_kind_kernel, UINT64_C(0xffffffff81000020));
		x[n++] = (struct expected){ STACK(native),
					    i ? "main.c:5 main -> at::add" : "at::add", true };
	}
	native = maker_exact(m, entry, frame_kind_kernel, UINT64_C(0xffffffff81000030));
	x[n++] = (struct expected){ STACK(native), "main.c:5 main", true };
	x[n++] = (struct expected){ STACK(maker_exact(m, 0, frame_kind_kernel, 1)),
				    "[unknown kernel code]", true };
	/*
	 * a thread of autograd: its node, else the innermost function that has a name and is not
	 * CUDA's
	 */
	native = maker_native(m, maker_native(m, 0, TORCH + 0x20), TORCH + 0x10);
	x[n++] = (struct expected){ STACK(maker_native(m, native, CUDART + 0x10)),
				    "MmBackward0 (autograd) -> at::add", false };
	native = maker_native(m, 0, TORCH + 0x30);
	x[n++] = (struct expected){ STACK(native), "CppNode<a::F<b::G> > (autograd)", false };
	native = maker_native(m, maker_native(m, 0, TORCH + 0x10), TORCH + 0x400);
	x[n++] = (struct expected){ STACK(maker_native(m, native, CUDART + 0x10)),
				    "at::add -> libtorch.so+0x400", false };
#undef STACK
	return n;
}

static void places_of_stacks(void **state)
{
	struct maker *m = begin(*state, 100);
	struct trace_options options = { .threads = 1 };
	struct expected x[32];
	struct caller_place place;
	struct error e = { 0 };
	struct callers c;
	struct trace *t;
	size_t count;

	modules(m);
	count = write_stacks(m, x);
	for (size_t i = 0; i < count; i++) {
		m->stack = x[i].stack;
		maker_call(m, MAKER_LAUNCH, 10, 1000 * i, 1000 * i + 10, i + 1);
	}
	m->stack = 0;
	maker_call(m, MAKER_LAUNCH, 10, 1000 * count, 1000 * count + 10, count + 1);
	m->stack = 999;
	maker_call(m, MAKER_LAUNCH, 10, 2000 * count, 2000 * count + 10, count + 2);
	maker_close(m, 90000);
	if (trace_open(*state, &options, &t, &e) < 0 || callers_init(&c, t, true, &e) < 0)
		fail_msg("%s", e.text);
	assert_true(c.any);
	for (size_t i = 0; i < count; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		assert_int_equal(callers_place(&c, 0, x[i].stack, &place), 0);
		caller_text(&c, place.caller, place.callee, &text);
		assert_string_equal(strbuf_text(&text), x[i].text);
		assert_int_equal(callers_of_call(&c, 0, i), place.caller);
		assert_int_equal(place.in_kernel, x[i].in_kernel);
	}
	assert_int_equal(callers_of_call(&c, 0, count), CALLER_NONE);
	assert_int_equal(callers_of_call(&c, 0, count + 1), CALLER_NONE);
	callers_release(&c);
	assert_int_equal(callers_init(&c, t, false, &e), 0);
	assert_int_equal(callers_of_call(&c, 0, 0), CALLER_NONE);
	callers_release(&c);
	trace_free(t);
}

/*
 * A line that calls a function is one row of a table, on whatever line of the function the samples
 * were.
 */
static void one_row_a_line(void **state)
{
	struct maker *m = begin(*state, 100);
	const struct cpu_use *c;
	struct analyzed a;

	modules(m);
	for (uint32_t line = 3; line < 9; line++) {
		uint32_t user = maker_python(m, 0, "step", USER, 7);
		uint32_t work = maker_python(m, user, "work", LIBRARY, line);

		maker_cpu_sample(m, 100, 1000 * line, 10,
				 maker_stack(m, work, 2, stack_end_complete));
	}
	maker_close(m, 90000);
	analyze(&a, *state, EVERYTHING);
	c = a.report.cpu_use;
	assert_int_equal(c->line_count, 1);
	assert_int_equal(c->lines[0].samples, 6);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(places_of_stacks),
		folder_test(one_row_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
