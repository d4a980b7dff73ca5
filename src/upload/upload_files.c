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
#include "base/path.h"

#define STALE_S 30 /* a log without a shutdown that nobody has written to for so long is complete */
#define HEAD_BYTES 65536 /* of a log: has the first line's time, or its last line */
#define PIECE_BYTES ((size_t)256 << 10)
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
	size_t length = strlen(name);

	*f = (struct upload_file){ .number = UINT64_MAX };
	if (length >= sizeof(f->name))
		return false;
	memcpy(f->name, name, length + 1);
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

/* What may stand in a header. */
static bool is_session_id(const char *name)
{
	size_t length = strlen(name);

	return name[0] != '.' && length < UPLOAD_NAME_BYTES &&
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

/* Whether a process has it locked. */
static bool is_locked(const char *directory)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "%s/.gpufl-session.lock", directory);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
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

static int add_file(struct upload_session *s, int directory, const char *name)
{
	struct upload_file f;
	struct stat st;

	s->lossy |= !strncmp(name, LOSS_MARKER, strlen(LOSS_MARKER));
	s->running |= !strcmp(name, ".tmp");
	if (!parse_name(name, &f) || fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	if (is_active(directory, &f, &st)) {
		s->running = true;
		return 0;
	}
	f.bytes = (uint64_t)st.st_size;
	return vec_push(&s->files, f);
}

/* "ts_ns" of the first line of its first log. */
static uint64_t read_start(const struct upload_session *s)
{
	char path[PATH_MAX], text[HEAD_BYTES] = "";
	const char *found;
	gzFile file;

	snprintf(path, sizeof(path), "%s/%s", s->path, s->files.data[0].name);
	file = gzopen(path, "rbe");
	if (!file)
		return 0;
	if (!gzgets(file, text, sizeof(text)))
		text[0] = '\0';
	gzclose(file);
	found = strstr(text, "\"ts_ns\":");
	return found ? strtoull(found + strlen("\"ts_ns\":"), NULL, 10) : 0;
}

static void release_session(struct upload_session *s)
{
	vec_release(&s->files);
	free(s->path);
}

/* 1: it has files; 0: it is none. */
static int read_session(const char *log_path, const char *id, struct upload_session *s)
{
	struct dirent *entry;
	int r = 0;
	DIR *d;

	*s = (struct upload_session){ 0 };
	if (!is_session_id(id))
		return 0;
	memcpy(s->id, id, strlen(id) + 1);
	if (asprintf(&s->path, "%s/%s", log_path, id) < 0) {
		s->path = NULL;
		return -ENOMEM;
	}
	s->running = is_locked(
		s->path); /* before the list: what ends meanwhile is complete the next time */
	d = opendir(s->path);
	while (d && r == 0 && (entry = readdir(d)))
		r = add_file(s, dirfd(d), entry->d_name);
	if (d)
		closedir(d);
	sort_files(s);
	if (s->files.count)
		s->start_ns = read_start(s);
	return r < 0 ? r : s->files.count || (d && (s->running || s->lossy));
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

int upload_sessions_list(const char *log_path, const char *only, struct upload_sessions *out,
			 struct error *e)
{
	DIR *d = opendir(log_path);
	struct upload_session s;
	struct dirent *entry;
	int r = 0;

	*out = (struct upload_sessions){ 0 };
	if (!d)
		return error_errno(e, errno, "cannot read '%s'", log_path);
	while (r == 0 && (entry = readdir(d))) {
		if (only && strcmp(only, entry->d_name))
			continue;
		r = read_session(log_path, entry->d_name, &s);
		if (r > 0)
			r = vec_push(&out->all, s);
		else
			release_session(&s);
	}
	closedir(d);
	if (r < 0) {
		upload_sessions_release(out);
		return error_set(e, r, "out of memory");
	}
	if (out->all.count)
		qsort(out->all.data, out->all.count, sizeof(s), by_start);
	return 0;
}

void upload_sessions_keep_newest(struct upload_sessions *s)
{
	for (; s->all.count > 1; s->all.count--) {
		release_session(&s->all.data[0]);
		memmove(s->all.data, s->all.data + 1, (s->all.count - 1) * sizeof(*s->all.data));
	}
}

void upload_sessions_release(struct upload_sessions *s)
{
	for (size_t i = 0; i < s->all.count; i++)
		release_session(&s->all.data[i]);
	vec_release(&s->all);
}

/* ---- bodies ---- */

struct packing {
	const char *name;
	struct error *error;
	uint64_t raw;
	uint64_t lines;
	char last; /* byte of the text */
	uint8_t piece[PIECE_BYTES];
};

static int count_lines(struct packing *p, size_t length)
{
	for (const uint8_t *at = p->piece, *end = at + length;
	     (at = memchr(at, '\n', (size_t)(end - at))); at++)
		p->lines++;
	if (length)
		p->last = (char)p->piece[length - 1];
	p->raw += length;
	return p->raw <= UPLOAD_RAW_MAX ? 0 : E_LIMIT;
}

/* All members are whole, and nothing is behind them. */
static int check_gzip(struct packing *p, const struct strbuf *gzip)
{
	z_stream z = { .next_in = (Bytef *)gzip->data, .avail_in = (uInt)gzip->length };
	int r = 0, state;

	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return error_set(p->error, -ENOMEM, "out of memory");
	do {
		z.next_out = p->piece;
		z.avail_out = sizeof(p->piece);
		state = inflate(&z, Z_NO_FLUSH);
		r = count_lines(p, sizeof(p->piece) - z.avail_out);
		if (state == Z_STREAM_END && z.avail_in)
			state = inflateReset(&z);
	} while (r == 0 && state == Z_OK);
	inflateEnd(&z);
	if (r == 0 && state != Z_STREAM_END)
		r = error_set(p->error, E_FORMAT, "'%s' is damaged: it is no whole gzip", p->name);
	return r;
}

static int pack_piece(z_stream *z, int flush, struct strbuf *out)
{
	do {
		if (!strbuf_reserve(out, PIECE_BYTES))
			return -ENOMEM;
		z->next_out = (Bytef *)out->data + out->length;
		z->avail_out = PIECE_BYTES;
		deflate(z, flush);
		out->length += PIECE_BYTES - z->avail_out;
	} while (!z->avail_out);
	return 0;
}

static int pack_all(struct packing *p, int fd, z_stream *z, struct strbuf *out)
{
	ssize_t n;
	int r = 0;

	do {
		n = read(fd, p->piece, sizeof(p->piece));
		if (n < 0)
			return error_errno(p->error, errno, "cannot read '%s'", p->name);
		r = count_lines(p, (size_t)n);
		z->next_in = p->piece;
		z->avail_in = (uInt)n;
		if (r == 0 && pack_piece(z, n ? Z_NO_FLUSH : Z_FINISH, out) < 0)
			return error_set(p->error, -ENOMEM, "out of memory");
	} while (n && r == 0);
	return r;
}

static int pack_file(struct packing *p, const char *path, struct strbuf *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	z_stream z = { 0 };
	int r;

	if (fd < 0)
		return error_errno(p->error, errno, "cannot read '%s'", p->name);
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY))
		return error_set(p->error, -ENOMEM, "out of memory");
	r = pack_all(p, fd, &z, out);
	deflateEnd(&z);
	return r;
}

/* Without one, or with one of another file, the window has no identity. */
static void read_sidecar(const struct upload_session *s, const struct upload_file *f,
			 struct upload_body *b)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct json_members m;
	char path[PATH_MAX], id[UPLOAD_NAME_BYTES] = "";
	bool fits = false;
	int r;

	snprintf(path, sizeof(path), "%s/.gpufl-window.%s.%llu.json", s->path, channels[f->channel],
		 (unsigned long long)f->number);
	if (!f->packed || io_read_file(path, HEAD_BYTES, &text) < 0)
		return;
	m = (struct json_members)JSON_MEMBERS(strbuf_text(&text), text.length);
	while ((r = json_members_next(&m, NULL)) > 0) {
		const char *key = strbuf_text(&m.key), *value = strbuf_text(&m.text);

		if (!strcmp(key, "window_id") && is_session_id(value))
			memcpy(id, value, m.text.length + 1);
		else if (!strcmp(key, "window_sequence"))
			b->sequence = strtoull(value, NULL, 10);
		else if (!strcmp(key, "payload_crc32"))
			b->crc = strtoull(value, NULL, 10);
		else if (!strcmp(key, "payload_file"))
			fits = !strcmp(value, f->name);
	}
	json_members_release(&m);
	if (r == 0 && fits)
		memcpy(b->window_id, id, sizeof(id));
}

static int read_packed(struct packing *p, const char *path, struct upload_body *b)
{
	int r = io_read_file(path, UPLOAD_PACKED_MAX, &b->gzip);

	if (r < 0)
		return r == E_LIMIT ? r
				    : error_set(p->error, r, "cannot read '%s': %s", p->name,
						error_code_text(r));
	r = check_gzip(p, &b->gzip);
	if (r == 0 && b->window_id[0] &&
	    crc32(0, (const Bytef *)b->gzip.data, (uInt)b->gzip.length) != b->crc)
		r = error_set(p->error, E_FORMAT,
			      "'%s' is damaged: it is not what its sidecar describes", p->name);
	return r;
}

int upload_body_read(const struct upload_session *s, const struct upload_file *f,
		     struct upload_body *out, struct error *e)
{
	_cleanup_free_ struct packing *p = calloc(1, sizeof(*p));
	char path[PATH_MAX];
	int r;

	*out = (struct upload_body){ 0 };
	if (!p)
		return error_set(e, -ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "%s/%s", s->path, f->name);
	p->name = path + strlen(s->path) - strlen(s->id);
	p->error = e;
	read_sidecar(s, f, out);
	r = f->packed ? read_packed(p, path, out) : pack_file(p, path, &out->gzip);
	if (r == E_LIMIT || (r == 0 && out->gzip.length > UPLOAD_PACKED_MAX))
		r = error_set(
			e, E_LIMIT,
			"'%s' is too large: the server takes 30 MiB compressed and 128 MiB of text",
			p->name);
	out->lines = p->lines + (p->raw && p->last != '\n');
	if (r < 0)
		upload_body_release(out);
	return r;
}

void upload_body_release(struct upload_body *b)
{
	strbuf_release(&b->gzip);
}
