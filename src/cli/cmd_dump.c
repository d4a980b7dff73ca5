/* cmd_dump.c: `pitot dump`: writes what a running `pitot record --ring` has in memory. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/plural.h"
#include "cli/command.h"
#include "cli/dump_job.h"
#include "cli/dump_stacks.h"
#include "cli/ui.h"
#include "format/recording_dir.h"
#include "format/segment_request.h"

#define ENVIRONMENT_MAX ((size_t)1 << 20)

static const char *output;
static bool force;
static uint64_t last_ns;
static const char *from, *to;
static bool stacks, descendants;
static const char *job, *peers, *secret, *ca_file;

static const struct option options[] = {
	OPTION(STRING, "output", 'o', output, "DIR",
	       "write into DIR (default: dump-DATE-TIME.pitot; --stacks: only print)",
	       .is_path = true),
	FLAG("force", 'f', force, "replace DIR if it is a recording"),
	OPTION(DURATION, "last", 0, last_ns, "TIME",
	       "only segments with rows of the last TIME (default: all that the ring has)",
	       .positive = true),
	OPTION(STRING, "from", 0, from, "CLOCK",
	       "only segments with rows from that time on, such as 14:05:30 or "
	       "2026-11-29T14:05:30"),
	OPTION(STRING, "to", 0, to, "CLOCK", "only segments that began before that time"),
	FLAG("stacks", 0, stacks,
	     "print instead what each thread of the processes does now: its state, its native and "
	     "Python frames, and the call of CUDA or NCCL that it is in"),
	FLAG("descendants", 0, descendants, "--stacks: also of the processes below these"),
	OPTION(STRING, "job", 0, job, "ID",
	       "ask the agents of all machines for the last TIME (30s) of a job instead"),
	OPTION(STRING, "peers", 0, peers, "FILE",
	       "--job: has [https://]HOST:PORT of an agent on each line", .is_path = true),
	OPTION(STRING, "ca-file", 0, ca_file, "FILE",
	       "--job: trusted certificates of agents with TLS, PEM (default: the machine's)",
	       .is_path = true),
	OPTION(STRING, "secret", 0, secret, "FILE", "--job: has the secret of the agents",
	       .is_path = true),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot dump --last 30s", "the last half minute of the only ring that there is" },
	{ "pitot dump 4711 -o slow.pitot", "of the ring that records process 4711" },
	{ "pitot dump --from 14:05 --to 14:07", "what was recorded around a time in a log" },
	{ "pitot dump --stacks 4711", "what each thread of a process does, without stopping it" },
	{ "pitot dump --stacks --descendants 4711", "of a whole job" },
	{ "pitot dump --stacks core.4711", "where each thread was when a process ended" },
	{ "pitot dump --stacks 4711 -o hang.pitot", "the same, to be read later: pitot report" },
	{ "pitot dump --job 77 --last 30s --peers /etc/pitot/peers --secret /etc/pitot/secret",
	  "what the processes of a job did on all machines" },
	{ NULL, NULL },
};

/* A launcher, by the text of LAUNCHER_VARIABLE in its command's environment. */
struct launcher_text {
	char text[LAUNCHER_TEXT_MAX];
	int pid; /* of the launcher */
};

static bool read_launcher(pid_t pid, struct launcher_text *out)
{
	_cleanup_strbuf_ struct strbuf environment = STRBUF_INIT;
	const char *at = "";
	unsigned uid;

	if (io_process_text(pid, "environ", ENVIRONMENT_MAX, &environment) == 0)
		at = strbuf_text(&environment);
	while ((at = strstr(at, LAUNCHER_VARIABLE "="))) {
		at += strlen(LAUNCHER_VARIABLE "=");
		snprintf(out->text, sizeof(out->text), "%.*s", (int)strcspn(at, " "), at);
		if (sscanf(out->text, "%u:pitot-%d-", &uid, &out->pid) == 2)
			return true;
	}
	return false;
}

/* Finds the launcher with that pid, or the only one (0), among all processes. */
static int search(pid_t pid, struct launcher_text *out, struct error *e)
{
	int folder = folder_open("/proc", FOLDER_ANY);
	_cleanup_list_ DIR *list = folder < 0 ? NULL : folder_list(folder);
	struct launcher_text found;
	const char *name;
	int count = 0;

	fd_close(&folder);
	while (list && (name = folder_next(list))) {
		uint64_t number;

		if (parse_u64(name, &number) < 0 || number > INT_MAX ||
		    !read_launcher((pid_t)number, &found) || (pid && found.pid != pid))
			continue;
		if (count && found.pid != out->pid)
			return error_set(e, E_USAGE,
					 "processes %d and %d are recording; name one of them: "
					 "pitot dump %d",
					 out->pid, found.pid, out->pid);
		*out = found;
		count++;
	}
	if (count)
		return 0;
	if (pid)
		return error_set(e, -ESRCH,
				 "process %d is not recorded by `pitot record`, or belongs to "
				 "another user",
				 (int)pid);
	return error_set(
		e, -ESRCH,
		"nothing is being recorded; start it with: pitot record --ring 10m -- COMMAND");
}

static int find(const char *text, struct launcher_text *out, struct error *e)
{
	uint64_t pid = 0;

	if (text && (parse_u64(text, &pid) < 0 || !pid || pid > INT_MAX))
		return error_set(e, E_USAGE, "'%s' is not the id of a process", text);
	if (pid && read_launcher((pid_t)pid, out))
		return 0;
	return search((pid_t)pid, out, e);
}

/* Reads a local time, of today unless it has a date. */
static int parse_clock(const char *name, const char *text, uint64_t *ns, struct error *e)
{
	static const char *const formats[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%H:%M:%S",
					       "%H:%M" };
	time_t now = time(NULL), found = -1;
	const char *end = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(formats) && (!end || *end); i++) {
		struct tm parts = { 0 };

		localtime_r(&now, &parts);
		parts.tm_sec = 0;
		parts.tm_isdst = -1;
		end = strptime(text, formats[i], &parts);
		if (end && !*end)
			found = mktime(&parts);
	}
	if (found < 0)
		return error_set(e, E_USAGE,
				 "--%s takes a time such as 14:05:30 or 2026-11-29T14:05:30, not "
				 "'%s'",
				 name, text);
	*ns = (uint64_t)found * NS_PER_S;
	return 0;
}

static int find_interval(struct segment_interval *interval, struct error *e)
{
	int rc = 0;

	*interval = segment_interval_of_last(last_ns);
	if (last_ns && (from || to))
		return error_set(e, E_USAGE, "--last cannot be combined with --from and --to");
	if (from)
		rc = parse_clock("from", from, &interval->from_ns, e);
	if (to && rc == 0)
		rc = parse_clock("to", to, &interval->until_ns, e);
	if (rc == 0 && to && interval->until_ns < interval->from_ns)
		return error_set(e, E_USAGE, "--to is before --from");
	return rc;
}

static int dump(const struct launcher_text *launcher, const struct segment_interval *interval,
		const char *directory, const struct folder_id *id, struct error *e)
{
	_cleanup_close_ int folder = folder_open_known(directory, id);
	int count = folder < 0 ? folder : segment_request_dump(launcher->text, folder, interval);

	if (count == E_UNSUPPORTED)
		return error_set(
			e, count,
			"the recording of process %d is on the disk, and can be read at any "
			"time; a ring is: pitot record --ring 10m -- COMMAND",
			launcher->pid);
	if (count == -ECONNREFUSED)
		return error_set(e, count,
				 "`pitot record`, process %d, has ended, and its ring with it",
				 launcher->pid);
	return count < 0 ? error_set(e, count, "process %d made no dump: %s", launcher->pid,
				     error_code_text(count))
			 : count;
}

static int run_dump(struct context *c, int argc, char **argv)
{
	struct launcher_text launcher;
	struct segment_interval interval;
	struct folder_id id;
	struct error e = { 0 };
	char *directory;
	int count;

	if (stacks && (last_ns || from || to))
		return cli_usage(c, "--last, --from and --to belong to rings, not to --stacks");
	if (stacks)
		return dump_stacks(c, argc - 1, argv + 1,
				   &(struct stacks_request){ descendants, output, force });
	if (descendants)
		return cli_usage(c, "--descendants belongs to --stacks");
	if (job && (argc > 1 || from || to || force))
		return cli_usage(c, "--job takes --last and -o, a new folder, and no processes");
	if (job)
		return dump_job(c, &(struct dump_job_request){ job, peers, secret, ca_file, last_ns,
							       output, argv });
	if (peers || secret || ca_file)
		return cli_usage(c, "--peers, --secret and --ca-file belong to --job");
	if (argc > 2)
		return cli_usage(c, "several processes need --stacks");
	if (find_interval(&interval, &e) < 0 || find(argc > 1 ? argv[1] : NULL, &launcher, &e) < 0)
		return cli_fail(c, &e);
	directory = recording_dir_create(output, "dump", force, &id, &e);
	if (!directory)
		return cli_fail(c, &e);
	count = dump(&launcher, &interval, directory, &id, &e);
	if (count < 0)
		recording_dir_remove(directory, &id, NULL);
	else
		cli_note(c, "%s: %d %s", directory, count, plural_of(count, "segment", "segments"));
	free(directory);
	return count < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

const struct command cmd_dump = {
	.name = "dump",
	.group = COMMAND_RECORD,
	.summary = "write what a ring has, or print the stacks of processes",
	.usage = "[options] [PID...|CORE]",
	.description =
		"PID is a recorded process or its `pitot record`; it can be left out if there is "
		"only one. The result is a recording: what happened until a moment ago, as far "
		"back "
		"as the ring reaches. The recorded processes do nothing for it, and dumps may "
		"overlap.\n\n"
		"With --stacks, PID is any running process of the same user, or several of them, "
		"recorded or not. They are printed, and with -o also become a recording. A thread "
		"that sleeps is read while it sleeps; one that runs is stopped for a fraction of a "
		"millisecond. Instead of PID it can be a core file.",
	.options = options,
	.operands_max = DUMP_PIDS_MAX,
	.examples = examples,
	.run = run_dump,
};
