#include "analysis/thread_names.h"

#include <errno.h>

#include "analysis/filter.h"
#include "trace/columns.h"

int thread_names_init(struct thread_names *n, const struct trace *t)
{
	const struct thread_columns *c = thread_columns(t);

	*n = (struct thread_names){ .trace = t, .names = MAP_INIT };
	for (int own = 0; own < 2; own++)
		for (struct row_walk w = all_rows(t, TABLE_thread); row_walk_next(&w);) {
			uint64_t subject = trace_process(t, w.process)->subject;

			if ((subject == w.process) == own &&
			    map_put(&n->names, subject << 32 | c->tid[w.row], c->name[w.row]) < 0)
				return -ENOMEM;
		}
	return 0;
}

void thread_names_release(struct thread_names *n)
{
	map_release(&n->names);
}

const char *thread_name(const struct thread_names *n, size_t process, uint32_t thread)
{
	uint64_t subject = trace_process(n->trace, process)->subject, name;

	return map_get(&n->names, subject << 32 | thread, &name)
		       ? trace_string(n->trace, (uint32_t)name)
		       : "";
}
