#include "report/words.h"

#include <string.h>

#include "base/clock.h"
#include "base/human.h"
#include "report/text.h"
#include "names/demangle.h"

void report_thread_text(const struct report *r, uint32_t process, uint32_t thread,
			struct strbuf *out)
{
	const char *name = thread_name(&r->thread_names, process, thread);

	text_safe(out, name, strlen(name));
	strbuf_addf(out, "%s%u", *name ? " " : "thread ", thread);
	if (thread != trace_process(r->trace, process)->pid)
		report_of_process(r, process, out);
}

void report_line_text(const struct report *r, uint32_t caller, uint32_t callee, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	caller_text(&r->callers, caller, callee, &text);
	text_safe(out, strbuf_text(&text), text.length);
}

void report_of_process(const struct report *r, uint32_t process, struct strbuf *out)
{
	const struct trace_process *p = trace_process(r->trace, process);

	if (p->rank != TRACE_NO_RANK)
		strbuf_addf(out, " (rank %u)", p->rank);
	else if (report_process_count(r) > 1)
		strbuf_addf(out, " (pid %u)", p->pid);
}

static void add_pattern(struct strbuf *out, const char *what, const char *pattern)
{
	if (!pattern)
		return;
	strbuf_addf(out, "; %s '", what);
	text_safe(out, pattern, strlen(pattern));
	strbuf_addc(out, '\'');
}

void report_choice_text(const struct filter *f, struct strbuf *out)
{
	if (f->pid >= 0)
		strbuf_addf(out, "; process %lld only", (long long)f->pid);
	if (f->device >= 0)
		strbuf_addf(out, "; device %lld only", (long long)f->device);
	if (f->stream >= 0)
		strbuf_addf(out, "; stream %lld only", (long long)f->stream);
	add_pattern(out, "kernels matching", f->kernel);
	add_pattern(out, "inside scopes matching", f->scope);
}

void report_since_text(uint64_t ns, struct strbuf *out)
{
	if (ns < NS_PER_S)
		strbuf_addf(out, "%llu.%03llums", (unsigned long long)(ns / NS_PER_MS),
			    (unsigned long long)(ns % NS_PER_MS / NS_PER_US));
	else
		strbuf_addf(out, "%llu.%03llus", (unsigned long long)(ns / NS_PER_S),
			    (unsigned long long)(ns % NS_PER_S / NS_PER_MS));
}

void report_ratio_text(uint64_t part, uint64_t whole, struct strbuf *out)
{
	uint64_t hundredths =
		whole ? (uint64_t)(((unsigned __int128)part * 100 + whole / 2) / whole) : 0;

	if (!whole)
		strbuf_addc(out, '-');
	else
		strbuf_addf(out, "%llu.%02llu", (unsigned long long)(hundredths / 100),
			    (unsigned long long)(hundredths % 100));
}

const char *report_cpu_verdict(unsigned verdict)
{
	static const char *const texts[CPU_VERDICTS] = {
		[CPU_WAITING] = "waiting",
		[CPU_STARVED] = "waiting for a processor",
		[CPU_IN_KERNEL] = "in the operating system's kernel",
		[CPU_SINGLE_THREADED] = "CPU-bound, single-threaded",
		[CPU_WORKING] = "CPU-bound",
	};

	return texts[verdict];
}

void report_unfiltered_text(const struct report *r, const char *what, struct strbuf *out)
{
	const struct filter *f = &r->selection.filter;

	if (f->stream >= 0 || f->scope)
		strbuf_addf(out, "%s ignored here: %s belong to code, not to launches\n",
			    f->stream < 0 ? "--scope is"
			    : f->scope    ? "--stream and --scope are"
					  : "--stream is",
			    what);
}

void report_kernel_text(const struct report *r, uint32_t config, bool full, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT;

	if (config == TRACE_NO_ROW) {
		strbuf_adds(out, "(unknown kernel)");
		return;
	}
	kernel_name_text(trace_string(r->trace, kernel_config_columns(r->trace)->name[config]),
			 full, &plain);
	text_safe(out, strbuf_text(&plain), plain.length);
}

bool report_amount_text(const char *unit, double value, struct strbuf *out)
{
	uint64_t whole = value >= 0 && value < 9e18 ? (uint64_t)(value + 0.5) : 0;

	if (!strcmp(unit, "percent"))
		strbuf_addf(out, "%.1f%%", value);
	else if (!strcmp(unit, "nanosecond"))
		human_duration(out, whole);
	else if (!strcmp(unit, "byte"))
		human_bytes(out, whole);
	else if (!strcmp(unit, "byte/second"))
		human_si(out, value, "B/s");
	else if (strstr(unit, "cycle/second"))
		human_si(out, value, "Hz");
	else
		return false;
	return true;
}
