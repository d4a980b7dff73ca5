/*
 * triggers.c: dumps of a ring that rules make (rules/rule.h), while the command runs.
 *
 * The rows that processes write into the ring are read here, a few times a second, and nothing of
 * it happens in these processes. A moment is judged a second later, when what happened then has
 * been written. The dump has that moment, what was before it and what came after it; if the command
 * ends before, its recording has all of that, and there is no dump. Table `trigger` has each moment
 * at which a rule held, and what became of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/map.h"
#include "base/path.h"
#include "base/plural.h"
#include "base/timed_work.h"
#include "format/recording_dir.h"
#include "format/rows.h"
#include "record/deepen.h"
#include "record/dump_slots.h"
#include "record/kept_dumps.h"
#include "record/notify.h"
#include "record/recording.h"
#include "rules/rule_feed.h"
#include "rules/rule_plan.h"

/* Rows are written within a quarter of a second after they are known; others are later. */
#define LAG_NS NS_PER_S
#define SLOT_NS (PITOT_SLOWNESS * 10 * NS_PER_S) /* that a dump waits for those of others */
#define DUMP_NAMES_MAX 1000u
#define NOTICE_NS (PITOT_SLOWNESS * 2 * NS_PER_S) /* that the end of the recording waits for one */

/* A segment of the ring. */
struct read_segment {
	uint32_t pid, number; /* as in struct ring_segment */
	pid_t writer;
	struct rule_segment *rows; /* NULL: its header is not complete */
	bool is_closed; /* and read */
	bool has_ended; /* the process image that writes it: it has died, or executed another */
};

/* A firing whose outcome is not known before the dump is made. */
struct planned {
	struct rule_firing firing;
	enum trigger_outcome outcome;
};

/* A process that writes segments, and may not be our child. */
struct writer_process {
	pid_t pid;
	int process; /* pidfd; -1: unknown */
};

struct touched_file {
	unsigned rule;
	struct timespec time; /* of its last change; 0: there is none */
	ino_t inode;
};

struct triggers {
	struct recording *recording;
	const struct rule_list *rules;
	struct rule_watch *watch;
	struct rule_feed *feed;
	struct rule_plan plan;
	VEC(struct read_segment) segments; /* in the order of the ring */
	VEC(struct planned) planned;
	VEC(struct touched_file) files;
	VEC(struct writer_process) writers; /* that run */
	struct map written_ns; /* rule and process -> time of its last row */
	struct timed_work *notice; /* that is being sent */
	struct kept_dumps kept;
	int slot; /* in which a dump is written; -1: none */
	struct deepening *deepening; /* an engine that measures; NULL: none */
};

/* --- what became of firings --- */

static void write_row(struct triggers *t, const struct rule_firing *firing,
		      enum trigger_outcome outcome)
{
	struct writer *w = t->recording->writer;
	struct row_trigger row = { .time_ns = firing->time_ns,
				   .rule = rows_text(w, t->rules->rules[firing->rule].text),
				   .outcome = (uint8_t)outcome,
				   .dump = t->plan.dump,
				   .pid = firing->pid,
				   .evidence = rows_text(w, firing->evidence) };

	ROW_MISSING_IF(&row, trigger, dump,
		       outcome != trigger_outcome_dump && outcome != trigger_outcome_joined);
	ROW_MISSING_IF(&row, trigger, pid, !firing->pid);
	writer_append(w, TABLE_trigger, &row);
}

static void emit_firing(const struct triggers *t, const struct rule_firing *firing,
			const char *what)
{
	char process[32] = "";

	if (firing->pid)
		snprintf(process, sizeof(process), "process %u: ", (unsigned)firing->pid);
	record_emit(t->recording, RECORD_NOTE, "rule '%s': %s%s%s",
		    t->rules->rules[firing->rule].text, process, firing->evidence, what);
}

/*
 * Whether a moment has a row: a rule that holds again and again has one a second for each process,
 * so that neither memory nor the table grow with a program that does nothing but fail.
 */
static bool has_row(struct triggers *t, const struct rule_firing *firing)
{
	uint64_t key = (uint64_t)firing->rule << 32 | firing->process;
	uint64_t *last_ns = map_at(&t->written_ns, key, 0);

	if (!last_ns || (*last_ns && firing->time_ns < *last_ns + NS_PER_S))
		return false;
	*last_ns = firing->time_ns;
	return true;
}

/* The process as we see it that writes the rows; 0: unknown. */
static pid_t writer_of(const struct triggers *t, uint32_t process)
{
	for (size_t i = t->segments.count; i-- > 0;)
		if (t->segments.data[i].rows &&
		    rule_segment_process(t->segments.data[i].rows) == process)
			return t->segments.data[i].writer;
	return 0;
}

static void write_planned(struct triggers *t, enum trigger_outcome instead)
{
	for (size_t i = 0; i < t->planned.count; i++)
		write_row(t, &t->planned.data[i].firing,
			  instead ? instead : t->planned.data[i].outcome);
	writer_flush(t->recording->writer);
}

/* --- dumps --- */

/* Creates a folder beside the recording. */
static char *create_folder(struct triggers *t, struct folder_id *id, struct error *e)
{
	const char *directory = t->recording->directory, *suffix = ".pitot";
	size_t length = strlen(directory);
	char *created = NULL;

	length -= has_suffix(directory, suffix) ? strlen(suffix) : 0;
	for (unsigned i = 0; !created && i < DUMP_NAMES_MAX; i++) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

		strbuf_addf(&path, "%.*s-dump-%u%s", (int)length, directory, t->plan.dump + i,
			    suffix);
		if (path.failed) {
			error_set(e, -ENOMEM, "out of memory");
			return NULL;
		}
		*e = (struct error){ 0 };
		created = recording_dir_create(strbuf_text(&path), "dump", false, id, e);
		if (!created && e->code != -EEXIST)
			return NULL;
	}
	return created;
}

/* Ends the notice that is being sent, and waits for it until then. */
static void end_notice(struct triggers *t, uint64_t end_ns)
{
	struct error e = { 0 };

	if (notify_end(t->notice, end_ns, &e) < 0)
		record_emit(t->recording, RECORD_WARNING, "%s", e.text);
	t->notice = NULL;
}

/* A server that has not answered the notice before is not waited for. */
static void begin_notice(struct triggers *t, const char *dump)
{
	const struct rule_firing *firing = &t->planned.data[0].firing;

	if (!t->recording->request->notify)
		return;
	end_notice(t, 0);
	t->notice = notify_begin(t->recording->request->notify, t->rules->rules[firing->rule].text,
				 firing, dump);
}

/*
 * Runs --on-trigger, which is not waited for; its output goes to our standard error. It has a
 * session of its own: it is no process of the command, and Ctrl-C does not end it.
 */
static void run_command(const struct triggers *t, const char *dump)
{
	const struct recording *r = t->recording;
	const char *rule = t->rules->rules[t->planned.data[0].firing.rule].text;
	const char *arguments[] = { "sh", "-c", r->request->on_trigger, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	pid_t pid;
	int err;

	if (!r->request->on_trigger)
		return;
	if (setenv("PITOT_DUMP", dump, 1) < 0 || setenv("PITOT_RULE", rule, 1) < 0 ||
	    posix_spawn_file_actions_init(&actions) != 0)
		return;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	posix_spawnattr_setsigmask(&attributes, &r->spawn.old_mask);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, 2, 1);
	err = posix_spawn(&pid, "/bin/sh", &actions, &attributes, (char **)(uintptr_t)arguments,
			  environ);
	if (err)
		record_emit(r, RECORD_WARNING, "the command of --on-trigger does not start: %s",
			    strerror(err));
	else if (r->tree)
		process_tree_leave_out(r->tree, pid);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
}

/*
 * Whether the dump that is due can be made. It waits until few others of the machine write theirs,
 * but not for long, because its begin may leave the ring.
 */
static bool has_turn(struct triggers *t)
{
	if (t->slot < 0)
		t->slot = dump_slot_take();
	return t->slot != -EBUSY || clock_monotonic_ns() > t->plan.due_ns + SLOT_NS;
}

static void keep_dump(struct triggers *t, const char *path, const struct folder_id *id)
{
	char *removed;

	kept_dumps_add(&t->kept, t->planned.data[0].firing.rule, path, id);
	while ((removed = kept_dumps_trim(&t->kept, t->recording->request->dumps_bytes))) {
		record_emit(t->recording, RECORD_NOTE,
			    "%s was removed: the dumps of rules have more than --max-dumps",
			    removed);
		free(removed);
	}
}

static void make_dump(struct triggers *t)
{
	struct recording *r = t->recording;
	uint64_t past_ns = clock_monotonic_ns() - MIN(clock_monotonic_ns(), t->plan.from_ns);
	struct segment_interval interval = segment_interval_of_last(past_ns);
	struct error e = { 0 };
	struct folder_id id;
	char *path = create_folder(t, &id, &e);
	_cleanup_close_ int folder = path ? folder_open_known(path, &id) : -1;
	char why[RULE_TEXT_MAX + 32];
	int count;

	if (!t->planned.count) { /* there was no memory */
		free(path);
		return;
	}
	write_planned(t, folder < 0 ? trigger_outcome_failed : trigger_outcome_dump);
	snprintf(why, sizeof(why), "a dump because of '%s',",
		 t->rules->rules[t->planned.data[0].firing.rule].text);
	count = folder < 0 ? folder : record_make_dump(r, folder, &interval, why);
	if (count < 0)
		record_emit(r, RECORD_WARNING, "the dump of '%s' is incomplete: %s",
			    t->rules->rules[t->planned.data[0].firing.rule].text,
			    e.code ? e.text : error_code_text(count));
	else
		record_emit(r, RECORD_NOTE, "%s: %d %s; read it: pitot report %s", path, count,
			    plural_of(count, "segment", "segments"), path);
	if (folder >= 0)
		keep_dump(t, path, &id);
	if (path) {
		run_command(t, path);
		begin_notice(t, path);
	}
	free(path);
	t->planned.count = 0;
}

/* Makes the planned dump if it is due at that time. */
static void make_due_dump(struct triggers *t, uint64_t now_ns)
{
	if (!t->plan.is_pending || now_ns <= t->plan.due_ns || !has_turn(t))
		return;
	if (rule_plan_is_due(&t->plan, now_ns))
		make_dump(t);
	fd_close(&t->slot);
}

/* --- engines --- */

/* Of a rule about no process, all that record. */
static size_t processes_of(const struct triggers *t, const struct rule_firing *firing,
			   pid_t pids[DEEPEN_PROCESSES_MAX])
{
	size_t count = 0;

	if (firing->pid) {
		pids[0] = writer_of(t, firing->process);
		return pids[0] > 0;
	}
	for (size_t i = 0; i < t->writers.count && count < DEEPEN_PROCESSES_MAX; i++)
		pids[count++] = t->writers.data[i].pid;
	return count;
}

/* The dump is made when the engine has measured. */
static void deepen(struct triggers *t, const struct rule_firing *firing)
{
	const struct rule *rule = &t->rules->rules[firing->rule];
	struct deepen_request request = { .engine = rule->deepen, .duration_ns = rule->deepen_ns };

	if (!rule->deepen || t->deepening)
		return;
	request.count = processes_of(t, firing, request.pids);
	t->deepening = request.count ? deepen_begin(t->recording, &request) : NULL;
	if (!t->deepening) {
		record_emit(t->recording, RECORD_WARNING,
			    "rule '%s': there is no process that engine %s can measure", rule->text,
			    setting_engine_names[rule->deepen]);
		return;
	}
	t->plan.due_ns = MAX(t->plan.due_ns, clock_monotonic_ns() + rule->deepen_ns);
	record_emit(t->recording, RECORD_DETAIL, "rule '%s': engine %s measures for %.3g s",
		    rule->text, setting_engine_names[rule->deepen],
		    (double)rule->deepen_ns / (double)NS_PER_S);
}

static void end_deepening(struct triggers *t, bool stop)
{
	struct error e = { 0 };

	if (!t->deepening || (!deepen_end(t->deepening, stop, &e) && !stop))
		return;
	t->deepening = NULL;
	if (e.code)
		record_emit(t->recording, RECORD_WARNING,
			    "the engine of a rule did not measure: %s", e.text);
}

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct triggers *t = user;
	struct planned planned = { .firing = *firing };

	if (t->rules->rules[firing->rule].metric == RULE_hang &&
	    io_process_is_stopped(writer_of(t, firing->process))) {
		rule_watch_restart(t->watch, firing->process, clock_monotonic_ns());
		return;
	}
	make_due_dump(t, firing->time_ns);
	planned.outcome = rule_plan_add(&t->plan, firing);
	if (!has_row(t, firing) && planned.outcome != trigger_outcome_dump)
		return;
	if (planned.outcome == trigger_outcome_dump) {
		emit_firing(t, firing, "; a dump follows");
		deepen(t, firing);
	}
	if ((planned.outcome != trigger_outcome_dump &&
	     planned.outcome != trigger_outcome_joined) ||
	    vec_push(&t->planned, planned) < 0)
		write_row(t, firing, planned.outcome);
}

/* --- rows of the ring --- */

static bool is_segment(const struct read_segment *read, const struct ring_segment *segment)
{
	return read->pid == segment->pid && read->number == segment->number;
}

static void read_segment(struct triggers *t, struct read_segment *read, int fd)
{
	char path[40];

	if (read->is_closed)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!read->rows && rule_segment_open(t->feed, path, &read->rows, NULL) < 0)
		return;
	rule_watch_writer(t->watch, rule_segment_process(read->rows), (uint32_t)read->writer);
	if (rule_segment_read(t->feed, read->rows) == 0)
		read->is_closed = rule_segment_blocks(read->rows)->closed;
}

static void add_writer(struct triggers *t, const struct ring_segment *segment)
{
	struct writer_process writer = { .pid = segment->writer };

	for (size_t i = 0; i < t->writers.count; i++)
		if (t->writers.data[i].pid == segment->writer)
			return;
	writer.process = segment->process < 0
				 ? -1
				 : fcntl(segment->process, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (writer.process >= 0 && vec_push(&t->writers, writer) < 0)
		close(writer.process);
}

static void forget_writer(struct triggers *t, size_t i)
{
	close(t->writers.data[i].process);
	t->writers.data[i] = t->writers.data[--t->writers.count];
}

/* How writers ended that others than this process have waited for, such as a worker's master. */
static void read_statuses(struct triggers *t)
{
	for (size_t i = t->writers.count; i-- > 0;) {
		const struct writer_process *w = &t->writers.data[i];
		int status =
			process_has_ended(w->process) ? process_exit_status(w->process) : -EAGAIN;

		if (status == -EAGAIN)
			continue;
		if (status >= 0)
			rule_feed_add(t->feed, (struct fact){ .kind = FACT_EXIT,
							      .time_ns = clock_monotonic_ns(),
							      .process = (uint32_t)w->pid,
							      .value = (uint64_t)status });
		forget_writer(t, i);
	}
}

/* Both lists are in one order, and the ring drops segments anywhere but appends them at the end. */
static void read_ring(struct triggers *t)
{
	const struct segment_ring *ring = &t->recording->segments.ring;
	size_t at = 0;

	for (size_t i = 0; i < ring->segments.count; i++) {
		const struct ring_segment *segment = &ring->segments.data[i];
		struct read_segment new = { segment->pid, segment->number, segment->writer,
					    NULL,         false,           false };

		while (at < t->segments.count && !is_segment(&t->segments.data[at], segment)) {
			rule_segment_free(t->segments.data[at].rows);
			t->segments.count--;
			memmove(&t->segments.data[at], &t->segments.data[at + 1],
				(t->segments.count - at) * sizeof(t->segments.data[0]));
		}
		if (at == t->segments.count) {
			if (vec_push(&t->segments, new) < 0)
				return;
			add_writer(t, segment);
		}
		read_segment(t, &t->segments.data[at++], segment->fd);
	}
}

/*
 * Ends process images that died or executed another program without writing it: not all processes
 * are our children. The newest segment of a process is that of its last image.
 */
static void end_processes(struct triggers *t)
{
	const struct segment_ring *ring = &t->recording->segments.ring;
	_cleanup_(map_release) struct map image_of =
		MAP_INIT; /* process id -> number of its last image + 1 */

	for (size_t i = MIN(t->segments.count, ring->segments.count); i-- > 0;) {
		struct read_segment *read = &t->segments.data[i];
		const struct ring_segment *segment = &ring->segments.data[i];
		uint64_t *image = read->rows ? map_at(&image_of, (uint64_t)read->writer, 0) : NULL;
		uint32_t process = image ? rule_segment_process(read->rows) : 0;
		bool ends = image && *image
				    ? *image != process + 1
				    : image && (segment->process < 0
							? segment->is_ended
							: process_has_ended(segment->process));

		if (image && !*image)
			*image = process + 1;
		if (ends && !read->has_ended)
			rule_feed_add(t->feed, (struct fact){ .kind = FACT_ENDS,
							      .time_ns = clock_monotonic_ns(),
							      .process = process });
		read->has_ended |= ends;
	}
}

/* --- what no row says --- */

static void look_at_file(struct triggers *t, struct touched_file *file, bool is_first)
{
	struct stat st;
	bool exists = stat(t->rules->rules[file->rule].key, &st) == 0, is_new;

	if (!exists)
		st = (struct stat){ 0 };
	is_new = exists && (st.st_ino != file->inode || st.st_mtim.tv_sec != file->time.tv_sec ||
			    st.st_mtim.tv_nsec != file->time.tv_nsec);
	file->time = st.st_mtim;
	file->inode = st.st_ino;
	if (is_new && !is_first)
		rule_feed_add(t->feed, (struct fact){ .kind = FACT_OUTSIDE,
						      .time_ns = clock_monotonic_ns(),
						      .rules = UINT32_C(1) << file->rule });
}

static void take_signals(struct triggers *t, uint32_t received)
{
	for (unsigned i = 0; i < t->rules->count; i++) {
		const struct rule *rule = &t->rules->rules[i];

		if (rule->metric == RULE_signal && received >> rule_signal(rule->key) & 1)
			rule_feed_add(t->feed, (struct fact){ .kind = FACT_OUTSIDE,
							      .time_ns = clock_monotonic_ns(),
							      .rules = UINT32_C(1) << i });
	}
}

void triggers_process_ended(struct triggers *t, pid_t pid, int status, bool is_oom)
{
	if (!t)
		return;
	for (size_t i = t->writers.count; i-- > 0;)
		if (t->writers.data[i].pid == pid)
			forget_writer(t, i);
	rule_feed_add(t->feed, (struct fact){ .kind = FACT_EXIT,
					      .time_ns = clock_monotonic_ns(),
					      .process = (uint32_t)pid,
					      .other_ns = is_oom,
					      .value = (uint64_t)status });
}

/* --- the stages --- */

void triggers_begin(struct recording *r)
{
	const struct record_request *request = r->request;
	struct triggers *t = request->ring && request->rules.count ? calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return;
	t->recording = r;
	t->slot = -1;
	t->rules = &request->rules;
	rule_plan_init(&t->plan, t->rules, request->before_ns, request->after_ns);
	t->watch = rule_watch_new(t->rules->rules, t->rules->count, on_firing, t);
	t->feed = t->watch ? rule_feed_new(t->rules->rules, t->rules->count, t->watch) : NULL;
	if (!t->feed) {
		record_emit(r, RECORD_WARNING, "no memory for rules: they make no dumps");
		triggers_free(t);
		return;
	}
	for (unsigned i = 0; i < t->rules->count; i++) {
		const struct rule *rule = &t->rules->rules[i];
		struct touched_file file = { .rule = i };

		if (rule->metric == RULE_signal)
			r->spawn.kept_signals |= UINT32_C(1) << rule_signal(rule->key);
		if (rule->metric != RULE_file)
			continue;
		look_at_file(t, &file, true);
		(void)!vec_push(&t->files, file);
	}
	if (r->cpu.end_ns)
		rule_feed_add(t->feed,
			      (struct fact){ .kind = FACT_WINDOW_ENDS, .time_ns = r->cpu.end_ns });
	r->triggers = t;
}

static void read_all(struct triggers *t)
{
	read_ring(t);
	end_processes(t);
	read_statuses(t);
	for (size_t i = 0; i < t->files.count; i++)
		look_at_file(t, &t->files.data[i], false);
	take_signals(t, t->recording->spawn.received);
	t->recording->spawn.received = 0;
}

void triggers_step(struct recording *r)
{
	struct triggers *t = r->triggers;
	uint64_t known_ns = clock_monotonic_ns() - LAG_NS;

	if (!t)
		return;
	read_all(t);
	rule_feed_pass(t->feed, known_ns);
	rule_watch_advance(t->watch, known_ns);
	make_due_dump(t, known_ns);
	if (t->notice && timed_work_await(t->notice, 0))
		end_notice(t, 0);
	end_deepening(t, false);
}

void triggers_finish(struct recording *r)
{
	struct triggers *t = r->triggers;

	if (!t)
		return;
	end_deepening(t, true);
	read_all(t);
	rule_feed_pass(t->feed, UINT64_MAX);
	if (t->planned.count)
		emit_firing(t, &t->planned.data[0].firing,
			    "; the command ended before the dump: the recording has it all");
	write_planned(t, trigger_outcome_recording);
}

void triggers_end(const struct recording *r)
{
	if (!r->triggers)
		return;
	if (r->triggers->planned.count) {
		run_command(r->triggers, r->directory);
		begin_notice(r->triggers, r->directory);
	}
	end_notice(r->triggers, clock_monotonic_ns() + NOTICE_NS);
}

void triggers_free(struct triggers *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->segments.count; i++)
		rule_segment_free(t->segments.data[i].rows);
	vec_release(&t->segments);
	vec_release(&t->planned);
	while (t->writers.count)
		forget_writer(t, t->writers.count - 1);
	vec_release(&t->writers);
	vec_release(&t->files);
	map_release(&t->written_ns);
	fd_close(&t->slot);
	kept_dumps_release(&t->kept);
	timed_work_leave(t->notice);
	rule_feed_free(t->feed);
	rule_watch_free(t->watch);
	free(t);
}
