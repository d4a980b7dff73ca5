#include "record/programs.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/options.h"
#include "sampler/proc_tree.h"

#define GPU_PROCESSES_MAX 256u
#define SOCKETS_BYTES ((size_t)64 << 20)
#define COMMAND_MAX 4096u
#define SEARCH_NS (5 * NS_PER_S)
#define SEARCH_SHARE 500u /* see pace.h */
#define WORK_SHARE 250u
#define CUDA_DEVICE "/dev/nvidia-uvm"

/* --- one program --- */

static void forget_work(struct program *g)
{
	program_work_release(&g->work);
	if (g->tail.live.segment.path)
		live_tail_release(&g->tail);
}

static void release(struct program *g)
{
	forget_work(g);
	free(g->command);
}

static void read_user(struct program *g)
{
	struct stat st;
	char path[32];
	const struct passwd *user;

	snprintf(path, sizeof(path), "/proc/%d", (int)g->pid);
	if (stat(path, &st) < 0)
		return;
	user = getpwuid(st.st_uid);
	if (user)
		snprintf(g->user, sizeof(g->user), "%s", user->pw_name);
	else
		snprintf(g->user, sizeof(g->user), "%u", (unsigned)st.st_uid);
}

/* The command line, or the name if there is none. */
static void read_command(struct program *g)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (io_process_text(g->pid, "cmdline", COMMAND_MAX, &text) < 0 || !text.length)
		(void)!io_process_text(g->pid, "comm", 64, &text);
	if (!text.length)
		return;
	free(g->command);
	g->command = text.failed ? NULL : strndup(text.data, text.length);
}

static struct program *find(struct programs *p, pid_t pid)
{
	for (size_t i = 0; i < p->all.count; i++)
		if (p->all.data[i].pid == pid)
			return &p->all.data[i];
	return NULL;
}

/* Finds or adds a running process; NULL: it is gone, or there is no room. */
static struct program *list(struct programs *p, pid_t pid)
{
	struct program *g = find(p, pid), new = { .pid = pid,
						  .tail.memory = -1,
						  .cpu_percent = -1,
						  .gpu_percent = -1,
						  .memory_bytes = UINT64_MAX };
	struct process_stat stat;

	if (pid == getpid() || !io_process_stat(pid, &stat) || stat.state == 'Z')
		return NULL;
	if (g && g->start_ticks != stat.start_ticks) { /* another process has the number */
		release(g);
		*g = new;
	}
	if (!g) {
		if (p->all.count == PROGRAMS_MAX || vec_push(&p->all, new) < 0)
			return NULL;
		g = &p->all.data[p->all.count - 1];
	}
	g->start_ticks = stat.start_ticks;
	return g;
}

/* --- who is a program --- */

static bool has_cuda_device(pid_t pid)
{
	_cleanup_list_ DIR *fds = folder_list_process(pid, "fd");
	char link[sizeof(CUDA_DEVICE) + 1];
	const char *name;

	while (fds && (name = folder_next(fds))) {
		ssize_t n = readlinkat(dirfd(fds), name, link, sizeof(link));

		if (n == sizeof(CUDA_DEVICE) - 1 && memcmp(link, CUDA_DEVICE, (size_t)n) == 0)
			return true;
	}
	return false;
}

/* Prepared processes, which the names of their sockets show. */
static void list_prepared(struct programs *p)
{
	_cleanup_strbuf_ struct strbuf sockets = STRBUF_INIT;
	static const char name[] = "@" ATTACH_NAME;
	const char *at = io_read_text("/proc/net/unix", SOCKETS_BYTES, &sockets) == 0
				 ? strbuf_text(&sockets)
				 : "";

	while ((at = strstr(at, name))) {
		long pid = strtol(at += sizeof(name) - 1, NULL, 10);
		struct program *g = pid > 0 && pid <= INT_MAX ? list(p, (pid_t)pid) : NULL;

		if (g)
			g->recorder = MAX(g->recorder, PROGRAM_PREPARED);
	}
}

/* All processes whose descriptors this user may see. */
static void search(struct programs *p, uint64_t now_ns)
{
	_cleanup_close_ int folder = -1;
	_cleanup_list_ DIR *names = NULL;
	uint64_t cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID), pid;
	const char *name;

	if (!pace_is_due_after(&p->pace, SEARCH_NS, now_ns))
		return;
	folder = folder_open("/proc", FOLDER_ANY);
	names = folder < 0 ? NULL : folder_list(folder);
	while (names && (name = folder_next(names)))
		if (parse_u64(name, &pid) == 0 && pid <= INT_MAX && has_cuda_device((pid_t)pid))
			list(p, (pid_t)pid);
	pace_add(&p->pace, clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns, SEARCH_SHARE);
}

static void list_named(struct programs *p)
{
	_cleanup_(proc_tree_release) struct proc_tree tree = { 0 };

	if (proc_tree_read(&tree, p->named, p->named_count) >= 0) {
		for (size_t i = 0; i < tree.pids.count; i++) {
			struct program *g = list(p, tree.pids.data[i]);

			if (g)
				g->is_named = true;
		}
	}
}

/* --- what it does --- */

static void read_cpu(struct program *g, uint64_t now_ns)
{
	uint64_t tick_ns = NS_PER_S / (uint64_t)MAX(sysconf(_SC_CLK_TCK), 1L);
	struct process_stat stat;

	if (!io_process_stat(g->pid, &stat))
		return;
	g->state = stat.state;
	if (g->read_ns && now_ns > g->read_ns && stat.cpu_ticks >= g->cpu_ticks)
		g->cpu_percent = (int64_t)((stat.cpu_ticks - g->cpu_ticks) * tick_ns * 100 /
					   (now_ns - g->read_ns));
	g->cpu_ticks = stat.cpu_ticks;
	g->read_ns = now_ns;
}

static void add_memory(struct program *g, const struct nvml_process *n, unsigned gpu)
{
	g->gpus |= UINT64_C(1) << gpu;
	if (n->used_bytes == UINT64_MAX)
		return;
	g->memory_bytes = n->used_bytes + (g->memory_bytes == UINT64_MAX ? 0 : g->memory_bytes);
}

/* The newest value of each process counts. One that is listed and has none has not worked. */
static void add_use(struct programs *p, const struct nvml_process_use *uses, int count,
		    unsigned gpu)
{
	for (size_t i = 0; i < p->all.count; i++) {
		struct program *g = &p->all.data[i];
		const struct nvml_process_use *newest = NULL;

		if (!(g->gpus >> gpu & 1))
			continue;
		for (int k = 0; k < count; k++)
			if (uses[k].pid == (unsigned)g->pid &&
			    (!newest || uses[k].time_us > newest->time_us))
				newest = &uses[k];
		g->gpu_percent = MAX(g->gpu_percent, 0) + (newest ? (int64_t)newest->sm : 0);
	}
}

static void read_gpu(struct programs *p, const struct gpu_device *d, unsigned gpu)
{
	struct nvml_process processes[GPU_PROCESSES_MAX];
	struct nvml_process_use uses[GPU_PROCESSES_MAX];
	unsigned count = d->reader->processes(d, processes, GPU_PROCESSES_MAX);
	int used = d->reader->process_use
			   ? d->reader->process_use(d, p->read_realtime_ns, uses, GPU_PROCESSES_MAX)
			   : -1;

	for (unsigned i = 0; i < count; i++) {
		struct program *g =
			processes[i].pid <= INT_MAX ? list(p, (pid_t)processes[i].pid) : NULL;

		if (g)
			add_memory(g, &processes[i], gpu);
	}
	if (used >= 0)
		add_use(p, uses, used, gpu);
}

/* -ESRCH: the process has begun another segment, or is not being recorded any more. */
static int read_tail(struct programs *p, struct program *g)
{
	struct program_work work;
	struct error e = { 0 };
	int rc = g->tail.live.segment.path ? 0 : live_tail_open(&g->tail, g->pid);

	if (rc < 0)
		return rc;
	rc = program_work_read(&g->tail, p->top, &work, &e);
	if (rc < 0) {
		program_work_release(&work);
		live_tail_release(&g->tail);
		return rc;
	}
	program_work_release(&g->work);
	g->work = work;
	return 0;
}

/* The cost is kept low: programs with many kernels are read less often. */
static void read_work(struct programs *p, struct program *g, uint64_t now_ns)
{
	uint64_t cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	bool was_open = g->tail.live.segment.path;
	int rc;

	if (!pace_is_due_after(&g->pace, NS_PER_S / 2, now_ns))
		return;
	rc = read_tail(p, g);
	if (rc == -ESRCH && was_open)
		rc = read_tail(p, g);
	if (rc < 0)
		forget_work(g);
	if (rc == 0)
		g->recorder = PROGRAM_RECORDED;
	else if (g->recorder == PROGRAM_RECORDED)
		g->recorder = PROGRAM_PLAIN;
	pace_add(&g->pace, clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns,
		 WORK_SHARE * (unsigned)p->all.count);
}

/* Keeps processes that have not ended; of named ones, only these. */
static void drop(struct programs *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->all.count; i++) {
		struct program *g = &p->all.data[i];
		struct process_stat stat;

		if (io_process_stat(g->pid, &stat) && stat.state != 'Z' &&
		    stat.start_ticks == g->start_ticks && (!p->named_count || g->is_named))
			p->all.data[kept++] = *g;
		else
			release(g);
	}
	p->all.count = kept;
}

int programs_read(struct programs *p, const struct monitor *m, struct error *e)
{
	uint64_t now_ns = clock_monotonic_ns();

	for (size_t i = 0; i < p->all.count; i++) {
		struct program *g = &p->all.data[i];

		g->is_named = false;
		g->gpus = 0;
		g->memory_bytes = UINT64_MAX;
		g->gpu_percent = -1;
	}
	if (!p->read_realtime_ns)
		p->read_realtime_ns = clock_read_ns(CLOCK_REALTIME) - NS_PER_S;
	for (unsigned i = 0; i < MIN(m->gpu_count, 64u); i++)
		if (!m->gpus[i].device.lost)
			read_gpu(p, &m->gpus[i].device, i);
	p->read_realtime_ns = clock_read_ns(CLOCK_REALTIME);
	list_prepared(p);
	if (p->named_count)
		list_named(p);
	else
		search(p, now_ns);
	drop(p);
	for (size_t i = 0; i < p->all.count; i++) {
		struct program *g = &p->all.data[i];

		if (!*g->user)
			read_user(g);
		read_command(g);
		read_cpu(g, now_ns);
		read_work(p, g, now_ns);
	}
	live_attach_serve(&p->attach);
	if (p->named_count && !p->all.count)
		return error_set(e, -ESRCH, "there is no process %d", (int)p->named[0]);
	return 0;
}

size_t programs_attach(struct programs *p, struct error *e)
{
	size_t attached = 0;

	for (size_t i = 0; i < p->all.count; i++) {
		struct program *g = &p->all.data[i];
		struct error problem = { 0 };

		if (g->recorder == PROGRAM_RECORDED ||
		    live_attach_add(&p->attach, g->pid, LIVE_ATTACH_TAIL, &problem) == 0)
			attached++;
		else if (!e->code)
			*e = problem;
	}
	return attached;
}

void programs_release(struct programs *p)
{
	live_attach_close(&p->attach);
	for (size_t i = 0; i < p->all.count; i++)
		release(&p->all.data[i]);
	vec_release(&p->all);
}
