/* selection.c: the rows that a filter selects. */
#include "analysis/filter.h"
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include "analysis/nvtx_ranges.h"
#include "trace/columns.h"

static int select_processes(struct selection *s)
{
	size_t count = trace_process_count(s->trace);

	s->processes = malloc(count + 1);
	if (!s->processes)
		return -ENOMEM;
	for (size_t p = 0; p < count; p++)
		s->processes[p] =
			s->filter.pid < 0 || trace_process(s->trace, p)->pid == s->filter.pid;
	return 0;
}

/* Tests each name once, although many configurations may have it. */
static int select_configs(struct selection *s)
{
	uint64_t rows = trace_rows(s->trace, TABLE_kernel_config);
	const uint32_t *names = kernel_config_columns(s->trace)->name;
	uint32_t strings = trace_string_count(s->trace);
	_cleanup_free_ uint8_t *known = calloc((size_t)strings + 1, 1);

	s->configs = malloc(rows + 1);
	if (!known || !s->configs)
		return -ENOMEM;
	for (uint64_t row = 0; row < rows; row++) {
		uint8_t *state = &known[MIN(names[row], strings)];

		if (!*state)
			*state = kernel_name_matches(s->filter.kernel,
						     trace_string(s->trace, names[row]))
					 ? 2
					 : 1;
		s->configs[row] = *state == 2;
	}
	return 0;
}

static int select_calls(struct selection *s, const struct nvtx_ranges *ranges)
{
	uint64_t rows = trace_rows(s->trace, TABLE_api_call);

	s->scopes = scope_paths_match(ranges, s->trace, s->filter.scope);
	s->calls = malloc(rows + 1);
	if (!s->scopes || !s->calls)
		return -ENOMEM;
	for (uint64_t row = 0; row < rows; row++)
		s->calls[row] =
			scope_path_selected(s->scopes, nvtx_path_of_call(ranges, (uint32_t)row));
	return 0;
}

int selection_init(struct selection *s, struct trace *t, const struct filter *f,
		   const struct nvtx_ranges *ranges, struct error *e)
{
	int rc = 0;

	*s = (struct selection){ .trace = t, .filter = *f };
	s->windowed = f->since_ns || f->until_ns != UINT64_MAX;
	if (f->kernel)
		rc = trace_load(t, TABLE_kernel_config, COLUMN_BITS(kernel_config, name), e);
	if (rc < 0)
		return rc;
	rc = select_processes(s);
	if (rc >= 0 && f->kernel)
		rc = select_configs(s);
	if (rc >= 0 && f->scope)
		rc = select_calls(s, ranges);
	if (rc < 0) {
		selection_release(s);
		return error_set(e, rc, "out of memory");
	}
	return 0;
}

void selection_release(struct selection *s)
{
	free(s->processes);
	free(s->configs);
	free(s->scopes);
	free(s->calls);
	*s = (struct selection){ 0 };
}
