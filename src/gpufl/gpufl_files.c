#include "gpufl/gpufl_files.h"

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
#include "base/folder.h"
#include "base/helper_thread.h"
#include "base/io.h"
#include "base/map.h"
#include "gpufl/gpufl_life.h"

#define WINDOW_BYTES (UINT64_C(64) << 20)
#define MAX_BYTES (UINT64_C(4) << 30)
#define FREE_CHECK_BYTES (UINT64_C(16) << 20) /* written between checks of the free space */
#define PIECE_BYTES (64u << 10)
#define STACK_BYTES (256u << 10)
/* zlib level: a third of the time of the default level, with windows a fifth larger */
#define LEVEL 1
#define NAME_BYTES 64 /* of names in the directory, which are shorter */

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
	char directory[PATH_MAX];
	struct folder_id id; /* of the directory, which is opened for each use */
	enum folder_owner allowed; /* owner of the directory and its files */
	char session[GPUFL_ID_BYTES];
	struct gpufl_files_options options;
	struct window active[GPUFL_CHANNELS];
	uint64_t bytes; /* of text */
	uint64_t free_checked; /* value of bytes at the last check */
	_Atomic uint64_t disk_bytes;
	atomic_int error; /* errno that stopped all writing */
	struct own_fd life; /* gpufl_life.h */
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

static void active_name(enum gpufl_channel channel, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%s.log", gpufl_channel_names[channel]);
}

static void window_name(const struct window *w, const char *prefix, const char *suffix,
			char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%s%s.%u%s", prefix, gpufl_channel_names[w->channel], w->number,
		 suffix);
}

/* ---- folders ---- */

/* Descriptors of the session's directory and of .tmp in it. */
struct place {
	int session, tmp;
};

static void cleanup_place(struct place *p)
{
	fd_close(&p->tmp);
	fd_close(&p->session);
}
#define _cleanup_place_ _cleanup_(cleanup_place)
#define NOWHERE ((struct place){ -1, -1 })

/* Returns 0 and the descriptors that can be opened, or the first error. */
static int enter(const struct gpufl_files *f, struct place *p)
{
	p->session = folder_open_known(f->directory, &f->id);
	p->tmp = folder_enter(p->session, ".tmp", f->allowed);
	return p->session == E_MOVED ? -ENOENT : MIN(p->tmp, 0);
}

/* Writes no more than RLIMIT_FSIZE allows: beyond it a signal would end the program. */
static int write_allowed(int fd, uint64_t offset, const void *bytes, size_t length)
{
	return io_allowed(offset, length) < length ? -EFBIG : io_write_all(fd, bytes, length);
}

static int write_new_file(int folder, const char *name, const struct strbuf *text)
{
	int fd = text->failed ? -ENOMEM : folder_create_file(folder, name), r;

	if (fd < 0)
		return fd;
	r = write_allowed(fd, 0, text->data, text->length);
	close(fd);
	if (r < 0)
		unlinkat(folder, name, 0);
	return r;
}

/* ---- errors ---- */

/* Only the first error counts: nothing is written after it. `err` is an errno. */
static void fail(struct gpufl_files *f, int err, const char *channel, unsigned number,
		 const char *reason)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	_cleanup_place_ struct place place = NOWHERE;
	char name[NAME_BYTES];
	int none = 0;

	if (!atomic_compare_exchange_strong(&f->error, &none, err))
		return;
	strbuf_addf(&text,
		    "{\"schema_version\":1,\"type\":\"transport_window_loss\",\"channel\":\"%s\","
		    "\"window_index\":%u,\"reason\":\"%s\"}\n",
		    channel, number, reason);
	snprintf(name, sizeof(name), ".gpufl-transport-loss.%s.%u.json", channel, number);
	enter(f, &place);
	write_new_file(place.session, name, &text);
	strbuf_clear(&text);
	strbuf_addf(&text, "stopped writing to '%s': %s", f->directory, reason);
	if (f->options.on_error && !text.failed)
		f->options.on_error(text.data);
}

static void fail_window(struct gpufl_files *f, int err, const struct window *w, const char *what)
{
	char reason[128];

	/* Pitot's own codes (error.h) are not for others. */
	snprintf(reason, sizeof(reason), "%s:errno=%d (%s)", what, -err <= E_FORMAT ? EPERM : err,
		 error_code_text(-err));
	fail(f, -err <= E_FORMAT ? EPERM : err, gpufl_channel_names[w->channel], w->number, reason);
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

/*
 * Writes one gzip member, because readers take the size of the text from the last four bytes.
 * Replaces what a killed writer has left at `to`.
 */
static int compress_file(struct packing *p, int tmp, const char *from, const char *to,
			 enum folder_owner allowed)
{
	_cleanup_close_ int in = folder_open_file(tmp, from, O_RDONLY, allowed), out = -1;
	int r = -ENOMEM;

	if (in < 0)
		return in;
	unlinkat(tmp, to, 0);
	out = folder_create_file(tmp, to);
	if (out < 0)
		return out;
	p->from = in;
	p->to = out;
	if (deflateInit2(&p->z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
		r = pack_all(p);
		deflateEnd(&p->z);
	}
	if (r < 0)
		unlinkat(tmp, to, 0);
	return r;
}

/* Identical windows get identical ids, so that a server recognizes a window exported again. */
static void window_id(const struct gpufl_files *f, const struct window *w, const struct packing *p,
		      char id[GPUFL_ID_BYTES])
{
	uint64_t content = hash_u64((uint64_t)w->number << 32 | (uint32_t)p->crc) + w->channel;

	gpufl_id_from(id, content ^ hash_bytes(f->session, strlen(f->session)));
}

static int write_sidecar(const struct gpufl_files *f, const struct place *place,
			 const struct window *w, const struct packing *p)
{
	const char *channel = gpufl_channel_names[w->channel];
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char id[GPUFL_ID_BYTES], part[NAME_BYTES], name[NAME_BYTES];
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
	snprintf(part, sizeof(part), "%s.part", id);
	/* left by a writer killed at this point: the same window has the same id */
	unlinkat(place->tmp, part, 0);
	window_name(w, ".gpufl-window.", ".json", name);
	r = write_new_file(place->tmp, part, &text);
	if (r == 0)
		r = folder_rename_new(place->tmp, part, place->session, name);
	if (r < 0)
		unlinkat(place->tmp, part, 0);
	return r;
}

static void publish(struct gpufl_files *f, const struct window *w)
{
	_cleanup_free_ struct packing *p = calloc(1, sizeof(*p));
	char raw[NAME_BYTES], packed[NAME_BYTES];
	_cleanup_place_ struct place place = NOWHERE;
	int r = enter(f, &place);

	window_name(w, "", ".log", raw);
	window_name(w, "", ".log.gz", packed);
	if (r == 0)
		r = p ? compress_file(p, place.tmp, raw, packed, f->allowed) : -ENOMEM;
	if (r == 0)
		r = write_sidecar(f, &place, w, p);
	if (r == 0)
		r = folder_rename_new(place.tmp, packed, place.session, packed);
	if (r < 0) {
		fail_window(f, -r, w, "publish_failed");
		return;
	}
	unlinkat(place.tmp, raw, 0);
	atomic_fetch_sub(&f->disk_bytes, w->bytes);
	atomic_fetch_add(&f->disk_bytes, p->bytes);
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
	char from[NAME_BYTES], to[NAME_BYTES];
	_cleanup_place_ struct place place = NOWHERE;
	int r;

	if (!active->bytes)
		return;
	r = enter(f, &place);
	active_name(channel, from);
	window_name(active, "", ".log", to);
	w = malloc(sizeof(*w));
	if (r == 0)
		r = w ? folder_rename_new(place.tmp, from, place.tmp, to) : -ENOMEM;
	if (r < 0) {
		fail_window(f, -r, active, "rename_failed");
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

static bool has_room(struct gpufl_files *f, int folder, size_t length)
{
	uint64_t used = atomic_load(&f->disk_bytes) + length, free_bytes = UINT64_MAX;
	bool full = used > f->options.max_bytes;
	char reason[256];
	struct statvfs fs;

	if (!full && f->bytes && f->bytes - f->free_checked < FREE_CHECK_BYTES)
		return true;
	f->free_checked = f->bytes;
	if (fstatvfs(folder, &fs) == 0)
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

/* Opens the active window, which must be as long as we have written it. */
static int open_active(const struct gpufl_files *f, int tmp, const struct window *w)
{
	char name[NAME_BYTES];
	struct stat st;
	int fd;

	active_name(w->channel, name);
	if (!w->bytes)
		return folder_create_file(tmp, name);
	fd = folder_open_file(tmp, name, O_WRONLY | O_APPEND, f->allowed);
	if (fd >= 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != w->bytes)) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

static int append(const struct gpufl_files *f, int tmp, const struct window *w, const char *text,
		  size_t length)
{
	_cleanup_close_ int fd = open_active(f, tmp, w);
	int r = fd < 0 ? fd : write_allowed(fd, w->bytes, text, length);

	/* A partial line must not become the last line of a window. */
	return fd >= 0 && r < 0 && ftruncate(fd, (off_t)w->bytes) < 0 ? -errno : r;
}

int gpufl_files_write(struct gpufl_files *f, enum gpufl_channel channel, const char *text,
		      size_t length)
{
	struct window *w = &f->active[channel];
	_cleanup_place_ struct place place = NOWHERE;
	int r;

	if (atomic_load(&f->error))
		return -atomic_load(&f->error);
	r = enter(f, &place);
	if (r == 0 && !has_room(f, place.session, length))
		return -atomic_load(&f->error);
	if (w->bytes + length > f->options.window_bytes)
		close_window(f, channel);
	if (!w->bytes)
		w->opened_ms = (int64_t)(clock_monotonic_ns() / NS_PER_MS);
	if (r == 0)
		r = append(f, place.tmp, w, text, length);
	if (r < 0) {
		fail_window(f, -r, w, "write_failed");
		return -atomic_load(&f->error);
	}
	w->bytes += length;
	f->bytes += length;
	atomic_fetch_add(&f->disk_bytes, length);
	return 0;
}

int gpufl_files_check(struct gpufl_files *f)
{
	_cleanup_place_ struct place place = NOWHERE;
	int r = enter(f, &place);

	if (r < 0)
		fail(f, -r, "spool", 0, "folder_lost");
	else
		gpufl_life_renew(&f->life, place.session);
	return gpufl_files_error(f);
}

int gpufl_files_error(const struct gpufl_files *f)
{
	return -atomic_load(&f->error);
}

uint64_t gpufl_files_bytes(const struct gpufl_files *f)
{
	return f->bytes;
}

/* ---- beginning and end ---- */

/* Creates .tmp in the new directory of a session, whose identity is stored. */
static int make_tmp(struct gpufl_files *f, int session)
{
	int err = folder_identify(session, &f->id);

	if (err < 0)
		return err;
	if (mkdirat(session, ".tmp", 0777) < 0)
		return -errno;
	gpufl_life_begin(&f->life, session);
	return 0;
}

static int make_directories(struct gpufl_files *f, const struct gpufl_files_options *o,
			    struct error *e)
{
	_cleanup_close_ int folder = -1, session = -1;
	int r;

	if (strlen(o->log_path) + strlen(o->session) + 2 > sizeof(f->directory))
		return error_errno(e, ENAMETOOLONG, "cannot write to '%s'", o->log_path);
	if (mkdir(o->log_path, 0777) < 0 && errno != EEXIST)
		return error_errno(e, errno, "cannot create '%s'", o->log_path);
	folder = folder_open(o->log_path, FOLDER_ANY);
	if (folder < 0 || mkdirat(folder, o->session, 0777) < 0)
		return error_errno(e, folder < 0 ? -folder : errno, "cannot create '%s'",
				   f->directory);
	session = folder_enter(folder, o->session, FOLDER_ANY);
	r = make_tmp(f, session);
	if (r == 0)
		return 0;
	unlinkat(folder, o->session, AT_REMOVEDIR);
	return error_set(e, r, "cannot create '%s/.tmp': %s", f->directory, error_code_text(r));
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
	f->options.min_free_bytes = o->min_free_bytes ? o->min_free_bytes : GPUFL_FREE_BYTES_MIN;
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
	*out = f;
	return 0;
}

int gpufl_files_close(struct gpufl_files *f)
{
	_cleanup_place_ struct place place = NOWHERE;
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
	if (enter(f, &place) == 0)
		unlinkat(place.session, ".tmp", AT_REMOVEDIR);
	own_fd_close(&f->life);
	error = -atomic_load(&f->error);
	free_files(f);
	return error;
}

bool gpufl_files_abandon(struct gpufl_files *f)
{
	struct window *next;

	own_fd_close(&f->life);
	if (getpid() != f->owner || f->started)
		return getpid() == f->owner;
	for (struct window *w = f->first; w; w = next) {
		next = w->next;
		free(w);
	}
	free_files(f);
	return true;
}

/* ---- dead sessions ---- */

static bool exists(int folder, const char *name)
{
	struct stat st;

	return folder_stat(folder, name, &st) == 0;
}

static bool window_exists(int folder, const struct window *w, const char *suffix)
{
	char name[NAME_BYTES];

	window_name(w, "", suffix, name);
	return exists(folder, name);
}

/* Reads the beginning of the first line of a log. */
static void read_line(int folder, const char *name, char *line, int size)
{
	int fd = folder_open_file(folder, name, O_RDONLY, FOLDER_OWN);
	gzFile file = fd >= 0 ? gzdopen(fd, "rb") : NULL;

	if (file && !gzgets(file, line, size))
		line[0] = '\0';
	if (file)
		gzclose(file);
	else if (fd >= 0)
		close(fd);
}

/* Copies ,"pid":42,"app":"…","session_id":"…" from the first line of a channel. */
static void read_identity(const struct place *place, const struct window *w,
			  struct strbuf *identity)
{
	const struct window first = { .channel = w->channel, .number = 1 };
	char name[NAME_BYTES], line[8192] = "", *start, *end;

	window_name(&first, "", ".log.gz", name);
	read_line(place->session, name, line, sizeof(line));
	window_name(&first, "", ".log", name);
	if (!*line)
		read_line(place->tmp, name, line, sizeof(line));
	active_name(w->channel, name);
	if (!*line)
		read_line(place->tmp, name, line, sizeof(line));
	start = strstr(line, ",\"pid\":");
	end = start ? strstr(start, ",\"log_path\":") : NULL;
	if (end)
		strbuf_add(identity, start, (size_t)(end - start));
}

/* Removes a partial line at the end of the active window, and the whole window if it is empty. */
static int trim_active(const struct place *place, struct window *w, const char *name)
{
	_cleanup_close_ int fd = folder_open_file(place->tmp, name, O_RDWR, FOLDER_OWN);
	struct stat st = { 0 };
	char last = '\n';

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	w->bytes = (uint64_t)st.st_size;
	while (w->bytes && pread(fd, &last, 1, (off_t)w->bytes - 1) == 1 && last != '\n')
		w->bytes--;
	if (w->bytes)
		return ftruncate(fd, (off_t)w->bytes) < 0 ? -errno : 0;
	return unlinkat(place->tmp, name, 0) < 0 ? -errno : 0;
}

/* Appends the synthetic shutdown. */
static void repair_active(struct gpufl_files *f, const struct place *place, struct window *w)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	char name[NAME_BYTES];
	int r;

	strbuf_adds(&line, "{\"type\":\"shutdown\"");
	read_identity(place, w, &line);
	strbuf_addf(&line, ",\"ts_ns\":%llu,\"synthetic\":true}\n",
		    (unsigned long long)clock_read_ns(CLOCK_REALTIME));
	active_name(w->channel, name);
	r = trim_active(place, w, name);
	if (r < 0)
		fail_window(f, -r, w, "salvage_failed");
	w->opened_ms = -1;
	gpufl_files_write(f, w->channel, strbuf_text(&line), line.length);
}

static void salvage_channel(struct gpufl_files *f, const struct place *place, struct window *w)
{
	char name[NAME_BYTES];

	while (window_exists(place->session, w, ".log.gz"))
		w->number++;
	for (; window_exists(place->tmp, w, ".log"); w->number++) {
		window_name(w, ".gpufl-window.", ".json", name);
		unlinkat(place->session, name, 0); /* its payload was never published */
		w->opened_ms = w->closed_ms = -1;
		publish(f, w);
	}
	active_name(w->channel, name);
	if (w->number > 1 || exists(place->tmp, name))
		repair_active(f, place, w);
}

/* Returns whether the session was dead. Sessions of others are left to them. */
static bool salvage(int folder, const char *log_path, const char *session)
{
	_cleanup_place_ struct place place = { folder_enter(folder, session, FOLDER_OWN), -1 };
	struct gpufl_files *f;
	struct folder_id id;
	struct own_fd life;

	place.tmp = folder_enter(place.session, ".tmp", FOLDER_OWN);
	if (place.tmp < 0 || folder_identify(place.session, &id) < 0 ||
	    !gpufl_life_take(&life, place.session, place.tmp))
		return false;
	f = new_files(&(struct gpufl_files_options){
		.log_path = log_path, .session = session, .min_free_bytes = 1 });
	if (!f) {
		own_fd_close(&life);
		return false;
	}
	f->allowed = FOLDER_OWN;
	f->id = id;
	f->life = life;
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++)
		salvage_channel(f, &place, &f->active[c]);
	return gpufl_files_close(f) == 0;
}

unsigned gpufl_files_salvage(const char *log_path)
{
	_cleanup_close_ int folder = folder_open(log_path, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	unsigned count = 0;

	while ((name = folder_next(list)))
		if (strlen(name) == GPUFL_ID_BYTES - 1)
			count += salvage(folder, log_path, name);
	return count;
}
