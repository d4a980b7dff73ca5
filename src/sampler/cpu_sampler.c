/* cpu_sampler.c: the sampler's thread, and the choice of the method. */
#include "sampler/cpu_sampler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "sampler/cpu_method.h"

#define POLL_MS 100

#define TIMER_NAME "a timer inside each process"

const char *const cpu_method_options[] = { "auto", "ebpf", "perf", "timer", NULL };

static const struct cpu_method_ops timer = { .name = TIMER_NAME, .method = CPU_METHOD_TIMER };

/* Best first. */
static const struct cpu_method_ops *const methods[] = {
#ifdef PITOT_HAVE_EBPF
	&cpu_method_ebpf,
#endif
	&cpu_method_perf,
	&timer,
	NULL,
};

struct cpu_sampler {
	const struct cpu_method_ops *method;
	struct cpu_sampling_state *state; /* NULL: of the timer, which has none */
	struct targets *targets;
	struct strbuf reason;
	pthread_t thread;
	atomic_bool stop;
	int wake_fd; /* eventfd: wakes the thread after `stop` was set */
	uint64_t cpu_ns; /* of the thread, set when it ends */
};

static const struct cpu_method_ops *method_ops(enum cpu_method method)
{
	for (size_t i = 0; methods[i]; i++)
		if (methods[i]->method == method)
			return methods[i];
	return NULL;
}

const char *cpu_method_name(enum cpu_method method)
{
	static const char *const names[] = { "auto", "eBPF", "perf_event", TIMER_NAME };

	return (size_t)method < ARRAY_SIZE(names) ? names[method] : "unknown";
}

static void *run(void *user)
{
	struct cpu_sampler *s = user;

	pthread_setname_np(pthread_self(), "pitot-cpu");
	while (!atomic_load_explicit(&s->stop, memory_order_acquire)) {
		if (s->method->poll(s->state, POLL_MS, s->wake_fd) < 0)
			break;
		targets_flush(s->targets, clock_monotonic_ns(), false);
	}
	s->method->finish(s->state);
	s->cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	if (s->method->kernel_ns)
		s->cpu_ns += s->method->kernel_ns(s->state);
	return NULL;
}

/* The sampler's thread blocks all signals: the thread that waits for the command handles them. */
static int start_thread(struct cpu_sampler *s)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

/* A recorder cannot get into a process that is running already. */
static int open_timer(struct cpu_sampler *s, const struct cpu_roots *roots, struct error *e)
{
	if (roots->running)
		return error_set(e, E_UNSUPPORTED, "the processes are running already");
	s->method = &timer;
	strbuf_addf(&s->reason, "%ssetuid, static and very short-lived programs are not sampled",
		    s->reason.length ? "; " : "");
	return 0;
}

static int open_method(struct cpu_sampler *s, const struct cpu_method_ops *method,
		       const struct cpu_options *options, const struct cpu_roots *roots,
		       struct error *e)
{
	struct strbuf reason = STRBUF_INIT;
	int err;

	if (method == &timer)
		return open_timer(s, roots, e);
	err = method->open(options, roots, s->targets, &reason, &s->state, e);
	if (err < 0) {
		strbuf_release(&reason);
		return err;
	}
	s->method = method;
	if (s->reason.length && reason.length)
		strbuf_adds(&s->reason, "; ");
	strbuf_adds(&s->reason, strbuf_text(&reason));
	strbuf_release(&reason);
	return 0;
}

/* Opens the requested method, or the best that is allowed. */
static int choose_method(struct cpu_sampler *s, const struct cpu_options *options,
			 const struct cpu_roots *roots, struct error *e)
{
	struct error why = { 0 };
	int err = -ENOENT;

	for (size_t i = 0; methods[i]; i++) {
		if (options->method != CPU_METHOD_AUTO && options->method != methods[i]->method)
			continue;
		if (options->method == CPU_METHOD_AUTO && methods[i] == &timer && roots->running)
			continue;
		why = (struct error){ 0 };
		err = open_method(s, methods[i], options, roots, &why);
		if (err >= 0 || err == -ESRCH || err == -ENOMEM)
			break;
		strbuf_addf(&s->reason, "%sno %s: %s", s->reason.length ? "; " : "",
			    methods[i]->name, why.text);
	}
	if (err == -ENOENT)
		return error_set(e, E_UNSUPPORTED, "this pitot was built without %s",
				 cpu_method_name(options->method));
	if (err >= 0)
		return 0;
	return error_set(e, err == -ESRCH || err == -ENOMEM ? err : E_UNSUPPORTED,
			 "cannot sample the CPU: %s",
			 err == -ESRCH || err == -ENOMEM ? why.text : strbuf_text(&s->reason));
}

int cpu_sampler_start(const struct cpu_options *options, const struct cpu_roots *roots,
		      struct cpu_sampler **out, struct error *e)
{
	const struct targets_options targets_options = {
		.directory = options->directory,
		.folder = options->folder,
		.max_bytes = options->max_bytes,
		.period_ns = NS_PER_S / MAX(options->hz, 1u),
		.file_copies = options->file_copies,
	};
	struct cpu_sampler *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->wake_fd = -1;
	err = targets_new(&targets_options, &s->targets, e);
	if (err >= 0)
		err = choose_method(s, options, roots, e);
	if (err >= 0 && s->state) {
		s->wake_fd = io_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		err = s->wake_fd < 0 ? -errno : start_thread(s);
		if (err < 0)
			error_errno(e, -err, "cannot start the sampler's thread");
	}
	if (err < 0) {
		if (s->state)
			s->method->free(s->state);
		if (s->targets)
			targets_free(s->targets, NULL);
		fd_close(&s->wake_fd);
		strbuf_release(&s->reason);
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

enum cpu_method cpu_sampler_method(const struct cpu_sampler *s)
{
	return s->method->method;
}

const char *cpu_sampler_reason(const struct cpu_sampler *s)
{
	return strbuf_text(&s->reason);
}

enum cpu_python cpu_sampler_python(const struct cpu_sampler *s)
{
	return s->method->python ? s->method->python(s->state) : CPU_PYTHON_READ;
}

void cpu_explain_no_python(const struct cpu_roots *roots, bool was_chosen, enum cpu_python python,
			   struct strbuf *out)
{
	bool is_root = geteuid() == 0;

	strbuf_adds(out, "no Python frames");
	if (!roots->running)
		return;
	strbuf_adds(out, ", which need eBPF here");
	if (python == CPU_PYTHON_FORBIDDEN)
		strbuf_adds(out, ", because the process may not be read "
				 "(kernel.yama.ptrace_scope)");
	if (is_root && !was_chosen)
		return;
	strbuf_addf(out, ": %spitot record", is_root ? "" : "sudo ");
	for (size_t i = 0; i < roots->count; i++)
		strbuf_addf(out, " -p %d", (int)roots->pids[i]);
}

static void get_allocator(const struct cpu_sampler *s, struct cpu_sampler_result *out)
{
	if (s->method->allocator)
		out->allocator = s->method->allocator(s->state, &out->no_allocator);
	else
		strbuf_addf(&out->no_allocator, "it needs eBPF, and the CPU is sampled by %s%s%s",
			    cpu_method_name(s->method->method), s->reason.length ? ": " : "",
			    strbuf_text(&s->reason));
}

int cpu_sampler_stop(struct cpu_sampler **sampler, struct cpu_sampler_result *result,
		     struct error *e)
{
	struct cpu_sampler *s = *sampler;
	int err;

	if (!s)
		return 0;
	if (s->state) {
		atomic_store_explicit(&s->stop, true, memory_order_release);
		eventfd_write(s->wake_fd, 1);
		pthread_join(s->thread, NULL);
		close(s->wake_fd);
	}
	if (result) {
		result->cpu_ns = s->cpu_ns;
		get_allocator(s, result);
	}
	if (s->state)
		s->method->free(s->state);
	targets_flush(s->targets, clock_monotonic_ns(), true);
	err = targets_free(s->targets, e);
	strbuf_release(&s->reason);
	free(s);
	*sampler = NULL;
	return err;
}

int cpu_method_check(enum cpu_method method, struct error *e)
{
	const struct cpu_method_ops *ops = method_ops(method);

	if (!ops)
		return error_set(e, E_UNSUPPORTED, "this pitot was built without %s",
				 cpu_method_name(method));
	return ops->check ? ops->check(e) : 0;
}
