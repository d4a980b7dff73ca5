#include "capture/engines/pc_cubins.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "capture/core/log.h"
#include "capture/core/vendor_thread.h"
#include "format/segment_request.h"

/* Never freed once identified. `bytes` never change once they are set. */
struct cubin {
	struct cubin *next;
	uint8_t *bytes; /* NULL: only its checksum is known, from rows */
	size_t size;
	uint64_t crc;
	bool identified, needed;
	bool settled; /* its file has been written, or cannot be */
	bool has_file, taken;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* only held briefly */
static struct cubin *cubins;
static size_t kept_bytes;
static struct place {
	char directory[SETTINGS_PATH_MAX], launcher[SETTINGS_LAUNCHER_MAX];
	struct folder_id id;
} recording; /* in use; "": none */
static atomic_uint_fast64_t lost;

static bool reserve(size_t size)
{
	bool fits;

	pthread_mutex_lock(&lock);
	fits = size <= PC_CUBINS_BYTES - kept_bytes;
	if (fits)
		kept_bytes += size;
	pthread_mutex_unlock(&lock);
	return fits;
}

static void unreserve(size_t size)
{
	pthread_mutex_lock(&lock);
	kept_bytes -= size;
	pthread_mutex_unlock(&lock);
}

static void link_in(struct cubin *c)
{
	c->next = cubins;
	cubins = c;
}

void pc_cubins_add(const void *bytes, size_t size)
{
	struct cubin *c;

	if (!bytes || !size)
		return;
	if (!reserve(size)) {
		atomic_fetch_add(&lost, 1);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (c)
		c->bytes = malloc(size);
	if (!c || !c->bytes) {
		free(c);
		unreserve(size);
		atomic_fetch_add(&lost, 1);
		return;
	}
	memcpy(c->bytes, bytes, size);
	c->size = size;
	pthread_mutex_lock(&lock);
	link_in(c);
	pthread_mutex_unlock(&lock);
}

static struct cubin *find(uint64_t crc)
{
	for (struct cubin *c = cubins; c; c = c->next)
		if (c->identified && c->crc == crc)
			return c;
	return NULL;
}

static struct cubin *next_new(void)
{
	struct cubin *c;

	pthread_mutex_lock(&lock);
	for (c = cubins; c && c->identified; c = c->next)
		;
	pthread_mutex_unlock(&lock);
	return c;
}

static void unlink_it(struct cubin *c)
{
	struct cubin **at = &cubins;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

/* If the checksum is known, merges the module into the known one, which keeps any bytes it has. */
static void settle_identity(struct cubin *c, uint64_t crc)
{
	struct cubin *known;
	uint8_t *unused = NULL;

	pthread_mutex_lock(&lock);
	known = find(crc);
	if (!known) {
		c->crc = crc;
		c->identified = true;
	} else {
		unlink_it(c);
		if (known->bytes) {
			unused = c->bytes;
			kept_bytes -= c->size;
		} else {
			known->bytes = c->bytes;
			known->size = c->size;
			known->settled = known->taken = false;
		}
	}
	pthread_mutex_unlock(&lock);
	if (known)
		free(c);
	free(unused);
}

/* A module without a checksum is useless: no row refers to it. */
static void drop(struct cubin *c)
{
	pthread_mutex_lock(&lock);
	unlink_it(c);
	kept_bytes -= c->size;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&lost, 1);
	free(c->bytes);
	free(c);
}

void pc_cubins_identify(const struct cupti *cupti)
{
	struct cubin *c;

	while ((c = next_new())) {
		CUpti_GetCubinCrcParams p = { .size = CUpti_GetCubinCrcParamsSize,
					      .cubinSize = c->size,
					      .cubin = c->bytes };
		CUptiResult result;

		vendor_enter("cuptiGetCubinCrc");
		result = cupti->GetCubinCrc(&p);
		vendor_leave();
		if (result == CUPTI_SUCCESS)
			settle_identity(c, p.cubinCrc);
		else
			drop(c);
	}
}

void pc_cubins_begin(void)
{
	pthread_mutex_lock(&lock);
	for (struct cubin *c = cubins; c; c = c->next)
		c->needed = c->settled = c->has_file = c->taken = false;
	pthread_mutex_unlock(&lock);
}

void pc_cubins_need(uint64_t crc)
{
	struct cubin *c;

	pthread_mutex_lock(&lock);
	c = find(crc);
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (c) {
			c->crc = crc;
			c->identified = true;
			link_in(c);
		}
	}
	if (c)
		c->needed = true;
	pthread_mutex_unlock(&lock);
}

bool pc_cubins_take(struct pc_cubin *cubin)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (struct cubin *c = cubins; c && !found; c = c->next) {
		if (!c->settled || c->taken)
			continue;
		c->taken = found = true;
		*cubin = (struct pc_cubin){ c->crc, c->size, c->has_file };
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Closes the descriptor. */
static int write_file(int fd, const struct cubin *c)
{
	int err = fd;

	if (fd >= 0)
		err = io_allowed(0, c->size) < c->size ? -EFBIG
						       : io_write_all(fd, c->bytes, c->size);
	if (fd >= 0)
		close(fd);
	return err;
}

/* Returns -EEXIST if another process of the recording has written the file. */
static int create(int folder, const char *name, const struct cubin *c)
{
	_cleanup_close_ int code = -1;
	char unfinished[80];
	struct stat st;
	int err;

	if (folder >= 0)
		mkdirat(folder, RECORDING_CUBINS, 0700);
	code = folder_enter(folder, RECORDING_CUBINS, FOLDER_ANY);
	if (folder_stat(code, name, &st) == 0)
		return -EEXIST;
	snprintf(unfinished, sizeof(unfinished), "%s.%d", name, (int)getpid());
	err = write_file(folder_create_file(code, unfinished), c);
	if (err == 0 && renameat(code, unfinished, code, name) < 0)
		err = -errno;
	if (err < 0 && code >= 0)
		unlinkat(code, unfinished, 0);
	return err;
}

/* The launcher creates the file in a folder of another user, or one out of reach. */
static bool store(const struct place *to, const struct cubin *c)
{
	_cleanup_close_ int folder = folder_open_known(to->directory, &to->id);
	bool ask_first = *to->launcher && (folder < 0 || !folder_is_own(folder));
	int err = ask_first ? write_file(segment_request_cubin(to->launcher, c->crc), c) : -EACCES;
	char name[64];

	snprintf(name, sizeof(name), RECORDING_CUBIN_NAME, (unsigned long long)c->crc);
	if (err < 0 && err != -EEXIST)
		err = create(folder, name, c);
	if (err < 0 && err != -EEXIST)
		log_line("pc-sampling: cannot write '%s/" RECORDING_CUBINS "/%s': %s",
			 to->directory, name, error_code_text(err));
	return err == 0 || err == -EEXIST;
}

static struct cubin *next_needed(void)
{
	struct cubin *c;

	pthread_mutex_lock(&lock);
	for (c = cubins; c && (!c->needed || c->settled); c = c->next)
		;
	pthread_mutex_unlock(&lock);
	return c;
}

void pc_cubins_use(const struct settings *s)
{
	pthread_mutex_lock(&lock);
	memcpy(recording.directory, s->directory, sizeof(recording.directory));
	memcpy(recording.launcher, s->launcher, sizeof(recording.launcher));
	recording.id = s->folder;
	pthread_mutex_unlock(&lock);
}

void pc_cubins_store(void)
{
	struct place to;
	struct cubin *c;

	pthread_mutex_lock(&lock);
	to = recording;
	pthread_mutex_unlock(&lock);
	if (!*to.directory)
		return;
	while ((c = next_needed())) {
		bool has_file = c->bytes && store(&to, c);

		pthread_mutex_lock(&lock);
		c->has_file = has_file;
		c->settled = true;
		pthread_mutex_unlock(&lock);
	}
}

uint64_t pc_cubins_lost(void)
{
	return atomic_load(&lost);
}

void pc_cubins_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	cubins = NULL;
	kept_bytes = 0;
	recording.directory[0] = '\0';
	atomic_store(&lost, 0);
}
