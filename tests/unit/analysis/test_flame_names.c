/*
 * test_flame_names.c: what frames are called (stacks_names.h), and stacks as xpu-perf names them.
 */
#include "analysis/stacks_names.h"
#include "base/path.h"
#include "names/module_name.h"
#include "vendor/vendors.h"

#include "analysis/stacks.h"
#include "report_fixture.h"

static void functions_get_short(void **state)
{
	static const char *const names[][2] = {
		{ "main", "main" },
		{ "", "" },
		{ "f(int)", "f" },
		{ "a::b::f(std::vector<int>, char const*)", "a::b::f" },
		{ "a::f() const", "a::f" },
		{ "a::f(int) const &", "a::f" },
		{ "void f<int>(int)", "f<int>" },
		{ "std::vector<int, std::allocator<int> > g<float>(float*)", "g<float>" },
		{ "unsigned long a::f<3>(unsigned long) [clone .cold]", "a::f<3>" },
		{ "f(int) [clone .isra.0]", "f" },
		{ "a::operator()(int) const", "a::operator()" },
		{ "a::operator()() const", "a::operator()" },
		{ "void a::operator()<int>(int) const", "a::operator()<int>" },
		{ "bool operator< <int>(a<int> const&, a<int> const&)", "operator< <int>" },
		{ "bool a::operator<(a const&) const", "a::operator<" },
		{ "a::operator unsigned int() const", "a::operator unsigned int" },
		{ "operator new(unsigned long)", "operator new" },
		{ "(anonymous namespace)::f(int)", "(anonymous namespace)::f" },
		{ "a::(anonymous namespace)::f(int)::{lambda(int)#1}::operator()(int) const",
		  "a::(anonymous namespace)::f(int)::{lambda(int)#1}::operator()" },
		{ "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
		  "core::ptr::drop_in_place<alloc::vec::Vec<u8>>" },
		{ "<T as core::fmt::Display>::fmt", "<T as core::fmt::Display>::fmt" },
		{ "f)", "f)" },
		{ "(", "(" },
		{ ")", ")" },
		{ " const", " const" },
		{ "libfoo.so+0x10", "libfoo.so+0x10" },
		{ "void at::native::gpu_kernel_impl<at::native::(anonymous "
		  "namespace)::add_functor<float, "
		  "at::native::detail::something_very_long<int, int, "
		  "int>>>(at::TensorIteratorBase&)",
		  "at::native::gpu_kernel_impl<...>" },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaa::"
		  "b<int>::operator-><char>(char)",
		  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaa::"
		  "b<...>::operator-><...>" },
		{ "<&dyn core::ops::function::Fn<(), Output = i32> + core::marker::Sync + "
		  "core::panic::unwind_safe::RefUnwindSafe as "
		  "core::ops::function::FnOnce<()>>::call_once",
		  "<... as core::ops::function::FnOnce<...>>::call_once" },
		{ "<alloc::vec::Vec<alloc::collections::btree::map::BTreeMap<alloc::string::String,"
		  " "
		  "alloc::vec::Vec<u8>>>>::extend_from_within::<usize>",
		  "<alloc::vec::Vec<...>>::extend_from_within::<...>" },
		{ "<lambda(int)>::operator()<std::vector<std::unique_ptr<space::something_long> >, "
		  "std::vector<std::unique_ptr<space::something_long> > >",
		  "<lambda(int)>::operator()<...>" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct strbuf text = STRBUF_INIT;

		function_name_short(names[i][0], &text);
		assert_string_equal(strbuf_text(&text), names[i][1]);
		strbuf_release(&text);
	}
}

/*
 * Anything is a name: no byte outside it is read, and nothing is made longer than it was, but for
 * "<...>".
 */
static void hostile_names(void **state)
{
	static const char alphabet[] = "<>()[]{}:& operator~a1const";
	uint64_t seed = 7;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		size_t length = random_u64(&seed) % 300;
		char *name = malloc(length + 1);
		struct strbuf text = STRBUF_INIT;

		for (size_t i = 0; i < length; i++)
			name[i] = alphabet[random_u64(&seed) % (sizeof(alphabet) - 1)];
		name[length] = '\0';
		function_name_short(name, &text);
		assert_true(text.length <= 5 * length + 5);
		strbuf_release(&text);
		free(name);
	}
}

static void other_names(void **state)
{
	struct strbuf text = STRBUF_INIT;

	(void)state;
	assert_string_equal(base_name("/a/b.so"), "b.so");
	assert_string_equal(base_name("b.so"), "b.so");
	assert_string_equal(base_name("/a/"), "");
	module_name("/a/prog (deleted)", &text);
	module_name("/b/c (deleted).so", &text);
	module_name(" (deleted)", &text);
	assert_string_equal(strbuf_text(&text), "progc (deleted).so (deleted)");
	strbuf_clear(&text);
	python_name("f", "/a/x.py", 3, &text);
	python_name("g", "", 3, &text);
	python_name("h", "y.py", 0, &text);
	assert_string_equal(strbuf_text(&text), "f (x.py:3)gh (y.py)");
	assert_true(is_vendor_module("/usr/lib/libcuda.so.1"));
	assert_true(is_vendor_module("/opt/libcupti.so.13"));
	assert_false(is_vendor_module("/opt/libcudnn.so.9"));
	assert_false(is_vendor_module(""));
	assert_true(vendor_is_library("/opt/libcudnn.so.9"));
	assert_false(vendor_is_library("/usr/lib/libcurl.so.4"));
	assert_true(vendor_is_below_calls("/usr/lib/libcuda.so.1"));
	assert_false(vendor_is_below_calls("/usr/lib/libcudart.so.13"));
	assert_true(vendor_is_launch("cudaLaunchKernel"));
	assert_false(vendor_is_launch("cudaMalloc"));
	assert_true(vendor_is_function("cudaMalloc"));
	strbuf_release(&text);
}

static void whose_code_it_is(void **state)
{
	static const char *const own[] = {
		"/home/user/train.py",
		"train.py",
		"/opt/app/lib/model.py",
		"<string>",
		"/src/step.cc",
		"/home/user/python3/train.py",
		"/home/lib/pythonic/x.py",
		"",
	};
	static const char *const library[] = {
		"/usr/lib/python3.11/threading.py",
		"/home/u/miniconda3/lib/python3.12/json/decoder.py",
		"/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py",
		"/usr/lib/python3/dist-packages/numpy/core.py",
		"<frozen importlib._bootstrap>",
		"/usr/include/c++/12/bits/stl_algo.h",
		"/usr/local/cuda/include/thrust/sort.h",
	};
	static const char *const own_modules[] = { "/usr/bin/app", "/home/user/build/libstep.so",
						   "/opt/app/bin/trainer", "" };
	static const char *const library_modules[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib/libanything.so",
		"[vdso]",
		"/usr/bin/python3.12",
		"/opt/py/lib/libpython3.12.so.1.0",
		"/opt/x/libcudart.so.12",
		"/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so",
		"libcublas.so.12",
		"/opt/pytorch/libc10.so",
		"/usr/local/cuda-13/lib64/libnvrtc.so",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		assert_false(is_library_source(own[i]));
	for (size_t i = 0; i < ARRAY_SIZE(library); i++)
		assert_true(is_library_source(library[i]));
	for (size_t i = 0; i < ARRAY_SIZE(own_modules); i++)
		assert_false(is_library_module(own_modules[i]));
	for (size_t i = 0; i < ARRAY_SIZE(library_modules); i++)
		assert_true(is_library_module(library_modules[i]));
	assert_true(is_interpreter("/usr/bin/python3.12"));
	assert_false(is_interpreter("/usr/lib/libtorch_python.so"));
}

static const char *frame_name(const struct stacks *s, int64_t expansion, uint32_t i)
{
	const struct stack_expansion *x = &s->expansions.data[expansion];

	assert_true(i < x->count);
	return stacks_text(s, s->frames.data[s->expanded.data[x->first + i]].name);
}

static void names_of_addresses(void **state)
{
	struct maker *m = begin(*state, 100);
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };
	struct trace *t;
	struct stacks s;
	uint32_t node;
	enum stack_end end;

	maker_module(m, "/old/liba.so", NULL, 0x1000, 0x2000, 0x1000);
	maker_module(m, "/lib/liba.so", NULL, 0x1000, 0x2000, 0x800); /* mapped there later */
	maker_symbol(m, 0x1010, 0, "wrong", "/lib/liba.so", NULL, 0, 0x800);
	maker_symbol(m, 0x1010, 0, "a::f(int)", "/lib/liba.so", NULL, 0,
		     0x800); /* resolved again */
	maker_symbol(m, 0x1010, 1, "a::g(int)", "/lib/liba.so", "/src/a.h", 5, 0);
	maker_symbol(m, 0x1500, 0, NULL, "/lib/liba.so", NULL, 0, 0xcf0);
	maker_stack(m, maker_native(m, 0, 0x1010), 1, stack_end_complete);
	maker_stack(m, maker_native(m, 0, 0x1500), 1, stack_end_partial); /* unknown function */
	maker_stack(m, maker_native(m, 0, 0x1600), 1, stack_end_complete); /* nothing is known */
	maker_stack(m, maker_native(m, 0, 0x9000), 1, stack_end_complete); /* in no module */
	maker_close(m, 9000);
	if (trace_open(*state, &options, &t, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(stacks_init(&s, t, STACK_FUNCTIONS, false, &e), 0);
	assert_int_equal(stacks_find(&s, 0, 2, &node, &end), 0);
	assert_int_equal(end, stack_end_partial);
	assert_int_equal(node, 1);
	assert_int_equal(stacks_find(&s, 0, 9, &node, &end), 0);
	assert_int_equal(node, TRACE_NO_ROW);
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 0), 0), "a::f");
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 0), 1), "a::g");
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 1), 0), "liba.so+0xcf0");
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 2), 0), "liba.so+0xe00");
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 3), 0), "[unknown]");
	assert_int_equal(stacks_expand(&s, 0, 1), stacks_expand(&s, 0, 1));
	stacks_release(&s);

	assert_int_equal(stacks_init(&s, t, STACK_ADDRESSES, false, &e), 0);
	assert_int_equal(s.expansions.count, 0);
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 0), 0), "a::g"); /* innermost */
	assert_int_equal(s.frames.data[0].line_count, 2);
	assert_string_equal(stacks_text(&s, s.lines.data[0].full_name), "a::g(int)");
	assert_int_equal(s.lines.data[0].line, 5);
	assert_string_equal(stacks_text(&s, s.lines.data[1].function), "a::f");
	stacks_release(&s);

	assert_int_equal(stacks_init(&s, t, STACK_XPU_PERF, false, &e), 0);
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 0), 0),
			    "a::f+0xf"); /* the call, not where it returns to */
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 1), 0), "liba.so+0xcff");
	assert_string_equal(frame_name(&s, stacks_expand(&s, 0, 3), 0), "0x9000");
	stacks_release(&s);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_get_short), cmocka_unit_test(hostile_names),
		cmocka_unit_test(other_names),         cmocka_unit_test(whose_code_it_is),
		folder_test(names_of_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
