#include "agent/job_dump.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "agent/lake.h"
#include "agent/window_copy.h"
#include "base/clock.h"
#include "base/starts_with.h"

#define PARTIAL "dump.partial"
#define LAG_NS NS_PER_S /* rows are written within a quarter of a second; others are later */
#define AHEAD_NS (60 * NS_PER_S) /* an interval may end so long after now */

static void refuse(struct job_dump *d, uint64_t connection, unsigned status, const char *why)
{
	http_answer(
		d->server, connection,
		&(struct http_answer){
			.status = status, .type = HTTP_TEXT, .body = why, .length = strlen(why) });
}

/* --- requests --- */

/* Decodes %XX up to a '&'. False: it is too long, or no text. */
static bool decode(const char *text, char *out, size_t size)
{
	size_t length = 0;

	for (; *text && *text != '&'; text++) {
		unsigned value = (unsigned char)*text;

		if (*text == '%') {
			if (!isxdigit((unsigned char)text[1]) ||
			    !isxdigit((unsigned char)text[2]) ||
			    sscanf(text + 1, "%2x", &value) != 1)
				return false;
			text += 2;
		}
		if (!value || length + 1 >= size)
			return false;
		out[length++] = (char)value;
	}
	out[length] = '\0';
	return length;
}

static bool parse(const char *query, struct job_dump_waiting *out)
{
	const char *times = strchr(query, '&');

	return starts_with(query, "job=") && times &&
	       decode(query + strlen("job="), out->job, sizeof(out->job)) &&
	       sscanf(times, "&from=%" SCNu64 "&until=%" SCNu64 "&", &out->from_ns,
		      &out->until_ns) == 2 &&
	       out->from_ns <= out->until_ns;
}

void job_dump_handle(struct job_dump *d, uint64_t connection, const struct http_request *r)
{
	uint64_t now_ns = clock_read_ns(CLOCK_REALTIME), ready_ns;
	struct job_dump_waiting one = { .connection = connection }, *free = NULL;
	unsigned status;

	for (size_t i = 0; i < JOB_DUMP_WAITING_MAX; i++)
		if (!d->waiting[i].connection)
			free = &d->waiting[i];
	if (d->spool < 0) {
		refuse(d, connection, 404, "");
		return;
	}
	status = peer_check(&d->secret, &d->seen, r->host, d->server->port, r->path, r->query,
			    now_ns / NS_PER_S, one.nonce);
	if (status) {
		refuse(d, connection, status,
		       "the request is not signed with the secret of this agent, or for another "
		       "machine or time");
		return;
	}
	if (!parse(r->query, &one) || one.until_ns > now_ns + AHEAD_NS) {
		refuse(d, connection, 400, "the request is damaged");
		return;
	}
	if (!free) {
		refuse(d, connection, 503, "too many dumps are being made");
		return;
	}
	ready_ns = one.until_ns + LAG_NS;
	one.due_ns = clock_monotonic_ns() + (ready_ns > now_ns ? ready_ns - now_ns : 0);
	*free = one;
}

/* --- answers --- */

/* Whether a job is the one that is named: 77 is also 77.0, a step of it. */
static bool job_is_named(const char *job, const char *name)
{
	size_t length = strlen(name);

	return length && !strncmp(job, name, length) && (!job[length] || job[length] == '.');
}

static bool is_of_job(const void *user, const struct source *source, uint64_t *from_ns,
		      uint64_t *until_ns)
{
	const struct job_dump_waiting *w = user;
	uint64_t offset = (uint64_t)source->identity.offset_ns;

	*from_ns = w->from_ns - offset;
	*until_ns = w->until_ns - offset;
	return source->identity.job && job_is_named(source->identity.job, w->job);
}

static int add_file(int folder, const char *name, struct strbuf *out)
{
	_cleanup_close_ int file = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);
	struct stat st;
	uint8_t bytes[16384];
	uint64_t left;
	ssize_t n;

	if (file < 0 || fstat(file, &st) < 0)
		return file < 0 ? file : -errno;
	left = (uint64_t)st.st_size;
	if (out->length + left > PEER_ANSWER_BYTES_MAX)
		return E_LIMIT;
	strbuf_addf(out, "file %s %" PRIu64 "\n", name, left);
	for (; left; left -= (uint64_t)n) {
		n = read(file, bytes, MIN(sizeof(bytes), left));
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		strbuf_add(out, bytes, (size_t)n);
	}
	return out->failed ? -ENOMEM : 0;
}

/* Appends what the job has. Returns how many files, or a negative code. */
static int add_files(struct job_dump *d, const struct job_dump_waiting *w, struct strbuf *out)
{
	_cleanup_close_ int folder = -1;
	_cleanup_list_ DIR *list = NULL;
	const char *name;
	int rc = 0, count;

	lake_remove_folder(d->spool, PARTIAL);
	if (mkdirat(d->spool, PARTIAL, 0700) < 0)
		return -errno;
	folder = folder_enter(d->spool, PARTIAL, FOLDER_OWN);
	sources_search(d->sources, true);
	count = folder < 0 ? folder : window_copy(d->sources, is_of_job, w, folder);
	list = count > 0 ? folder_list(folder) : NULL;
	while (list && rc == 0 && (name = folder_next(list)))
		rc = add_file(folder, name, out);
	lake_remove_folder(d->spool, PARTIAL);
	return rc < 0 ? rc : count;
}

static void answer(struct job_dump *d, const struct job_dump_waiting *w)
{
	_cleanup_strbuf_ struct strbuf body = STRBUF_INIT;
	char code[PEER_CODE + 1];
	struct utsname names;
	struct hmac h;
	int rc;

	strbuf_addf(&body, "host %s\n", uname(&names) < 0 ? "?" : names.nodename);
	rc = add_files(d, w, &body);
	peer_answer_begin(&d->secret, w->nonce, &h);
	hmac_add(&h, strbuf_text(&body), body.length);
	peer_code_end(&h, code);
	strbuf_addf(&body, "end %s\n", code);
	if (rc == 0)
		refuse(d, w->connection, 404, "");
	else if (rc < 0 || body.failed)
		refuse(d, w->connection, 503,
		       rc == E_LIMIT ? "it has more than 64 MiB of that time: use a shorter --last"
				     : error_code_text(rc < 0 ? rc : -ENOMEM));
	else
		http_answer(d->server, w->connection,
			    &(struct http_answer){ .status = 200,
						   .type = "application/octet-stream",
						   .body = strbuf_text(&body),
						   .length = body.length });
}

uint64_t job_dump_step(struct job_dump *d)
{
	uint64_t due_ns = UINT64_MAX;

	for (size_t i = 0; i < JOB_DUMP_WAITING_MAX; i++) {
		struct job_dump_waiting *w = &d->waiting[i];

		if (w->connection && w->due_ns <= clock_monotonic_ns()) {
			answer(d, w);
			w->connection = 0;
		}
		if (w->connection)
			due_ns = MIN(due_ns, w->due_ns);
	}
	return due_ns;
}

void job_dump_release(struct job_dump *d)
{
	peer_secret_forget(&d->secret);
	peer_seen_release(&d->seen);
}
