/* report_lines_json.c: lines of the program in the report for scripts. */
#include "cli/report_lines.h"

#include "analysis/flame/flame.h"

static void key_list(struct json *j, const char *key)
{
	json_key(j, key);
	json_array(j);
}

void report_json_caller(struct json *j, const struct report *r, const char *key, uint32_t caller)
{
	const struct caller *c;

	json_key(j, key);
	if (caller == CALLER_NONE) {
		json_null(j);
		return;
	}
	c = caller_at(&r->callers, caller);
	json_object(j);
	json_key_string(j, "function", stacks_text(&r->callers.stacks, c->function));
	if (c->file)
		json_key_string(j, "file", stacks_text(&r->callers.stacks, c->file));
	if (c->file && c->line)
		json_key_u64(j, "line", c->line);
	json_key_string(j, "class", frame_class_name((enum frame_class)c->class));
	json_key_bool(j, "library", c->library);
	json_end(j);
}

void report_json_callers(struct json *j, const struct report *r, const struct hotspot *h,
			 uint64_t most)
{
	json_key_u64(j, "caller_count", h->caller_count);
	key_list(j, "callers");
	for (uint64_t i = 0; i < MIN(MIN(h->caller_count, HOTSPOT_CALLERS_MAX), most); i++) {
		json_object(j);
		report_json_caller(j, r, "caller", h->callers[i].caller);
		json_key_u64(j, "count", h->callers[i].count);
		json_key_u64(j, "total_ns", h->callers[i].total_ns);
		json_end(j);
	}
	json_end(j);
}

void report_json_idle_lines(struct json *j, const struct report *r, uint64_t top)
{
	static const char *const sources[] = { "none", "samples", "launches" };
	const struct idle_lines *l = &r->idle_lines;

	json_key(j, "idle_lines");
	json_object(j);
	json_key_string(j, "source", sources[l->source]);
	json_key_u64(j, "gaps", l->gaps);
	json_key_u64(j, "gaps_ns", l->gaps_ns);
	json_key_u64(j, "samples", l->samples);
	json_key_u64(j, "sampled_ns", l->sampled_ns);
	json_key_u64(j, "off_cpu_ns", l->off_cpu_ns);
	key_list(j, "items");
	for (size_t i = 0; i < MIN(l->count, top); i++) {
		json_object(j);
		report_json_caller(j, r, "caller", l->items[i].caller);
		report_json_caller(j, r, "callee", l->items[i].callee);
		json_key_u64(j, "count", l->items[i].count);
		json_key_u64(j, "total_ns", l->items[i].ns);
		json_key_u64(j, "off_cpu_ns", l->items[i].off_cpu_ns);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

void report_json_blocked(struct json *j, const struct report *r, uint64_t top)
{
	key_list(j, "waits");
	for (size_t i = 0; i < MIN(r->blocked.count, top); i++) {
		const struct blocked_line *b = &r->blocked.items[i];
		size_t length;
		const char *name = calls_function_name(r->trace, b->function, &length);

		json_object(j);
		report_json_caller(j, r, "caller", b->caller);
		json_key(j, "function");
		json_bytes(j, name, length);
		json_key_u64(j, "count", b->count);
		json_key_u64(j, "total_ns", b->total_ns);
		json_key_u64(j, "max_ns", b->max_ns);
		json_end(j);
	}
	json_end(j);
}

static void add_threads(struct json *j, const struct report *r, uint64_t top)
{
	const struct cpu_use *c = &r->cpu;

	key_list(j, "threads");
	for (size_t i = 0; i < MIN(c->thread_count, top); i++) {
		const struct cpu_thread *t = &c->threads[i];

		json_object(j);
		json_key_u64(j, "pid", trace_process(r->trace, t->process)->pid);
		json_key_u64(j, "thread", t->thread);
		json_key_string(j, "thread_name", report_thread_name(r, t->process, t->thread));
		json_key_u64(j, "samples", t->samples);
		json_key_u64(j, "total_ns", t->total_ns);
		json_end(j);
	}
	json_end(j);
}

static void add_functions(struct json *j, const struct report *r, uint64_t top)
{
	const struct cpu_use *c = &r->cpu;

	key_list(j, "functions");
	for (size_t i = 0; i < MIN(c->function_count, top); i++) {
		const struct cpu_function *f = &c->functions[i];
		uint8_t class = caller_at(&r->callers, f->caller)->class;

		json_object(j);
		json_key_string(j, "function", stacks_text(&r->callers.stacks, f->function));
		json_key_string(j, "class", frame_class_name((enum frame_class) class));
		json_key_u64(j, "self_ns", f->self_ns);
		json_key_u64(j, "total_ns", f->total_ns);
		json_end(j);
	}
	json_end(j);
}

void report_json_cpu(struct json *j, const struct report *r, uint64_t top)
{
	const struct cpu_use *c = &r->cpu;

	json_key(j, "cpu");
	json_object(j);
	json_key_u64(j, "samples", c->samples);
	json_key_u64(j, "total_ns", c->total_ns);
	json_key(j, "kernel_ns");
	if (c->kernel_ns)
		json_u64(j, c->kernel_ns);
	else
		json_null(j);
	json_key_u64(j, "inside_ns", c->inside_ns);
	json_key_u64(j, "without_stack", c->stackless);
	json_key_u64(j, "without_stack_ns", c->stackless_ns);
	json_key_u64(j, "pauses", c->pauses);
	json_key_u64(j, "pause_ns", c->pause_ns);
	json_key_u64(j, "processes", c->processes);
	json_key_string(j, "way", c->way.got);
	json_key_string(j, "reason", c->way.reason);
	add_threads(j, r, top);
	add_functions(j, r, top);
	key_list(j, "lines");
	for (size_t i = 0; i < MIN(c->line_count, top); i++) {
		json_object(j);
		report_json_caller(j, r, "caller", c->lines[i].caller);
		report_json_caller(j, r, "callee", c->lines[i].callee);
		json_key_u64(j, "samples", c->lines[i].samples);
		json_key_u64(j, "total_ns", c->lines[i].total_ns);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}
