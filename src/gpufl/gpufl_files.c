#include "gpufl/gpufl_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/io.h"
#include "base/own_fd.h"
#include "base/map.h"

#define WINDOW_BYTES (UINT64_C(64) << 20)
#define MAX_BYTES (UINT64_C(4) << 30)
#define MIN_FREE_BYTES (UINT64_C(512) << 20)
#define FREE_CHECK_BYTES (UINT64_C(16) << 20) /* written between checks of the free space */
#define PIECE_BYTES (64u << 10)
#define STACK_BYTES (256u << 10)
/* zlib level: a third of the time of the default level, with windows a fifth larger */
#define LEVEL 1
#define NAME_BYTES 64 /* of names in the directory */

const char *const gpufl_channel_names[GPUFL_CHANNELS + 1] = { "device", "scope", "system", "sass",
							      "kernel" };

struct window {
	struct window *next;
	enum gpufl_channel channel;
	unsigned number; /* from 1 */
	int64_t opened_ms, closed_ms;
	uint64_t bytes;
};

struct gpufl_files {
	char directory[PATH_MAX - NAME_BYTES];
	char session[GPUFL_ID_BYTES];
	struct gpufl_files_options options;
	struct window active[GPUFL_CHANNELS];
	uint64_t bytes; /* of text */
	uint64_t free_checked; /* value of bytes at the last check */
	_Atomic uint64_t disk_bytes;
	atomic_int error; /* errno that stopped all writing */
	struct own_fd lock_file;
	pid_t owner;

	bool started; /* the publishing thread runs */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct window *first, **last; /* queue of closed windows */
	bool busy, ending, ended;
};

/* ---- names ---- */

static void format_id(char id[GPUFL_ID_BYTES], uint64_t a, uint64_t b)
{
	snprintf(id, GPUFL_ID_BYTES, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32),
		 (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
		 (unsigned)(b >> 48 & 0x3fff) | 0x8000, (unsigned long long)(b & 0xffffffffffff));
}

void gpufl_id_from(char id[GPUFL_ID_BYTES], uint64_t seed)
{
	format_id(id, hash_u64(seed), hash_u64(~seed));
}

void gpufl_id_random(char id[GPUFL_ID_BYTES])
{
	uint64_t bits[2] = { clock_read_ns(CLOCK_REALTIME), clock_machine_ns() };

	if (getrandom(bits, sizeof(bits), GRND_NONBLOCK) < 0)
		bits[0] = hash_u64(bits[0] ^ (uint64_t)getpid() << 32);
	format_id(id, bits[0], bits[1]);
}

static void PRINTF_LIKE(3, 4)
	path_in(const struct gpufl_files *f, char path[PATH_MAX], const char *format, ...)
{
	size_t length = strlen(f->directory);
	va_list args;

	memcpy(path, f->directory, length);
	path[length] = '/';
	va_start(args, format);
	vsnprintf(path + length + 1, PATH_MAX - length - 1, format, args);
	va_end(args);
}

static void active_path(const struct gpufl_files *f, enum gpufl_channel channel,
			char path[PATH_MAX])
{
	path_in(f, path, ".tmp/%s.log", gpufl_channel_names[channel]);
}

static void window_path(const struct gpufl_files *f, const struct window *w, const char *prefix,
			const char *suffix, char path[PATH_MAX])
{
	path_in(f, path, "%s%s.%u%s", prefix, gpufl_channel_names[w->channel], w->number, suffix);
}

/* ---- small files ---- */

static int open_for_writing(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

	return fd < 0 ? -errno : io_above_standard(fd);
}

/* Writes no more than RLIMIT_FSIZE allows: beyond it a signal would end the program. */
static int write_allowed(int fd, uint64_t offset, const void *bytes, size_t length)
{
	return io_allowed(offset, length) < length ? -EFBIG : io_write_all(fd, bytes, length);
}

static int write_new_file(const char *path, const struct strbuf *text)
{
	int fd = text->failed ? -ENOMEM : open_for_writing(path, O_EXCL), r;

	if (fd < 0)
		return fd;
	r = write_allowed(fd, 0, text->data, text->length);
	close(fd);
	if (r < 0)
		unlink(path);
	return r;
}

/* ---- errors ---- */

/* Only the first error counts: nothing is written after it. */
static void fail(struct gpufl_files *f, int err, const char *channel, unsigned number,
		 const char *reason)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[PATH_MAX];
	int none = 0;

	if (!atomic_compare_exchange_strong(&f->error, &none, err))
		return;
	strbuf_addf(&text,
		    "{\"schema_version\":1,\"type\":\"transport_window_loss\",\"channel\":\"%s\","
		    "\"window_index\":%u,\"reason\":\"%s\"}\n",
		    channel, number, reason);
	path_in(f, path, ".gpufl-transport-loss.%s.%u.json", channel, number);
	write_new_file(path, &text);
	strbuf_clear(&text);
	strbuf_addf(&text, "stopped writing to '%s': %s", f->directory, reason);
	if (f->options.on_error && !text.failed)
		f->options.on_error(text.data);
}

static void fail_window(struct gpufl_files *f, int err, const struct window *w, const char *what)
{
	char reason[128];
	const char *text = strerrordesc_np(err);

	snprintf(reason, sizeof(reason), "%s:errno=%d (%s)", what, err, text ? text : "");
	fail(f, err, gpufl_channel_names[w->channel], w->number, reason);
}

/* ---- publication ---- */

struct packing {
	int from, to;
	uint64_t bytes; /* compressed */
	uLong crc; /* of the compressed bytes */
	z_stream z;
	uint8_t in[PIECE_BYTES], out[PIECE_BYTES];
};

static int pack_piece(struct packing *p, int flush)
{
	size_t length;
	int r;

	do {
		p->z.next_out = p->out;
		p->z.avail_out = sizeof(p->out);
		deflate(&p->z, flush);
		length = sizeof(p->out) - p->z.avail_out;
		r = write_allowed(p->to, p->bytes, p->out, length);
		if (r < 0)
			return r;
		p->bytes += length;
		p->crc = crc32(p->crc, p->out, (uInt)length);
	} while (p->z.avail_out == 0);
	return 0;
}

static int pack_all(struct packing *p)
{
	ssize_t n;
	int r = 0;

	do {
		n = read(p->from, p->in, sizeof(p->in));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p->z.next_in = p->in;
		p->z.avail_in = (uInt)n;
		r = pack_piece(p, n ? Z_NO_FLUSH : Z_FINISH);
	} while (n != 0 && r == 0);
	return r;
}

/* Writes one gzip member, because readers take the size of the text from the last four bytes. */
static int compress_file(struct packing *p, const char *from, const char *to)
{
	int r = -ENOMEM;

	p->from = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (p->from < 0)
		return -errno;
	p->from = io_above_standard(p->from);
	p->to = open_for_writing(to, O_TRUNC);
	if (p->from >= 0 && p->to >= 0 &&
	    deflateInit2(&p->z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
		r = pack_all(p);
		deflateEnd(&p->z);
	}
	r = p->to < 0 ? p->to : r;
	if (p->from >= 0)
		close(p->from);
	if (p->to >= 0)
		close(p->to);
	if (r < 0)
		unlink(to);
	return r;
}

/* Identical windows get identical ids, so that a server recognizes a window exported again. */
static void window_id(const struct gpufl_files *f, const struct window *w, const struct packing *p,
		      char id[GPUFL_ID_BYTES])
{
	uint64_t content = hash_u64((uint64_t)w->number << 32 | (uint32_t)p->crc) + w->channel;

	gpufl_id_from(id, content ^ hash_bytes(f->session, strlen(f->session)));
}

static int write_sidecar(struct gpufl_files *f, const struct window *w, const struct packing *p)
{
	const char *channel = gpufl_channel_names[w->channel];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char id[GPUFL_ID_BYTES], part[PATH_MAX], path[PATH_MAX];
	int r;

	window_id(f, w, p, id);
	strbuf_addf(&text,
		    "{\"schema_version\":1,\"type\":\"transport_window\",\"window_id\":\"%s\","
		    "\"session_id\":\"%s\",\"channel\":\"%s\",\"window_sequence\":%u,"
		    "\"opened_mono_ms\":%lld,\"closed_mono_ms\":%lld,\"created_wall_ms\":%llu,"
		    "\"payload_file\":\"%s.%u.log.gz\",\"payload_bytes\":%llu,\"payload_crc32\":"
		    "%lu}\n",
		    id, f->session, channel, w->number, (long long)w->opened_ms,
		    (long long)w->closed_ms,
		    (unsigned long long)(clock_read_ns(CLOCK_REALTIME) / NS_PER_MS), channel,
		    w->number, (unsigned long long)p->bytes, p->crc);
	path_in(f, part, ".tmp/%s.part", id);
	unlink(part); /* left by a writer killed at this point: the same window has the same id */
	window_path(f, w, ".gpufl-window.", ".json", path);
	r = write_new_file(part, &text);
	if (r == 0)
		r = io_rename_new(AT_FDCWD, part, AT_FDCWD, path);
	if (r < 0)
		unlink(part);
	return r;
}

static void publish(struct gpufl_files *f, const struct window *w)
{
	struct packing *p = calloc(1, sizeof(*p));
	char raw[PATH_MAX], packed[PATH_MAX], path[PATH_MAX];
	int r = -ENOMEM;

	window_path(f, w, ".tmp/", ".log", raw);
	window_path(f, w, ".tmp/", ".log.gz", packed);
	window_path(f, w, "", ".log.gz", path);
	if (p)
		r = compress_file(p, raw, packed);
	if (r == 0)
		r = write_sidecar(f, w, p);
	if (r == 0)
		r = io_rename_new(AT_FDCWD, packed, AT_FDCWD, path);
	if (r == 0) {
		unlink(raw);
		atomic_fetch_sub(&f->disk_bytes, w->bytes);
		atomic_fetch_add(&f->disk_bytes, p->bytes);
	} else {
		fail_window(f, -r, w, "publish_failed");
	}
	free(p);
}

static void publish_next(struct gpufl_files *f)
{
	struct window *w = f->first;

	f->busy = true;
	f->first = w->next;
	f->last = f->first ? f->last : &f->first;
	pthread_mutex_unlock(&f->lock);
	publish(f, w);
	free(w);
	pthread_mutex_lock(&f->lock);
	f->busy = false;
	pthread_cond_broadcast(&f->changed);
}

static void *publish_queued(void *files)
{
	struct gpufl_files *f = files;

	pthread_setname_np(pthread_self(), "pitot");
	pthread_mutex_lock(&f->lock);
	while (f->first || !f->ending)
		if (f->first)
			publish_next(f);
		else
			pthread_cond_wait(&f->changed, &f->lock);
	f->ended = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* Closes the active window of a channel unless it is empty. */
static void close_window(struct gpufl_files *f, enum gpufl_channel channel)
{
	struct window *active = &f->active[channel], *w;
	char from[PATH_MAX], to[PATH_MAX];

	if (!active->bytes)
		return;
	active_path(f, channel, from);
	window_path(f, active, ".tmp/", ".log", to);
	w = malloc(sizeof(*w));
	if (!w || rename(from, to) < 0) {
		fail_window(f, w ? errno : ENOMEM, active, "rename_failed");
		free(w);
		return;
	}
	*w = *active;
	w->closed_ms = (int64_t)(clock_monotonic_ns() / NS_PER_MS);
	active->number++;
	active->bytes = 0;
	if (f->options.background && !f->started && !f->ending)
		f->started = helper_thread_start(publish_queued, f, STACK_BYTES) == 0;
	pthread_mutex_lock(&f->lock);
	*f->last = w;
	f->last = &w->next;
	pthread_cond_broadcast(&f->changed);
	while (f->first && !f->started)
		publish_next(f);
	pthread_mutex_unlock(&f->lock);
}

/* ---- writing ---- */

static bool has_room(struct gpufl_files *f, size_t length)
{
	uint64_t used = atomic_load(&f->disk_bytes) + length, free_bytes = UINT64_MAX;
	bool full = used > f->options.max_bytes;
	char reason[256];
	struct statvfs fs;

	if (!full && f->bytes && f->bytes - f->free_checked < FREE_CHECK_BYTES)
		return true;
	f->free_checked = f->bytes;
	if (statvfs(f->directory, &fs) == 0)
		free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (!full && free_bytes >= f->options.min_free_bytes)
		return true;
	snprintf(reason, sizeof(reason),
		 "%s:spool_bytes=%llu,max_spool_bytes=%llu,available_bytes=%llu,"
		 "min_free_bytes=%llu",
		 full ? "spool_budget_exceeded" : "filesystem_reserve_reached",
		 (unsigned long long)used, (unsigned long long)f->options.max_bytes,
		 (unsigned long long)free_bytes, (unsigned long long)f->options.min_free_bytes);
	fail(f, full ? EDQUOT : ENOSPC, "spool", 0, reason);
	return false;
}

int gpufl_files_write(struct gpufl_files *f, enum gpufl_channel channel, const char *text,
		      size_t length)
{
	struct window *w = &f->active[channel];
	char path[PATH_MAX];
	int fd, r;

	if (atomic_load(&f->error) || !has_room(f, length))
		return -atomic_load(&f->error);
	if (w->bytes + length > f->options.window_bytes)
		close_window(f, channel);
	if (!w->bytes)
		w->opened_ms = (int64_t)(clock_monotonic_ns() / NS_PER_MS);
	active_path(f, channel, path);
	fd = open_for_writing(path, O_APPEND);
	r = fd < 0 ? fd : write_allowed(fd, w->bytes, text, length);
	/* A partial line must not become the last line of a window. */
	if (fd >= 0 && r < 0 && ftruncate(fd, (off_t)w->bytes) < 0)
		r = -errno;
	if (fd >= 0)
		close(fd);
	if (r < 0) {
		fail_window(f, -r, w, "write_failed");
		return -atomic_load(&f->error);
	}
	w->bytes += length;
	f->bytes += length;
	atomic_fetch_add(&f->disk_bytes, length);
	return 0;
}

uint64_t gpufl_files_bytes(const struct gpufl_files *f)
{
	return f->bytes;
}

/* ---- beginning and end ---- */

/* Locks the session as a sign of life. Returns false if another process holds the lock. */
static bool lock_session(struct gpufl_files *f)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];

	path_in(f, path, ".gpufl-session.lock");
	return own_fd_set(&f->lock_file, open_for_writing(path, 0)) < 0 ||
	       fcntl(f->lock_file.fd, F_SETLK, &whole) == 0;
}

static int make_directories(const struct gpufl_files *f, const struct gpufl_files_options *o,
			    struct error *e)
{
	char path[PATH_MAX];
	int r;

	if (strlen(o->log_path) + strlen(o->session) + 2 > sizeof(f->directory))
		return error_errno(e, ENAMETOOLONG, "cannot write to '%s'", o->log_path);
	if (mkdir(o->log_path, 0777) < 0 && errno != EEXIST)
		return error_errno(e, errno, "cannot create '%s'", o->log_path);
	path_in(f, path, ".tmp");
	if (mkdir(f->directory, 0777) < 0)
		return error_errno(e, errno, "cannot create '%s'", f->directory);
	if (mkdir(path, 0777) == 0)
		return 0;
	r = error_errno(e, errno, "cannot create '%s'", path);
	rmdir(f->directory);
	return r;
}

static void free_files(struct gpufl_files *f)
{
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->changed);
	free(f);
}

/* Returns a session whose directory exists. */
static struct gpufl_files *new_files(const struct gpufl_files_options *o)
{
	struct gpufl_files *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->options = *o;
	f->options.window_bytes = o->window_bytes ? o->window_bytes : WINDOW_BYTES;
	f->options.max_bytes = o->max_bytes ? o->max_bytes : MAX_BYTES;
	f->options.min_free_bytes = o->min_free_bytes ? o->min_free_bytes : MIN_FREE_BYTES;
	snprintf(f->session, sizeof(f->session), "%s", o->session);
	snprintf(f->directory, sizeof(f->directory), "%s/%s", o->log_path, o->session);
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++)
		f->active[c] = (struct window){ .channel = (enum gpufl_channel)c, .number = 1 };
	f->last = &f->first;
	f->owner = getpid();
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	return f;
}

int gpufl_files_open(const struct gpufl_files_options *o, struct gpufl_files **out, struct error *e)
{
	struct gpufl_files *f = new_files(o);
	int r = f ? make_directories(f, o, e)
		  : error_errno(e, ENOMEM, "cannot write to '%s'", o->log_path);

	if (r < 0) {
		if (f)
			free_files(f);
		return r;
	}
	lock_session(f);
	*out = f;
	return 0;
}

int gpufl_files_close(struct gpufl_files *f)
{
	char path[PATH_MAX];
	int error;

	if (!f->started)
		f->ending = true; /* starting the thread is no longer worthwhile */
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++)
		close_window(f, (enum gpufl_channel)c);
	pthread_mutex_lock(&f->lock);
	f->ending = true;
	pthread_cond_broadcast(&f->changed);
	while (f->started && !f->ended)
		pthread_cond_wait(&f->changed, &f->lock);
	pthread_mutex_unlock(&f->lock);
	path_in(f, path, ".tmp");
	rmdir(path);
	own_fd_close(&f->lock_file);
	error = -atomic_load(&f->error);
	free_files(f);
	return error;
}

bool gpufl_files_abandon(struct gpufl_files *f)
{
	struct window *next;

	own_fd_close(&f->lock_file);
	if (getpid() != f->owner || f->started)
		return getpid() == f->owner;
	for (struct window *w = f->first; w; w = next) {
		next = w->next;
		free(w);
	}
	free_files(f);
	return true;
}

/* Failures are ignored here, because creating the last folder reports them. */
static void make_parents(const char *path)
{
	char parent[PATH_MAX];

	for (size_t i = 1; i < sizeof(parent) && path[i - 1] && path[i]; i++) {
		if (path[i] != '/')
			continue;
		memcpy(parent, path, i);
		parent[i] = '\0';
		mkdir(parent, 0777);
	}
}

char *gpufl_files_make_folder(const char *log_path, bool *is_full, struct error *e)
{
	_cleanup_close_ int folder = -1;
	struct statvfs fs;
	char *path;

	make_parents(log_path);
	if (mkdir(log_path, 0777) < 0 && errno != EEXIST) {
		error_errno(e, errno, "cannot create '%s' for gpufl's logs", log_path);
		return NULL;
	}
	folder = open(log_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		error_errno(e, errno, "cannot write gpufl's logs into '%s'", log_path);
		return NULL;
	}
	path = realpath(log_path, NULL);
	if (!path)
		error_errno(e, errno, "cannot use '%s'", log_path);
	*is_full =
		statvfs(log_path, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < MIN_FREE_BYTES;
	return path;
}

/* ---- dead sessions ---- */

static bool window_exists(const struct gpufl_files *f, const struct window *w, const char *prefix,
			  const char *suffix)
{
	char path[PATH_MAX];

	window_path(f, w, prefix, suffix, path);
	return access(path, F_OK) == 0;
}

/* Copies ,"pid":42,"app":"…","session_id":"…" from the first line of a channel. */
static void read_identity(const struct gpufl_files *f, const struct window *w,
			  struct strbuf *identity)
{
	const struct window first = { .channel = w->channel, .number = 1 };
	char paths[3][PATH_MAX], line[8192] = "", *start, *end;

	window_path(f, &first, "", ".log.gz", paths[0]);
	window_path(f, &first, ".tmp/", ".log", paths[1]);
	active_path(f, w->channel, paths[2]);
	for (size_t i = 0; i < ARRAY_SIZE(paths) && !*line; i++) {
		gzFile file = gzopen(paths[i], "rbe");

		if (file && !gzgets(file, line, sizeof(line)))
			line[0] = '\0';
		if (file)
			gzclose(file);
	}
	start = strstr(line, ",\"pid\":");
	end = start ? strstr(start, ",\"log_path\":") : NULL;
	if (end)
		strbuf_add(identity, start, (size_t)(end - start));
}

/* Removes a partial line at the end, and appends the synthetic shutdown. */
static void repair_active(struct gpufl_files *f, struct window *w)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char path[PATH_MAX], last = '\n';
	struct stat st = { 0 };
	int fd;

	strbuf_adds(&line, "{\"type\":\"shutdown\"");
	read_identity(f, w, &line);
	strbuf_addf(&line, ",\"ts_ns\":%llu,\"synthetic\":true}\n",
		    (unsigned long long)clock_read_ns(CLOCK_REALTIME));
	active_path(f, w->channel, path);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		fstat(fd, &st);
	w->bytes = (uint64_t)st.st_size;
	while (w->bytes && pread(fd, &last, 1, (off_t)w->bytes - 1) == 1 && last != '\n')
		w->bytes--;
	if (fd >= 0 && ftruncate(fd, (off_t)w->bytes) < 0)
		fail_window(f, errno, w, "salvage_failed");
	if (fd >= 0)
		close(fd);
	w->opened_ms = -1;
	gpufl_files_write(f, w->channel, strbuf_text(&line), line.length);
}

static void salvage_channel(struct gpufl_files *f, struct window *w)
{
	char path[PATH_MAX];

	while (window_exists(f, w, "", ".log.gz"))
		w->number++;
	for (; window_exists(f, w, ".tmp/", ".log"); w->number++) {
		window_path(f, w, ".gpufl-window.", ".json", path);
		unlink(path); /* its payload was never published */
		w->opened_ms = w->closed_ms = -1;
		publish(f, w);
	}
	active_path(f, w->channel, path);
	if (w->number > 1 || access(path, F_OK) == 0)
		repair_active(f, w);
}

/* Returns whether the session was dead. */
static bool salvage(const char *log_path, const char *session)
{
	struct gpufl_files *f = new_files(&(struct gpufl_files_options){
		.log_path = log_path, .session = session, .min_free_bytes = 1 });
	char path[PATH_MAX];
	bool dead;

	if (!f)
		return false;
	path_in(f, path, ".tmp");
	dead = access(path, F_OK) == 0 && lock_session(f);
	if (!dead) {
		gpufl_files_abandon(f);
		return false;
	}
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++)
		salvage_channel(f, &f->active[c]);
	return gpufl_files_close(f) == 0;
}

unsigned gpufl_files_salvage(const char *log_path)
{
	DIR *d = opendir(log_path);
	struct dirent *entry;
	unsigned count = 0;

	while (d && (entry = readdir(d)))
		if (strlen(entry->d_name) == GPUFL_ID_BYTES - 1)
			count += salvage(log_path, entry->d_name);
	if (d)
		closedir(d);
	return count;
}

/* Removes the files with this prefix or the suffix .log or .log.gz, then the directory. */
static int remove_files(const char *directory)
{
	DIR *d = opendir(directory);
	char path[PATH_MAX + 256];
	struct dirent *entry;

	if (!d)
		return -errno;
	while ((entry = readdir(d))) {
		const char *name = entry->d_name, *dot = strstr(name, ".log");

		if (strncmp(name, ".gpufl-", 7) && !strstr(name, ".part") &&
		    (!dot || (strcmp(dot, ".log") && strcmp(dot, ".log.gz"))))
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, name);
		unlink(path);
	}
	closedir(d);
	return rmdir(directory) < 0 ? -errno : 0;
}

int gpufl_files_remove(const char *log_path, const char *session)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/.tmp", log_path, session);
	remove_files(path);
	snprintf(path, sizeof(path), "%s/%s", log_path, session);
	return remove_files(path);
}
