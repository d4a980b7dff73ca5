/*
 * The caller that helps: the innermost function that holds most of a kernel's time, and GPU time by
 * function.
 */
#include <string.h>

#include "../analysis/report_fixture.h"
#include "analysis/gpu_functions.h"
#include "analysis/inner_callers.h"
#include "report/section.h"

#define MODEL "/venv/lib/python3.12/site-packages/transformers/modeling_llama.py"
#define TORCH "/venv/lib/python3.12/site-packages/torch/nn/modules/"

/* A launch in a layer of a model, below torch's own frames; the attention is where `line` is. */
static void layer(struct maker *m, const char *module, uint32_t line, uint32_t config,
		  uint64_t time_ns, uint64_t correlation)
{
	uint32_t node = maker_python(m, 0, "main", "/home/user/hf_generate.py", 10);

	node = maker_python(m, node, "Module._call_impl", TORCH "module.py", 1773);
	node = maker_python(m, node, "LlamaModel.forward", MODEL, 400);
	node = maker_python(m, node, "Module._call_impl", TORCH "module.py", 1773);
	node = maker_python(m, node, module, MODEL, line);
	node = maker_python(m, node, "Linear.forward", TORCH "linear.py", 125);
	m->stack = maker_stack(m, node, 6, stack_end_complete);
	maker_call(m, MAKER_LAUNCH, 100, time_ns, time_ns + 100, correlation);
	maker_kernel(m, config, 7, time_ns + 200, time_ns + 700, correlation);
}

static void the_module_is_named_behind_the_users_line(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t gemm = maker_config(m, "gemm", 1, 32), gemv = maker_config(m, "gemv", 1, 32);
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_options options = EVERYTHING;
	const struct gpu_functions *g;
	static const char *const tree[] = {
		"100.0%  8.00 us    0.0%     0 ns  main (hf_generate.py)\n",
		"100.0%  8.00 us    0.0%     0 ns  LlamaModel.forward (modeling_llama.py)\n",
		"100.0%  8.00 us  100.0%  8.00 us  Linear.forward (linear.py)\n",
		"62.5%  5.00 us    0.0%     0 ns  LlamaAttention.forward (modeling_llama.py)\n",
	};
	uint64_t self_ns = 0;
	const char *at;
	struct analyzed a;

	for (uint64_t i = 0; i < 8; i++) {
		bool attention = i < 6;

		layer(m, attention ? "LlamaAttention.forward" : "LlamaMLP.forward",
		      attention ? 259 + i / 4 : 180, gemm, 1000 + 1000 * i, i + 1);
		layer(m, i % 2 ? "LlamaAttention.forward" : "LlamaMLP.forward", 180, gemv,
		      20000 + 1000 * i, 100 + i);
	}
	maker_close(m, 90000);
	options.callers_of = 10;
	analyze(&a, *state, options);
	report_print_text(&(struct report_view){ .report = &a.report,
						 .path = "x",
						 .width = 120,
						 .callers = 2,
						 .top = 5,
						 .out = &out });
	assert_non_null(strstr(strbuf_text(&out), "all from hf_generate.py:10 main\n"));
	assert_non_null(
		strstr(strbuf_text(&out), "-> LlamaAttention.forward modeling_llama.py:259\n"));
	g = a.report.gpu_functions;
	assert_int_equal(g->total_ns, 16 * 500);
	for (size_t i = 0; i < g->functions.items.count; i++)
		self_ns += g->functions.items.data[i].self_ns;
	assert_int_equal(self_ns + g->stackless_ns, g->total_ns);
	/* its tree of modules, without what only calls on */
	at = strstr(strbuf_text(&out), "\nGPU time by function  8.00 us\n");
	for (size_t i = 0; i < ARRAY_SIZE(tree); i++) {
		assert_non_null(at);
		at = strstr(at, tree[i]);
	}
	assert_non_null(at);
	assert_null(strstr(strbuf_text(&out), "_call_impl ("));
	analyzed_release(&a);
}

/* Of functions with all the work: also where a sample named the inner one first. */
static void callers_come_before_what_they_call(void **state)
{
	static const char *const order[] = { "main (hf_generate.py)", "inner" };
	struct maker *m = begin(*state, 100);
	uint32_t config = maker_config(m, "gemm", 1, 32), node;
	const struct gpu_functions *g;
	struct analyzed a;

	maker_module(m, "/app", NULL, 0x1000, 0x2000, 0);
	maker_symbol(m, 0x1100, 0, "inner", "/app", NULL, 0, 0x1100);
	maker_symbol(m, 0x1200, 0, "launch", "/app", NULL, 0, 0x1200);
	maker_cpu_sample(m, 100, 500, 10,
			 maker_stack(m, maker_native(m, 0, 0x1100), 1, stack_end_complete));
	node = maker_python(m, 0, "main", "/home/user/hf_generate.py", 10);
	node = maker_native(m, maker_native(m, node, 0x1100), 0x1200);
	m->stack = maker_stack(m, node, 3, stack_end_complete);
	maker_call(m, MAKER_LAUNCH, 100, 1000, 1100, 1);
	maker_kernel(m, config, 7, 1200, 1700, 1);
	maker_close(m, 90000);
	analyze(&a, *state, EVERYTHING);
	g = a.report.gpu_functions;
	assert_int_equal(g->functions.items.count, 3);
	for (size_t i = 0; i < 2; i++) {
		const struct function_time *f = &g->functions.items.data[i];

		assert_int_equal(f->total_ns, 500);
		assert_int_equal(f->self_ns, 0);
		assert_string_equal(stacks_text(&a.report.callers.stacks, f->function), order[i]);
	}
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_module_is_named_behind_the_users_line),
		folder_test(callers_come_before_what_they_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
