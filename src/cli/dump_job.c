/* dump_job.c: `pitot dump --job`: asks the agents of a fleet, and merges what they have. */
#include "cli/dump_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/dump_peers.h"
#include "agent/job_dump.h"
#include "agent/lake.h"
#include "base/clock.h"
#include "base/plural.h"
#include "cli/ui.h"
#include "record/merge.h"

#define LAST_DEFAULT_NS (30 * NS_PER_S)
#define TIMEOUT_NS (30 * NS_PER_S) /* for each agent */
#define MERGED "job.pitot"
#define UNANSWERED_MAX 20u /* that are named */

/* Makes the folder. Returns its descriptor, or a negative code. */
static int make_folder(const struct dump_job_request *r, struct strbuf *path, struct error *e)
{
	int folder;

	if (r->output) {
		strbuf_adds(path, r->output);
	} else {
		strbuf_adds(path, "dump-");
		lake_add_name(path, r->job);
		strbuf_addc(path, '-');
		lake_add_time(path, clock_read_ns(CLOCK_REALTIME));
	}
	if (path->failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (mkdir(strbuf_text(path), 0700) < 0)
		return error_errno(e, errno, "cannot make '%s': choose another folder with -o",
				   strbuf_text(path));
	folder = folder_open(strbuf_text(path), FOLDER_OWN);
	return folder < 0 ? error_set(e, folder, "cannot open '%s'", strbuf_text(path)) : folder;
}

/* Says which agents have not answered. Returns how many they are. */
static size_t name_unanswered(const struct context *c, const struct peer_dumps *dumps)
{
	size_t count = 0;

	for (size_t i = 0; i < dumps->all.count; i++) {
		const struct peer_dump *d = &dumps->all.data[i];

		if (d->error.code && ++count <= UNANSWERED_MAX)
			cli_warn(c, "no dump from %s: %s", d->peer, d->error.text);
	}
	if (count > UNANSWERED_MAX)
		cli_warn(c, "no dump from %zu more", count - UNANSWERED_MAX);
	return count;
}

static int merge(char **argv, const char *folder, const struct peer_dumps *dumps,
		 struct merge_result *result, struct error *e)
{
	_cleanup_strbuf_ struct strbuf output = STRBUF_INIT;
	_cleanup_free_ char **recordings = calloc(dumps->all.count + 1, sizeof(*recordings));
	struct merge_request request = { .recordings = recordings,
					 .output = NULL,
					 .command = argv,
					 .stop = &terminal_stop_signal };
	int rc = recordings ? 0 : error_set(e, -ENOMEM, "out of memory");

	strbuf_addf(&output, "%s/" MERGED, folder);
	for (size_t i = 0; rc == 0 && i < dumps->all.count; i++) {
		const struct peer_dump *d = &dumps->all.data[i];

		if (d->recording &&
		    asprintf(&recordings[request.count], "%s/%s", folder, d->recording) >= 0)
			request.count++;
	}
	request.output = strbuf_text(&output);
	if (rc == 0)
		rc = merge_recordings(&request, result, e);
	for (size_t i = 0; i < request.count; i++)
		free(recordings[i]);
	return rc;
}

static int ask_and_merge(const struct context *c, const struct dump_job_request *r,
			 struct peer_dumps *dumps, const struct peer_secret *secret,
			 struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	_cleanup_close_ int folder = make_folder(r, &path, e);
	uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);
	struct peer_request request = { .job = r->job,
					.from_ns = now_ns -
						   (r->last_ns ? r->last_ns : LAST_DEFAULT_NS),
					.until_ns = now_ns,
					.folder = folder,
					.secret = secret,
					.ca_file = r->ca_file,
					.timeout_ns = TIMEOUT_NS,
					.stop = &terminal_stop_signal };
	struct merge_result result = { 0 };
	size_t hosts = 0, unanswered;
	int rc = folder < 0 ? folder : peer_dumps_ask(dumps, &request, e);

	if (rc < 0)
		return rc;
	unanswered = name_unanswered(c, dumps);
	for (size_t i = 0; i < dumps->all.count; i++)
		hosts += dumps->all.data[i].recording != NULL;
	if (!hosts) {
		rmdir(strbuf_text(&path));
		return error_set(e, -ESRCH, "no agent has processes of job '%s'", r->job);
	}
	rc = merge(r->argv, strbuf_text(&path), dumps, &result, e);
	if (rc >= 0)
		cli_note(c, "%s/" MERGED ": %zu %s of %zu %s%s; next: pitot report %s/" MERGED,
			 strbuf_text(&path), result.processes,
			 plural_of(result.processes, "process", "processes"), hosts,
			 plural_of(hosts, "host", "hosts"), strbuf_text(&result.remarks),
			 strbuf_text(&path));
	strbuf_release(&result.remarks);
	return rc < 0 ? rc : (int)MIN(unanswered, (size_t)INT32_MAX);
}

int dump_job(const struct context *c, const struct dump_job_request *r)
{
	struct peer_dumps dumps = { .all = VEC_INIT };
	struct peer_secret secret = { .length = 0 };
	struct error e = { 0 };
	int rc;

	if (!r->peers || !r->secret)
		return cli_usage(c, "--job needs --peers and --secret");
	if (r->last_ns > JOB_DUMP_HOLD_NS)
		return cli_usage(c, "agents hold 2m: --last takes no more with --job");
	rc = peer_secret_read(r->secret, &secret, &e);
	rc = rc < 0 ? rc : peer_dumps_read(r->peers, &dumps, &e);
	terminal_catch_signals();
	rc = rc < 0 ? rc : ask_and_merge(c, r, &dumps, &secret, &e);
	peer_secret_forget(&secret);
	peer_dumps_release(&dumps);
	if (terminal_stop_signal)
		return 128 + terminal_stop_signal;
	return rc < 0 ? cli_fail(c, &e) : rc ? EXIT_FAILED : EXIT_DONE;
}
