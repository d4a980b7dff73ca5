#include "analysis/failures.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/last_words.h"

#define NOT_READY 600

static const struct {
	uint32_t result;
	bool fatal;
	const char *name;
} codes[] = {
	{ 1, false, "CUDA_ERROR_INVALID_VALUE" },
	{ 2, false, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ 3, false, "CUDA_ERROR_NOT_INITIALIZED" },
	{ 4, false, "CUDA_ERROR_DEINITIALIZED" },
	{ 9, false, "cudaErrorInvalidConfiguration" },
	{ 35, false, "cudaErrorInsufficientDriver" },
	{ 98, false, "cudaErrorInvalidDeviceFunction" },
	{ 100, false, "CUDA_ERROR_NO_DEVICE" },
	{ 101, false, "CUDA_ERROR_INVALID_DEVICE" },
	{ 200, false, "CUDA_ERROR_INVALID_IMAGE" },
	{ 201, false, "CUDA_ERROR_INVALID_CONTEXT" },
	{ 209, false, "CUDA_ERROR_NO_BINARY_FOR_GPU" },
	{ 214, true, "CUDA_ERROR_ECC_UNCORRECTABLE" },
	{ 218, false, "CUDA_ERROR_INVALID_PTX" },
	{ 220, true, "CUDA_ERROR_NVLINK_UNCORRECTABLE" },
	{ 304, false, "CUDA_ERROR_OPERATING_SYSTEM" },
	{ 400, false, "CUDA_ERROR_INVALID_HANDLE" },
	{ 401, false, "CUDA_ERROR_ILLEGAL_STATE" },
	{ 500, false, "CUDA_ERROR_NOT_FOUND" },
	{ NOT_READY, false, "CUDA_ERROR_NOT_READY" },
	{ 700, true, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	{ 701, false, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" },
	{ 702, true, "CUDA_ERROR_LAUNCH_TIMEOUT" },
	{ 704, false, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" },
	{ 705, false, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" },
	{ 709, false, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
	{ 710, true, "CUDA_ERROR_ASSERT" },
	{ 712, false, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" },
	{ 713, false, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" },
	{ 714, true, "CUDA_ERROR_HARDWARE_STACK_ERROR" },
	{ 715, true, "CUDA_ERROR_ILLEGAL_INSTRUCTION" },
	{ 716, true, "CUDA_ERROR_MISALIGNED_ADDRESS" },
	{ 717, true, "CUDA_ERROR_INVALID_ADDRESS_SPACE" },
	{ 718, true, "CUDA_ERROR_INVALID_PC" },
	{ 719, true, "CUDA_ERROR_LAUNCH_FAILED" },
	{ 720, false, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" },
	{ 800, false, "CUDA_ERROR_NOT_PERMITTED" },
	{ 801, false, "CUDA_ERROR_NOT_SUPPORTED" },
	{ 802, false, "CUDA_ERROR_SYSTEM_NOT_READY" },
	{ 803, false, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
	{ 900, false, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
	{ 901, false, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
	{ 906, false, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" },
	{ 908, false, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" },
	{ 910, false, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" },
	{ 999, false, "CUDA_ERROR_UNKNOWN" },
};

const char *failure_name(uint32_t result)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].result == result)
			return codes[i].name;
	return NULL;
}

bool failure_is_fatal(uint32_t result)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].result == result)
			return codes[i].fatal;
	return false;
}

struct collecting {
	const struct report *report;
	const struct api_call_columns *columns;
	VEC(struct failure) items;
	uint64_t fatal_ns; /* end of the first call with a fatal error; UINT64_MAX: none */
	uint32_t fatal_process;
	uint64_t calls;
};

static struct failure *find(struct collecting *x, const struct failure *new)
{
	for (size_t i = 0; i < x->items.count; i++) {
		struct failure *f = &x->items.data[i];

		if (f->process == new->process && f->function == new->function &&
		    f->caller == new->caller && f->result == new->result)
			return f;
	}
	return NULL;
}

#define FAILURES_MAX 1024 /* distinct failures; more are only counted in `calls` */

static int add_call(void *user, uint32_t process, uint32_t row)
{
	struct collecting *x = user;
	const struct report *r = x->report;
	uint32_t result =
		column_has(x->columns->valid.result, row) ? (uint32_t)x->columns->result[row] : 0;
	struct failure new, *f;

	if (!result || result == NOT_READY)
		return 0;
	new = (struct failure){ .process = process,
				.function = r->calls.functions[row],
				.caller = callers_of_call(&r->callers, process, row),
				.result = result,
				.first_ns = r->calls.start_ns[row] };
	x->calls++;
	if (failure_is_fatal(new.result) && r->calls.end_ns[row] < x->fatal_ns) {
		x->fatal_ns = r->calls.end_ns[row];
		x->fatal_process = process;
	}
	f = find(x, &new);
	if (!f && x->items.count == FAILURES_MAX)
		return 0;
	if (!f && vec_push(&x->items, new) < 0)
		return -ENOMEM;
	f = f ? f : &x->items.data[x->items.count - 1];
	f->count++;
	f->first_ns = MIN(f->first_ns, new.first_ns);
	return 0;
}

static uint32_t name_of(const struct trace *t, uint32_t config)
{
	return kernel_config_columns(t)->name[config];
}

/* Finds the kernel that was launched last before the context failed, the most likely cause. */
static void find_last_kernel(const struct collecting *x, struct failures *out)
{
	const struct report *r = x->report;
	const uint32_t *configs = kernel_columns(r->trace)->config;
	uint64_t latest_ns = 0;

	for (int pass = 0; pass < 2; pass++)
		for (struct row_walk w = process_rows(r->trace, TABLE_kernel, x->fatal_process);
		     row_walk_next(&w);) {
			uint32_t call = calls_launch(&r->calls, 0, w.row), config = configs[w.row];

			if (call == TRACE_NO_ROW ||
			    config >= trace_rows(r->trace, TABLE_kernel_config) ||
			    r->calls.start_ns[call] >= x->fatal_ns)
				continue;
			if (pass)
				out->last_launches += name_of(r->trace, config) ==
						      name_of(r->trace, out->last_config);
			else if (r->calls.start_ns[call] >= latest_ns) {
				latest_ns = r->calls.start_ns[call];
				out->last_config = config;
			}
		}
}

/*
 * CUPTI may have no record of the launch that failed: then a kernel before it must not be named.
 */
static void find_last_call(const struct collecting *x, struct failures *out)
{
	const struct report *r = x->report;
	uint64_t launches = 0, last = TRACE_NO_ROW;
	uint32_t with_record = TRACE_NO_ROW;

	for (struct row_walk w = process_rows(r->trace, TABLE_api_call, x->fatal_process);
	     row_walk_next(&w);) {
		enum api_kind kind = calls_kind(&r->calls, w.row);

		if ((kind != api_kind_launch && kind != api_kind_graph_launch) ||
		    r->calls.start_ns[w.row] >= x->fatal_ns)
			continue;
		launches++;
		if (last == TRACE_NO_ROW || r->calls.start_ns[w.row] >= r->calls.start_ns[last])
			last = w.row;
	}
	for (struct row_walk w = process_rows(r->trace, TABLE_kernel, x->fatal_process);
	     last != TRACE_NO_ROW && row_walk_next(&w);)
		if (calls_launch(&r->calls, 0, w.row) == last)
			with_record = (uint32_t)last;
	if (last == TRACE_NO_ROW || with_record != TRACE_NO_ROW)
		return;
	out->last_config = TRACE_NO_ROW;
	out->has_no_record = true;
	out->last_caller = callers_of_call(&r->callers, x->fatal_process, (uint32_t)last);
	out->last_launches = launches;
	out->last_name = last_words_name(r->trace, x->fatal_process,
					 api_call_columns(r->trace)->correlation[last]);
}

ORDER(compare, struct failure, UP(first_ns) ?: UP(process))

static int run(struct report *r, void *result)
{
	struct failures *out = result;
	struct collecting x = { .report = r,
				.columns = api_call_columns(r->trace),
				.fatal_ns = UINT64_MAX };
	int code = 0;

	/* Most recordings have no failure, and need no visit of their calls. */
	if (trace_has_values(r->trace, TABLE_api_call, COLUMN_api_call_result))
		code = calls_visit(r->trace, &r->selection, &r->calls, CALLS_ANY, add_call, &x);
	vec_sort(&x.items, compare);
	*out = (struct failures){ .items = x.items.data,
				  .count = x.items.count,
				  .calls = x.calls,
				  .last_config = TRACE_NO_ROW,
				  .last_caller = CALLER_NONE,
				  .last_name = TRACE_NO_ROW };
	while (out->fatal < out->count && !failure_is_fatal(out->items[out->fatal].result))
		out->fatal++;
	if (out->fatal < out->count)
		find_last_kernel(&x, out);
	if (out->fatal < out->count)
		find_last_call(&x, out);
	return code;
}

const struct analysis analysis_failures = {
	.size = sizeof(struct failures),
	.needs = { { TABLE_kernel, COLUMN_BITS(kernel, config) },
		   { TABLE_api_call, COLUMN_BITS(api_call, result, correlation) },
		   { TABLE_unfinished, COLUMN_BITS(unfinished, correlation, name) } },
	.run = run,
	.owned = { OWNS(struct failures, items) },
};
