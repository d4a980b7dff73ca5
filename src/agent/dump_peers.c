#include "agent/dump_peers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/lake.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/path.h"
#include "base/starts_with.h"
#include "format/segment.h"
#include "trace/parallel.h"
#include "upload/http.h"

#define PORT_DEFAULT ":9464"
#define FILE_BYTES_MAX ((size_t)4 << 20) /* of the file of peers */
#define ASKED_AT_ONCE 32u
#define LINE_MAX_BYTES 400u
#define FILES_MAX 65536u
#define PARTIAL ".partial"
#define HTTPS "https://"

/* --- peers --- */

static int add_peer(struct peer_dumps *out, const char *text, size_t length)
{
	struct peer_dump one = { .has_tls = starts_with(text, HTTPS) };
	char name[300];

	if (one.has_tls) {
		text += strlen(HTTPS);
		length -= MIN(strlen(HTTPS), length);
	}
	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	if (length >= sizeof(name) - sizeof(PORT_DEFAULT) || strpbrk(name, "/?#@\\ \t") ||
	    !http_is_header_text(name) || out->all.count >= PEERS_MAX)
		return E_FORMAT;
	if (!strchr(name, ':') || name[length - 1] == ']')
		snprintf(name + length, sizeof(name) - length, PORT_DEFAULT);
	one.peer = strdup(name);
	if (!one.peer || vec_push(&out->all, one) < 0) {
		free(one.peer);
		return -ENOMEM;
	}
	return 0;
}

int peer_dumps_read(const char *path, struct peer_dumps *out, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = io_read_text(path, FILE_BYTES_MAX, &text);
	const char *line = strbuf_text(&text);

	if (rc < 0)
		return error_set(e, rc, "cannot read the peers '%s': %s", path,
				 error_code_text(rc));
	for (unsigned number = 1; *line; number++) {
		size_t length = strcspn(line, "\n"), used = strcspn(line, "#\r\n");

		while (used && strchr(" \t", line[used - 1]))
			used--;
		rc = used ? add_peer(out, line, used) : 0;
		if (rc < 0)
			return error_set(e, rc, "line %u of the peers '%s' is no HOST:PORT", number,
					 path);
		line += length + (line[length] == '\n');
	}
	return out->all.count ? 0 : error_set(e, E_USAGE, "the file '%s' names no peers", path);
}

void peer_dumps_release(struct peer_dumps *d)
{
	for (size_t i = 0; i < d->all.count; i++) {
		free(d->all.data[i].peer);
		free(d->all.data[i].recording);
	}
	vec_release(&d->all);
}

/* --- an answer --- */

struct receiver {
	const struct peer_request *request;
	struct peer_dump *dump;
	int folder; /* of the recording; -1: none yet */
	int file; /* that is received; -1: none */
	uint64_t left; /* of it */
	char line[LINE_MAX_BYTES];
	size_t length;
	struct hmac code;
	bool is_whole; /* the code was right, and nothing came after it */
	char name[LAKE_NAME_MAX * 2 + 16]; /* of the recording */
};

static int open_folder(struct receiver *r, const char *host)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	if (r->folder >= 0)
		return E_FORMAT;
	lake_add_name(&name, host);
	strbuf_addc(&name, '.');
	lake_add_name(&name, r->dump->peer); /* several agents may be on one host */
	if (name.failed)
		return -ENOMEM;
	snprintf(r->name, sizeof(r->name), "%s", strbuf_text(&name));
	strbuf_adds(&name, PARTIAL);
	if (mkdirat(r->request->folder, strbuf_text(&name), 0700) < 0)
		return -errno;
	r->folder = folder_enter(r->request->folder, strbuf_text(&name), FOLDER_OWN);
	return r->folder < 0 ? r->folder : 0;
}

static int open_file(struct receiver *r, const char *name, uint64_t bytes)
{
	if (r->folder < 0 || r->file >= 0 || ++r->dump->files > FILES_MAX ||
	    !has_suffix(name, SEGMENT_SUFFIX) || *name == '.')
		return E_FORMAT;
	/* The code of the answer comes last: it may be anybody who fills this disk. */
	if (bytes > PEER_ANSWER_BYTES_MAX - r->dump->bytes)
		return E_LIMIT;
	r->file = folder_create_file(r->folder, name);
	r->left = bytes;
	r->dump->bytes += bytes;
	return r->file < 0 ? r->file : 0;
}

static int on_line(struct receiver *r)
{
	char name[256], code[PEER_CODE + 1];
	uint64_t bytes;
	int end = 0;

	if (starts_with(r->line, "end ")) {
		peer_code_end(&r->code, code);
		r->is_whole = strlen(r->line) == strlen("end ") + PEER_CODE &&
			      equal_secret(r->line + strlen("end "), code, PEER_CODE);
		return r->is_whole ? 0 : -EBADMSG;
	}
	hmac_add(&r->code, r->line, r->length);
	hmac_add(&r->code, "\n", 1);
	if (starts_with(r->line, "host "))
		return open_folder(r, r->line + strlen("host "));
	if (sscanf(r->line, "file %255[0-9A-Za-z.-] %" SCNu64 "%n", name, &bytes, &end) == 2 &&
	    !r->line[end])
		return open_file(r, name, bytes);
	return E_FORMAT;
}

static int receive_file(struct receiver *r, const uint8_t *bytes, size_t length)
{
	int rc = io_write_all(r->file, bytes, length);

	hmac_add(&r->code, bytes, length);
	r->left -= length;
	return rc;
}

static int receive(void *user, const void *bytes, size_t length)
{
	struct receiver *r = user;
	const uint8_t *at = bytes, *end = at + length;
	int rc = 0;

	while (at < end && rc == 0) {
		if (r->is_whole)
			return E_FORMAT;
		if (r->file >= 0 && r->left) {
			size_t n = (size_t)MIN(r->left, (uint64_t)(end - at));

			rc = receive_file(r, at, n);
			at += n;
			continue;
		}
		fd_close(&r->file);
		if (*at != '\n') {
			if (!*at || r->length + 1 >= sizeof(r->line))
				return E_FORMAT;
			r->line[r->length++] = (char)*at++;
			continue;
		}
		at++;
		r->line[r->length] = '\0';
		rc = on_line(r);
		r->length = 0;
	}
	return rc;
}

/* --- asking --- */

struct asking {
	struct peer_dumps *dumps;
	const struct peer_request *request;
	struct http *http[ASKED_AT_ONCE];
};

static void add_query(const struct peer_request *r, struct strbuf *out)
{
	strbuf_adds(out, "/dump?job=");
	for (const char *c = r->job; *c; c++)
		if ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		    (*c >= 'A' && *c <= 'Z') || strchr("._-", *c))
			strbuf_addc(out, *c);
		else
			strbuf_addf(out, "%%%02X", (unsigned char)*c);
	strbuf_addf(out, "&from=%" PRIu64 "&until=%" PRIu64, r->from_ns, r->until_ns);
}

/* Gives the recording its name, or removes it. */
static int finish(struct receiver *r, int rc)
{
	_cleanup_strbuf_ struct strbuf partial = STRBUF_INIT, name = STRBUF_INIT;

	fd_close(&r->file);
	if (r->folder < 0)
		return rc;
	close(r->folder);
	strbuf_addf(&partial, "%s" PARTIAL, r->name);
	strbuf_addf(&name, "%s.pitot", r->name);
	if (rc == 0)
		rc = partial.failed || name.failed
			     ? -ENOMEM
			     : folder_rename_new(r->request->folder, strbuf_text(&partial),
						 r->request->folder, strbuf_text(&name));
	r->dump->recording = rc == 0 ? strdup(strbuf_text(&name)) : NULL;
	if (rc == 0 && !r->dump->recording)
		rc = -ENOMEM;
	if (rc < 0)
		lake_remove_folder(r->request->folder, strbuf_text(&partial));
	return rc;
}

static int send_request(struct asking *a, unsigned worker, struct receiver *r, const char *url,
			struct error *e)
{
	static const char *const none[] = { NULL };
	const struct http_request request = { .method = HTTP_GET,
					      .url = url,
					      .headers = none,
					      .receive = receive,
					      .user = r,
					      .timeout_ns = a->request->timeout_ns };
	struct http_response response;
	int rc = http_send(a->http[worker], &request, &response, e);

	if (rc == -EBADMSG)
		return error_set(e, rc, "its answer is not signed with this secret");
	if (rc < 0)
		return rc;
	if (response.status == 404) {
		rc = 1;
	} else if (response.status != 200) {
		if (response.body.length)
			http_make_printable(response.body.data);
		rc = error_set(e, -EACCES, "it answers HTTP %ld%s%.200s", response.status,
			       response.body.length ? ": " : "", strbuf_text(&response.body));
	} else if (!r->is_whole) {
		rc = error_set(e, -EBADMSG, "its answer is not complete");
	}
	http_response_release(&response);
	return rc;
}

static int ask(void *user, unsigned worker, size_t item)
{
	struct asking *a = user;
	struct peer_dump *d = &a->dumps->all.data[item];
	struct receiver r = { .request = a->request, .dump = d, .folder = -1, .file = -1 };
	_cleanup_strbuf_ struct strbuf query = STRBUF_INIT, url = STRBUF_INIT;
	char nonce[PEER_NONCE + 1];
	int rc = a->request->stop && *a->request->stop ? -ECANCELED : peer_nonce(nonce, &d->error);

	if (rc < 0) {
		error_set(&d->error, rc, "%s", error_code_text(rc));
		return 0;
	}
	add_query(a->request, &query);
	peer_sign(a->request->secret, d->peer, clock_read_ns(CLOCK_REALTIME) / NS_PER_S, nonce,
		  &query);
	strbuf_addf(&url, "%s%s%s", d->has_tls ? HTTPS : "http://", d->peer, strbuf_text(&query));
	peer_answer_begin(a->request->secret, nonce, &r.code);
	rc = url.failed ? error_set(&d->error, -ENOMEM, "out of memory")
			: send_request(a, worker, &r, strbuf_text(&url), &d->error);
	if (rc == 0 && (rc = finish(&r, 0)) < 0)
		error_set(&d->error, rc, "%s", error_code_text(rc));
	else if (rc != 0)
		(void)finish(&r, rc);
	return 0; /* the others are asked all the same */
}

int peer_dumps_ask(struct peer_dumps *d, const struct peer_request *r, struct error *e)
{
	struct asking a = { .dumps = d, .request = r };
	static const char *const none[] = { NULL };
	const struct http_options options = { .ca_file = r->ca_file,
					      .no_proxy = true,
					      .stall_timeout_ns = r->timeout_ns,
					      .headers = none,
					      .cancel = r->stop };
	unsigned threads = (unsigned)MIN(d->all.count, (size_t)ASKED_AT_ONCE);
	int rc = 0;

	/* Before there are threads: libcurl's first use is not for several. */
	for (unsigned i = 0; i < threads && rc == 0; i++)
		rc = http_open(&options, &a.http[i], e);
	rc = rc < 0 ? rc : parallel_for(threads, d->all.count, ask, &a);
	for (unsigned i = 0; i < threads; i++)
		http_free(a.http[i]);
	return rc;
}
