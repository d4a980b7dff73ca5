#include "agent/windows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/window_copy.h"
#include "base/clock.h"
#include "base/io.h"
#include "format/rows.h"
#include "rules/rule_feed.h"
#include "rules/rule_plan.h"

/* Rows are written within a quarter of a second after they are known; others are later. */
#define LAG_NS NS_PER_S
#define PARTIAL "window.partial"

struct planned {
	struct rule_firing firing;
	enum trigger_outcome outcome;
};

struct windows {
	const struct rule_list *rules;
	struct sources *sources;
	struct spool *spool;
	struct rule_watch *watch;
	struct rule_feed *feed;
	struct rule_plan plan;
	VEC(struct planned) planned; /* what the next window is made for */
	struct window_counts counts;
};

/* --- whose --- */

static struct source *source_of(const struct windows *w, uint32_t process)
{
	for (size_t i = 0; i < w->sources->all.count; i++) {
		struct source *source = w->sources->all.data[i];

		for (size_t k = 0; k < source->segments.count; k++)
			if (source->segments.data[k].rules &&
			    rule_segment_process(source->segments.data[k].rules) == process)
				return source;
	}
	return NULL;
}

struct cause {
	const struct source *source;
	uint64_t from_ns;
};

/* Processes of one job belong together, if they are of one user. */
static bool is_of_window(const void *user, const struct source *source, uint64_t *from_ns,
			 uint64_t *until_ns)
{
	const struct cause *cause = user;
	const struct source_identity *id = &cause->source->identity;

	*from_ns = cause->from_ns;
	*until_ns = clock_monotonic_ns();
	return source == cause->source ||
	       (source->owner == cause->source->owner && source->identity.job && id->job &&
		*id->job && !strcmp(source->identity.job, id->job));
}

/* --- files --- */

/* Why the window is there: table `trigger`, with which `pitot report` begins. */
static int write_triggers(const struct windows *w, int folder)
{
	char path[40];
	struct writer_options options = { .directory = path, .prefix = "record" };
	struct writer *writer = NULL;
	int rc = folder_identify(folder, &options.folder);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", folder);
	rc = rc < 0 ? rc : writer_open(&options, &writer, NULL);
	if (rc < 0)
		return rc;
	rows_clock(writer, 0);
	for (size_t i = 0; i < w->planned.count; i++) {
		const struct rule_firing *f = &w->planned.data[i].firing;
		struct row_trigger row = { .time_ns = f->time_ns,
					   .rule = rows_text(writer, w->rules->rules[f->rule].text),
					   .outcome = (uint8_t)w->planned.data[i].outcome,
					   .dump = w->plan.dump,
					   .pid = f->pid,
					   .evidence = rows_text(writer, f->evidence) };

		ROW_MISSING_IF(&row, trigger, pid, !f->pid);
		writer_append(writer, TABLE_trigger, &row);
	}
	return writer_close(&writer);
}

static int sync_files(int folder)
{
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	int rc = list ? 0 : -errno;

	while (rc == 0 && (name = folder_next(list))) {
		_cleanup_close_ int fd = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);

		rc = fd < 0 ? fd : fsync(fd) < 0 ? -errno : 0;
	}
	return rc < 0 ? rc : folder_sync(folder);
}

/* Fills the folder of the window. */
static int fill(struct windows *w, const struct source *cause, int folder)
{
	struct cause user = { cause, w->plan.from_ns };
	int rc = window_copy(w->sources, is_of_window, &user, folder);

	rc = rc < 0 ? rc : write_triggers(w, folder);
	return rc < 0 ? rc : sync_files(folder);
}

/* --- a window --- */

static void add_key(const struct windows *w, const struct source *cause, struct strbuf *out)
{
	const struct rule_firing *f = &w->planned.data[0].firing;
	uint64_t time_ns = f->time_ns + (uint64_t)cause->identity.offset_ns;

	strbuf_adds(out, LAKE_WINDOWS "!");
	lake_add_date(out, time_ns);
	strbuf_addc(out, '!');
	lake_add_name(out, cause->identity.job);
	strbuf_addc(out, '.');
	lake_add_name(out, cause->identity.host);
	strbuf_addc(out, '.');
	lake_add_time(out, time_ns);
	strbuf_addc(out, '.');
	lake_add_name(out, rule_metrics[w->rules->rules[f->rule].metric].name);
	strbuf_addf(out, "-%u" LAKE_WINDOW_SUFFIX, f->pid);
}

/* It is in the metrics of the program. */
static void count_window(const struct windows *w, struct source *cause, const char *name)
{
	const char *last = strrchr(name, '!');

	cause->windows++;
	free(cause->last_window);
	cause->last_window = strdup(last ? last + 1 : name);
	cause->window_ns = w->planned.data[0].firing.time_ns + (uint64_t)cause->identity.offset_ns;
}

static int make(struct windows *w, struct source *cause)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	_cleanup_close_ int folder = -1;
	int rc;

	add_key(w, cause, &name);
	lake_remove_folder(w->spool->folder, PARTIAL);
	if (name.failed)
		return -ENOMEM;
	if (mkdirat(w->spool->folder, PARTIAL, 0700) < 0)
		return -errno;
	folder = folder_enter(w->spool->folder, PARTIAL, FOLDER_OWN);
	rc = folder < 0 ? folder : fill(w, cause, folder);
	if (rc == 0)
		rc = folder_rename_new(w->spool->folder, PARTIAL, w->spool->folder,
				       strbuf_text(&name));
	if (rc < 0)
		lake_remove_folder(w->spool->folder, PARTIAL);
	else
		count_window(w, cause, strbuf_text(&name));
	return rc == -EEXIST ? 0 : rc;
}

static void make_window(struct windows *w)
{
	struct source *cause =
		w->planned.count ? source_of(w, w->planned.data[0].firing.process) : NULL;
	int rc = cause && cause->identity.host ? make(w, cause) : -ESRCH;

	w->counts.failed += rc < 0;
	w->planned.count = 0;
}

static void on_firing(void *user, const struct rule_firing *firing)
{
	struct windows *w = user;
	struct planned planned = { .firing = *firing };
	const struct source *source = source_of(w, firing->process);

	if (w->rules->rules[firing->rule].metric == RULE_hang && source &&
	    io_process_is_stopped((pid_t)source->pid)) {
		rule_watch_restart(w->watch, firing->process, clock_monotonic_ns());
		return;
	}
	if (rule_plan_is_due(&w->plan, firing->time_ns))
		make_window(w);
	planned.outcome = rule_plan_add(&w->plan, firing);
	if (planned.outcome == trigger_outcome_dump || planned.outcome == trigger_outcome_joined)
		(void)!vec_push(&w->planned, planned);
}

/* --- steps --- */

/* Only what happens now is judged; a finished recording is for `pitot rules --test`. */
static void read_segments(struct windows *w, struct source *source)
{
	for (size_t i = 0; i < source->segments.count; i++) {
		struct source_segment *s = &source->segments.data[i];
		char path[40];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
		if (s->fd >= 0 && !s->rules && source->is_live &&
		    rule_segment_open(w->feed, path, &s->rules, NULL) < 0)
			s->rules = NULL;
		if (s->rules)
			(void)!rule_segment_read(w->feed, s->rules);
	}
}

void windows_step(struct windows *w)
{
	uint64_t known_ns = clock_monotonic_ns() - LAG_NS;

	for (size_t i = 0; i < w->sources->all.count; i++)
		read_segments(w, w->sources->all.data[i]);
	rule_feed_pass(w->feed, known_ns);
	rule_watch_advance(w->watch, known_ns);
	if (rule_plan_is_due(&w->plan, known_ns))
		make_window(w);
}

const struct window_counts *windows_counts(const struct windows *w)
{
	return &w->counts;
}

uint64_t windows_keep_ns(const struct windows *w)
{
	uint64_t longest = 0;

	for (unsigned i = 0; i < w->rules->count; i++)
		longest = MAX(longest, w->plan.before_ns[i] + 2 * w->plan.after_ns[i]);
	return longest;
}

struct windows *windows_new(const struct rule_list *rules, struct sources *sources,
			    struct spool *spool)
{
	struct windows *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct windows){ .rules = rules, .sources = sources, .spool = spool };
	rule_plan_init(&w->plan, rules, PLAN_BEFORE_NS, PLAN_AFTER_NS);
	w->watch = rule_watch_new(rules->rules, rules->count, on_firing, w);
	w->feed = w->watch ? rule_feed_new(rules->rules, rules->count, w->watch) : NULL;
	if (w->feed)
		return w;
	windows_free(w);
	return NULL;
}

void windows_free(struct windows *w)
{
	if (!w)
		return;
	rule_feed_free(w->feed);
	rule_watch_free(w->watch);
	vec_release(&w->planned);
	free(w);
}
