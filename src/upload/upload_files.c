#include "upload/upload_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <zlib.h>

#include "base/io.h"
#include "base/json_read.h"

#define STALE_S 30 /* a log without a shutdown that nobody has written to for so long is complete */
#define HEAD_BYTES 65536 /* of a log: has the first line's time, or its last line */
#define PACKED_MAX ((size_t)30 << 20) /* what the service takes, less headers */
#define RAW_MAX ((size_t)128 << 20)
#define PART_BYTES ((size_t)28 << 20) /* of text: gzip never makes more than PACKED_MAX of it */
#define LOSS_MARKER ".gpufl-transport-loss."

/* In the order in which they are sent; the last is the oldest releases' name of the first. */
static const char *const channels[] = { "device", "scope", "system", "sass", "kernel" };

const char *upload_channel_name(const struct upload_file *f)
{
	return channels[f->channel];
}

/* ---- names ---- */

/* "device.12.log.gz". */
static bool parse_name(const char *name, struct upload_file *f)
{
	const char *p = name;
	size_t length;

	*f = (struct upload_file){ .number = UINT64_MAX };
	for (f->channel = 0; f->channel < ARRAY_SIZE(channels); f->channel++) {
		length = strlen(channels[f->channel]);
		if (!strncmp(name, channels[f->channel], length) && name[length] == '.')
			break;
	}
	if (f->channel == ARRAY_SIZE(channels))
		return false;
	p += length + 1;
	if (isdigit((unsigned char)*p)) {
		char *end;

		f->number = strtoull(p, &end, 10);
		if (*end != '.' || f->number == UINT64_MAX)
			return false;
		p = end + 1;
	}
	f->packed = !strcmp(p, "log.gz");
	return f->packed || !strcmp(p, "log");
}

/* "app.device.12.log.gz". */
static bool parse_flat_name(const char *name, struct upload_file *f)
{
	const char *dot = strchr(name, '.');

	while (dot && !parse_name(dot + 1, f))
		dot = strchr(dot + 1, '.');
	return dot && dot > name;
}

/* What may stand in a header. */
static bool is_session_id(const char *name)
{
	size_t length = strlen(name);

	return name[0] && name[0] != '.' && length < UPLOAD_ID_BYTES &&
	       strspn(name, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") ==
		       length;
}

static int by_order(const void *a, const void *b)
{
	const struct upload_file *f = a, *g = b;

	if (f->channel != g->channel)
		return f->channel < g->channel ? -1 : 1;
	if (f->number != g->number)
		return f->number < g->number ? -1 : 1;
	return f->packed - g->packed;
}

/* Of both forms of a log the plain one counts, as for gpufl's readers: the other may not be complete. */
static void sort_files(struct upload_session *s)
{
	size_t kept = 0;

	if (s->files.count)
		qsort(s->files.data, s->files.count, sizeof(*s->files.data), by_order);
	for (size_t i = 0; i < s->files.count; i++) {
		const struct upload_file *f = &s->files.data[i];
		const struct upload_file *last = kept ? &s->files.data[kept - 1] : NULL;

		if (!last || f->channel != last->channel || f->number != last->number)
			s->files.data[kept++] = *f;
	}
	s->files.count = kept;
}

/* ---- sessions ---- */

/* "ts_ns" and "session_id" of its first line: 0 and "" where it has none. */
static uint64_t read_head(const char *directory, const struct upload_file *f,
			  char id[UPLOAD_ID_BYTES])
{
	char path[PATH_MAX], line[HEAD_BYTES] = "";
	struct json_found start = { .text = "" }, session;
	gzFile file;

	*id = '\0';
	snprintf(path, sizeof(path), "%s/%s", directory, f->name);
	file = gzopen(path, "rbe");
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

/* Whether a process has it locked. */
static bool is_locked(int directory)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	_cleanup_close_ int fd =
		openat(directory, ".gpufl-session.lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

/* Of a plain log without a number, which may be written still: gpufl before version 1.3 has them. */
static bool is_active(int directory, const struct upload_file *f, const struct stat *st)
{
	char text[HEAD_BYTES + 1], *line;
	_cleanup_close_ int fd = -1;
	ssize_t n = 0;

	if (f->packed || f->number != UINT64_MAX || time(NULL) - st->st_mtime > STALE_S)
		return false;
	fd = openat(directory, f->name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = pread(fd, text, HEAD_BYTES, MAX(st->st_size - HEAD_BYTES, 0));
	text[MAX(n, 0)] = '\0';
	if (n <= 0 || text[n - 1] != '\n')
		return true;
	text[n - 1] = '\0';
	line = strrchr(text, '\n');
	return !strstr(line ? line : text, "\"type\":\"shutdown\"");
}

static int add_file(struct upload_session *s, int directory, const char *name,
		    struct upload_file *f)
{
	struct stat st;

	if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    !st.st_size)
		return 0;
	snprintf(f->name, sizeof(f->name), "%s", name);
	if (is_active(directory, f, &st)) {
		s->running = true;
		return 0;
	}
	f->bytes = (uint64_t)st.st_size;
	return vec_push(&s->files, *f);
}

static void release_session(struct upload_session *s)
{
	vec_release(&s->files);
	free(s->path);
}

/* A folder, if there is something in it that belongs to a session. */
static int add_folder(struct upload_sessions *all, const char *log_path, const char *id)
{
	struct upload_session s = { .start_ns = 0 };
	char unused[UPLOAD_ID_BYTES];
	struct upload_file f;
	struct dirent *entry;
	int r = 0;
	DIR *d;

	if (!is_session_id(id))
		return 0;
	snprintf(s.id, sizeof(s.id), "%s", id);
	if (asprintf(&s.path, "%s/%s", log_path, id) < 0)
		return -ENOMEM;
	d = opendir(s.path);
	/* Before the list: what ends meanwhile is complete the next time. */
	s.running = d && is_locked(dirfd(d));
	while (d && r == 0 && (entry = readdir(d))) {
		s.lossy |= !strncmp(entry->d_name, LOSS_MARKER, strlen(LOSS_MARKER));
		s.running |= !strcmp(entry->d_name, ".tmp");
		if (parse_name(entry->d_name, &f))
			r = add_file(&s, dirfd(d), entry->d_name, &f);
	}
	if (d)
		closedir(d);
	sort_files(&s);
	if (s.files.count)
		s.start_ns = read_head(s.path, &s.files.data[0], unused);
	if (r == 0 && (s.files.count || s.running || s.lossy))
		r = vec_push(&all->all, s);
	else
		release_session(&s);
	return r;
}

/* A log beside the folders, of gpufl 1.1: its first line has its session. */
static int add_flat(struct upload_sessions *all, const char *log_path, int directory,
		    const char *name, struct upload_file *f)
{
	struct upload_session *s = all->all.data, made = { 0 };
	size_t i = 0;

	snprintf(f->name, sizeof(f->name), "%s", name);
	made.start_ns = read_head(log_path, f, made.id);
	if (!*made.id)
		return 0;
	while (i < all->all.count &&
	       (strcmp(s[i].path, log_path) != 0 || strcmp(s[i].id, made.id) != 0))
		i++;
	if (i == all->all.count) {
		made.path = strdup(log_path);
		if (!made.path || vec_push(&all->all, made) < 0) {
			free(made.path);
			return -ENOMEM;
		}
	}
	return add_file(&all->all.data[i], directory, name, f);
}

static int by_start(const void *a, const void *b)
{
	const struct upload_session *s = a, *t = b;

	if (s->start_ns != t->start_ns)
		return s->start_ns < t->start_ns ? -1 : 1;
	return strcmp(s->id, t->id);
}

bool upload_is_session(const char *path)
{
	struct upload_file unused;
	struct dirent *entry;
	DIR *d = opendir(path);
	bool found = false;

	while (d && !found && (entry = readdir(d)))
		found = parse_name(entry->d_name, &unused) ||
			!strncmp(entry->d_name, ".gpufl-session.lock", 19);
	if (d)
		closedir(d);
	return found;
}

static void keep_only(struct upload_sessions *s, const char *only)
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
	DIR *d = opendir(log_path);
	struct dirent *entry;
	struct upload_file f;
	int r = 0;

	*out = (struct upload_sessions){ 0 };
	if (!d)
		return error_errno(e, errno, "cannot read '%s'", log_path);
	while (r == 0 && (entry = readdir(d)))
		r = parse_flat_name(entry->d_name, &f)
			    ? add_flat(out, log_path, dirfd(d), entry->d_name, &f)
			    : add_folder(out, log_path, entry->d_name);
	closedir(d);
	if (r < 0) {
		upload_sessions_release(out);
		return error_set(e, r, "out of memory");
	}
	for (size_t i = 0; i < out->all.count; i++)
		sort_files(&out->all.data[i]);
	if (out->all.count)
		qsort(out->all.data, out->all.count, sizeof(*out->all.data), by_start);
	if (only)
		keep_only(out, only);
	return 0;
}

void upload_sessions_release(struct upload_sessions *s)
{
	for (size_t i = 0; i < s->all.count; i++)
		release_session(&s->all.data[i]);
	vec_release(&s->all);
}

/* ---- bodies ---- */

/* Without one, or with one of another file, the window has no identity. */
static void read_sidecar(const struct upload_session *s, const struct upload_file *f,
			 struct upload_body *b)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct json_found id, sequence, crc, file;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/.gpufl-window.%s.%llu.json", s->path, channels[f->channel],
		 (unsigned long long)f->number);
	if (io_read_file(path, HEAD_BYTES, &text) < 0 ||
	    json_find(text.data, text.length, "window_id", &id, NULL) < 0 ||
	    json_find(text.data, text.length, "window_sequence", &sequence, NULL) < 0 ||
	    json_find(text.data, text.length, "payload_crc32", &crc, NULL) < 0 ||
	    json_find(text.data, text.length, "payload_file", &file, NULL) < 0 ||
	    !is_session_id(id.text) || strcmp(file.text, f->name) != 0)
		return;
	memcpy(b->window_id, id.text, strlen(id.text) + 1);
	b->sequence = strtoull(sequence.text, NULL, 10);
	b->crc = strtoull(crc.text, NULL, 10);
}

/* Those that end in it, and what is behind the last of all. */
static uint64_t count_lines(const char *text, size_t length, bool is_end)
{
	const char *end = text + length;
	uint64_t lines = is_end && length && end[-1] != '\n';

	for (; (text = memchr(text, '\n', (size_t)(end - text))); text++)
		lines++;
	return lines;
}

/* All members are whole, and nothing is behind them. */
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
	return state == Z_STREAM_END ? 0
				     : error_set(e, E_FORMAT, "is damaged: it is no whole gzip");
}

/* As it is on disk; E_LIMIT: it is too large for that. */
static int read_whole(const struct upload_reader *r, const char *path, struct upload_body *b,
		      struct error *e)
{
	int rc = io_read_file(path, PACKED_MAX, &b->gzip);

	if (rc < 0)
		return rc == E_LIMIT ? rc
				     : error_set(e, rc, "cannot be read: %s", error_code_text(rc));
	read_sidecar(r->session, r->file, b);
	b->is_last = true;
	rc = check_gzip(b, e);
	if (rc == 0 && b->window_id[0] &&
	    crc32_z(0, (Bytef *)b->gzip.data, b->gzip.length) != b->crc)
		rc = error_set(e, E_FORMAT, "is damaged: it is not what its sidecar describes");
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
	size_t wanted = PART_BYTES + 1 - r->rest.length, length;
	int n = strbuf_reserve(&r->rest, wanted)
			? gzread(r->in, r->rest.data + r->rest.length, (unsigned)wanted)
			: 0,
	    state = Z_OK;
	const char *text = strbuf_text(&r->rest), *end;

	if (n > 0)
		r->rest.length += (size_t)n;
	gzerror(r->in, &state);
	if (n < 0 || state != Z_OK || (r->file->packed && gzdirect(r->in)))
		return error_set(e, E_FORMAT, "is damaged: it is no whole gzip");
	length = r->rest.length;
	if (length > PART_BYTES) {
		end = memrchr(text, '\n', PART_BYTES);
		if (!end)
			return error_set(e, E_LIMIT, "has a line of more than %zu MiB",
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
	char path[PATH_MAX];
	int rc = E_LIMIT;

	*out = (struct upload_body){ 0 };
	snprintf(path, sizeof(path), "%s/%s", r->session->path, r->file->name);
	if (r->file->packed && !r->in)
		rc = read_whole(r, path, out, &why);
	if (rc == E_LIMIT) {
		upload_body_release(out);
		*out = (struct upload_body){ 0 };
		if (r->in || (r->in = gzopen(path, "rbe")))
			rc = read_part(r, out, &why);
		else
			rc = error_errno(&why, errno, "cannot be read");
	}
	if (rc == 0)
		return 0;
	upload_body_release(out);
	return error_set(e, rc, "'%s/%s' %s", r->session->id, r->file->name, why.text);
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
