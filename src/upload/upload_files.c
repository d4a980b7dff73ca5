#include "upload/upload_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/path.h"
#include "base/search.h"
#include "gpufl/gpufl_life.h"

/* a log without a shutdown that nobody has written to for this long is complete */
#define STALE_S 30
#define HEAD_BYTES 65536 /* of a log: contain the first line's time, or the last line */
#define PACKED_MAX ((size_t)30 << 20) /* the service's limit, minus headers */
#define RAW_MAX ((size_t)128 << 20)
#define PART_BYTES ((size_t)28 << 20) /* of text; gzip never enlarges it beyond PACKED_MAX */

/* Only characters that are allowed in a header. */
static bool is_session_id(const char *name)
{
	size_t length = strlen(name);

	return name[0] && name[0] != '.' && length < UPLOAD_ID_BYTES &&
	       strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") ==
		       length;
}

/* ---- sessions ---- */

/* Opens a window for zlib. Returns NULL and *code if it cannot be read. */
static gzFile open_gzip(const struct upload_sessions *all, const struct gpufl_window *w, int *code)
{
	int fd = gpufl_window_open(all->folder, all->path, w);
	gzFile file = fd >= 0 ? gzdopen(fd, "rb") : NULL;

	*code = fd < 0 ? fd : -ENOMEM;
	if (fd >= 0 && !file)
		close(fd);
	return file;
}

/* Reads "ts_ns" and "session_id" from the first line: 0 and "" if it lacks them. */
static uint64_t read_head(const struct upload_sessions *all, const struct gpufl_window *w,
			  char id[UPLOAD_ID_BYTES])
{
	char line[HEAD_BYTES] = "";
	struct json_found start = { .text = "" }, session;
	int unused;
	gzFile file = open_gzip(all, w, &unused);

	*id = '\0';
	if (!file)
		return 0;
	if (!gzgets(file, line, sizeof(line)))
		line[0] = '\0';
	gzclose(file);
	if (json_find(line, strlen(line), "session_id", &session, NULL) == 0 &&
	    is_session_id(session.text))
		memcpy(id, session.text, strlen(session.text) + 1);
	return json_find(line, strlen(line), "ts_ns", &start, NULL) == 0
		       ? strtoull(start.text, NULL, 10)
		       : 0;
}

/* Whether a plain log without a number may still be written, as gpufl before version 1.3 does. */
static bool is_active(const struct upload_sessions *all, const struct gpufl_window *w)
{
	char text[HEAD_BYTES + 1], *line;
	_cleanup_close_ int fd = -1;
	ssize_t n = 0;

	if (w->rank || w->number != UINT64_MAX ||
	    time(NULL) - (time_t)(w->modified_ns / NS_PER_S) > STALE_S)
		return false;
	fd = gpufl_window_open(all->folder, all->path, w);
	if (fd >= 0)
		n = pread(fd, text, HEAD_BYTES, MAX((off_t)w->bytes - HEAD_BYTES, 0));
	text[MAX(n, 0)] = '\0';
	if (n <= 0 || text[n - 1] != '\n')
		return true;
	text[n - 1] = '\0';
	line = strrchr(text, '\n');
	return !strstr(line ? line : text, "\"type\":\"shutdown\"");
}

/* Moves the window into the session unless it is not to be sent. */
static int add_window(const struct upload_sessions *all, struct upload_session *s,
		      struct gpufl_window *w)
{
	int r;

	if (w->channel == GPUFL_LOSS_MARKER)
		return 0;
	if (is_active(all, w)) {
		s->running = true;
		return 0;
	}
	r = vec_push(&s->windows, *w);
	if (r == 0)
		w->path = NULL;
	return r;
}

static void release_session(struct upload_session *s)
{
	for (size_t i = 0; i < s->windows.count; i++)
		free(s->windows.data[i].path);
	vec_release(&s->windows);
}

/* Adds a folder if it contains something of a session. */
static int add_folder(struct upload_sessions *all, const char *id)
{
	_cleanup_close_ int session =
		is_session_id(id) ? folder_enter(all->folder, id, FOLDER_ANY) : -ENOENT;
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct upload_session s = { .start_ns = 0 };
	struct gpufl_folder folder;
	char unused[UPLOAD_ID_BYTES];
	struct stat st;
	int r;

	if (session < 0)
		return 0;
	snprintf(s.id, sizeof(s.id), "%s", id);
	strbuf_addf(&path, "%s/%s", all->path, id);
	if (path.failed)
		return -ENOMEM;
	/* Before the list: a session that ends meanwhile is complete the next time. */
	s.running = gpufl_life_is_locked(session);
	s.unpublished = !s.running && folder_stat(session, ".tmp", &st) == 0;
	s.running |= s.unpublished;
	r = gpufl_folder_list(session, path.data, 0, gpufl_channel_names, &folder);
	r = r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < folder.windows.count && r == 0; i++) {
		struct gpufl_window *w = &folder.windows.data[i];

		s.lossy |= w->channel == GPUFL_LOSS_MARKER;
		if (w->group == path.length + 1)
			r = add_window(all, &s, w);
	}
	gpufl_folder_release(&folder);
	if (s.windows.count)
		s.start_ns = read_head(all, &s.windows.data[0], unused);
	if (r == 0 && (s.windows.count || s.running || s.lossy))
		r = vec_push(&all->all, s);
	else
		release_session(&s);
	return r;
}

/* Adds a log beside the folders, of gpufl 1.1, whose first line names its session. */
static int add_flat(struct upload_sessions *all, struct gpufl_window *w)
{
	struct upload_session *s = all->all.data, session = { 0 };
	size_t i = 0;

	if (w->group < strlen(all->path) + 3) /* a prefix and its dot */
		return 0;
	session.start_ns = read_head(all, w, session.id);
	if (!*session.id)
		return 0;
	while (i < all->all.count && strcmp(s[i].id, session.id) != 0)
		i++;
	if (i == all->all.count && vec_push(&all->all, session) < 0)
		return -ENOMEM;
	return add_window(all, &all->all.data[i], w);
}

ORDER(by_start, struct upload_session, UP(start_ns) ?: strcmp(a->id, b->id))

bool upload_is_session(const char *path)
{
	_cleanup_close_ int session = folder_open(path, FOLDER_ANY);
	struct gpufl_folder folder;
	struct stat st;
	bool found = gpufl_folder_list(session, path, 0, gpufl_channel_names, &folder) == 0 &&
		     folder.windows.count && folder.windows.data[0].group == strlen(path) + 1;

	gpufl_folder_release(&folder);
	return found || folder_stat(session, GPUFL_LOCK, &st) == 0;
}

static void remove_others(struct upload_sessions *s, const char *only)
{
	size_t newest = s->all.count - 1, kept = 0;

	for (size_t i = 0; i < s->all.count; i++)
		if (strcmp(only, "newest") ? !strcmp(s->all.data[i].id, only) : i == newest)
			s->all.data[kept++] = s->all.data[i];
		else
			release_session(&s->all.data[i]);
	s->all.count = kept;
}

int upload_sessions_list(const char *log_path, const char *only, struct upload_sessions *out,
			 struct error *e)
{
	_cleanup_list_ DIR *list = NULL;
	struct gpufl_folder flat;
	const char *name;
	int r;

	*out = (struct upload_sessions){ .folder = folder_open(log_path, FOLDER_ANY),
					 .path = log_path };
	list = folder_list(out->folder);
	if (!list) {
		r = error_errno(e, errno, "cannot read '%s'", log_path);
		upload_sessions_release(out);
		return r;
	}
	r = gpufl_folder_list(out->folder, log_path, 0, gpufl_channel_names, &flat);
	/* First, because a folder may have the name of one of their sessions. */
	for (size_t i = 0; i < flat.windows.count && r == 0; i++)
		r = add_flat(out, &flat.windows.data[i]);
	gpufl_folder_release(&flat);
	while (r == 0 && (name = folder_next(list)))
		r = add_folder(out, name);
	if (r < 0) {
		upload_sessions_release(out);
		return error_set(e, r, "out of memory");
	}
	vec_sort(&out->all, by_start);
	if (only)
		remove_others(out, only);
	return 0;
}

void upload_sessions_release(struct upload_sessions *s)
{
	for (size_t i = 0; i < s->all.count; i++)
		release_session(&s->all.data[i]);
	vec_release(&s->all);
	fd_close(&s->folder);
}

/* ---- bodies ---- */

/* Without a sidecar, or with the sidecar of another file, the window has no identity. */
static void read_sidecar(const struct upload_reader *r, struct upload_body *b)
{
	_cleanup_close_ int folder = folder_enter(r->sessions->folder, r->session->id, FOLDER_ANY);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct gpufl_window *w = r->window;
	struct json_found id, sequence, crc, file;
	char name[NAME_MAX + 1];

	snprintf(name, sizeof(name), ".gpufl-window.%s.%llu.json", gpufl_channel_names[w->channel],
		 (unsigned long long)w->number);
	if (folder_read_file(folder, name, HEAD_BYTES, &text) < 0 ||
	    json_find(text.data, text.length, "window_id", &id, NULL) < 0 ||
	    json_find(text.data, text.length, "window_sequence", &sequence, NULL) < 0 ||
	    json_find(text.data, text.length, "payload_crc32", &crc, NULL) < 0 ||
	    json_find(text.data, text.length, "payload_file", &file, NULL) < 0 ||
	    !is_session_id(id.text) || strcmp(file.text, base_name(w->path)) != 0)
		return;
	memcpy(b->window_id, id.text, strlen(id.text) + 1);
	b->sequence = strtoull(sequence.text, NULL, 10);
	b->crc = strtoull(crc.text, NULL, 10);
}

/* Counts the lines that end in the text and, at the end of a log, a last one without newline. */
static uint64_t count_lines(const char *text, size_t length, bool is_end)
{
	const char *end = text + length;
	uint64_t lines = is_end && length && end[-1] != '\n';

	for (; (text = memchr(text, '\n', (size_t)(end - text))); text++)
		lines++;
	return lines;
}

/* All members must be complete, with nothing after them. */
static int check_gzip(struct upload_body *b, struct error *e)
{
	z_stream z = { .next_in = (Bytef *)b->gzip.data, .avail_in = (uInt)b->gzip.length };
	char piece[HEAD_BYTES];
	size_t raw = 0, n;
	int state;

	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return error_set(e, -ENOMEM, "cannot be read: out of memory");
	do {
		z.next_out = (Bytef *)piece;
		z.avail_out = sizeof(piece);
		state = inflate(&z, Z_NO_FLUSH);
		n = sizeof(piece) - z.avail_out;
		b->lines += count_lines(piece, n, state == Z_STREAM_END && !z.avail_in);
		raw += n;
		if (state == Z_STREAM_END && z.avail_in)
			state = inflateReset(&z);
	} while (state == Z_OK && raw <= RAW_MAX);
	inflateEnd(&z);
	if (raw > RAW_MAX)
		return E_LIMIT;
	return state == Z_STREAM_END
		       ? 0
		       : error_set(e, E_FORMAT, "is damaged: not a complete gzip file");
}

/* Reads the window as on disk; E_LIMIT if it is too large for that. */
static int read_whole(const struct upload_reader *r, struct upload_body *b, struct error *e)
{
	_cleanup_close_ int fd =
		gpufl_window_open(r->sessions->folder, r->sessions->path, r->window);
	int rc = fd < 0 ? fd : io_read_to_end(fd, PACKED_MAX, &b->gzip);

	if (rc < 0)
		return rc == E_LIMIT ? rc
				     : error_set(e, rc, "cannot be read: %s", error_code_text(rc));
	read_sidecar(r, b);
	b->is_last = true;
	rc = check_gzip(b, e);
	if (rc == 0 && b->window_id[0] &&
	    crc32_z(0, (Bytef *)b->gzip.data, b->gzip.length) != b->crc)
		rc = error_set(e, E_FORMAT, "is damaged: it does not match its sidecar");
	return rc;
}

static int deflate_all(const char *text, size_t length, struct strbuf *out)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)length };
	int state = Z_MEM_ERROR;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY))
		return -ENOMEM;
	if (strbuf_reserve(out, deflateBound(&z, length))) {
		z.next_out = (Bytef *)out->data;
		z.avail_out = (uInt)out->capacity;
		state = deflate(&z, Z_FINISH);
		out->length = z.total_out;
	}
	deflateEnd(&z);
	return state == Z_STREAM_END ? 0 : -ENOMEM;
}

static int read_part(struct upload_reader *r, struct upload_body *b, struct error *e)
{
	size_t room = PART_BYTES + 1 - r->rest.length, length;
	int n = strbuf_reserve(&r->rest, room)
			? gzread(r->in, r->rest.data + r->rest.length, (unsigned)room)
			: 0,
	    state = Z_OK;
	const char *text = strbuf_text(&r->rest), *end;

	if (n > 0)
		r->rest.length += (size_t)n;
	gzerror(r->in, &state);
	if (n < 0 || state != Z_OK || (r->window->rank && gzdirect(r->in)))
		return error_set(e, E_FORMAT, "is damaged: not a complete gzip file");
	length = r->rest.length;
	if (length > PART_BYTES) {
		end = memrchr(text, '\n', PART_BYTES);
		if (!end)
			return error_set(e, E_LIMIT, "has a line longer than %zu MiB",
					 PART_BYTES >> 20);
		length = (size_t)(end + 1 - text);
	}
	b->is_last = length == r->rest.length;
	b->lines = count_lines(text, length, true);
	if (r->rest.failed || deflate_all(text, length, &b->gzip) < 0)
		return error_set(e, -ENOMEM, "cannot be read: out of memory");
	r->rest.length -= length;
	memmove(r->rest.data, text + length, r->rest.length);
	return 0;
}

int upload_reader_next(struct upload_reader *r, struct upload_body *out, struct error *e)
{
	struct error why = { 0 };
	int rc = E_LIMIT, code;

	*out = (struct upload_body){ 0 };
	if (r->window->rank && !r->in)
		rc = read_whole(r, out, &why);
	if (rc == E_LIMIT) {
		upload_body_release(out);
		*out = (struct upload_body){ 0 };
		if (r->in || (r->in = open_gzip(r->sessions, r->window, &code)))
			rc = read_part(r, out, &why);
		else
			rc = error_set(&why, code, "cannot be read: %s", error_code_text(code));
	}
	if (rc == 0)
		return 0;
	upload_body_release(out);
	return error_set(e, rc, "'%s/%s' %s", r->session->id, base_name(r->window->path), why.text);
}

void upload_reader_release(struct upload_reader *r)
{
	if (r->in)
		gzclose(r->in);
	strbuf_release(&r->rest);
}

void upload_body_release(struct upload_body *b)
{
	strbuf_release(&b->gzip);
}
