#include "play_nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#define GROUP_API 256
#define DESCRIPTOR_MAX 256

struct plugin {
	const char *name;
	void *init;
	int (*start)(void *context, void **handle, const void *descriptor);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};

/* Of interface 4, and of later ones. */
typedef int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes,
		    int ranks, int rank, const void *logger);
typedef int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		    int ranks, int rank, const void *logger);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct plugin *plugin;
static int mask;
static bool is_active; /* as the mask was at the latest outermost group */
static struct map contexts, handles; /* number on the tape -> what the plug-in returned */
static struct map texts; /* hash -> our copy, as NCCL's are constants */

static void load(unsigned interface)
{
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	void *library = path && *path && strcasecmp(path, "none") ? dlopen(path, RTLD_NOW) : NULL;
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", interface);
	plugin = library ? dlsym(library, symbol) : NULL;
}

static const char *text_of(const char *text, size_t length)
{
	uint64_t *copy = text ? map_at(&texts, hash_bytes(text, length), 0) : NULL;

	if (copy && !*copy)
		*copy = (uintptr_t)strndup(text, length);
	return copy ? (const char *)(uintptr_t)*copy : NULL;
}

static void *look_up(const struct map *m, uint64_t number)
{
	uint64_t value = 0;

	map_get(m, number, &value);
	return (void *)(uintptr_t)value;
}

static void play_init(const struct tape_nccl *c)
{
	const char *name = text_of(c->texts[0].text, c->texts[0].length);
	void *context = NULL;
	uint64_t *known;

	if (!plugin)
		load(c->interface);
	if (!plugin)
		return;
	if (c->interface == 4)
		((init_v4 *)plugin->init)(&context, &mask, name, c->hash, (int)c->nodes,
					  (int)c->ranks, (int)c->rank, NULL);
	else
		((init_v5 *)plugin->init)(&context, c->hash, &mask, name, (int)c->nodes,
					  (int)c->ranks, (int)c->rank, NULL);
	known = map_at(&contexts, c->communicator, 0);
	if (known)
		*known = (uintptr_t)context;
}

static void put(uint8_t *descriptor, size_t offset, const void *pointer)
{
	if (offset + sizeof(pointer) <= DESCRIPTOR_MAX)
		memcpy(descriptor + offset, &pointer, sizeof(pointer));
}

static void play_start(const struct tape_nccl *c)
{
	_Alignas(8) uint8_t descriptor[DESCRIPTOR_MAX] = { 0 };
	uint64_t type = c->type, *known;
	void *handle = NULL;

	if (type == GROUP_API)
		is_active = __atomic_load_n(&mask, __ATOMIC_RELAXED) != 0;
	if (!is_active || c->descriptor_bytes > DESCRIPTOR_MAX - TAPE_NCCL_AT)
		return;
	if (c->descriptor_bytes)
		memcpy(descriptor + TAPE_NCCL_AT, c->descriptor, c->descriptor_bytes);
	memcpy(descriptor, &type, c->interface == 4 ? 1 : sizeof(type));
	put(descriptor, 8, look_up(&handles, c->parent));
	for (unsigned i = 0; i < c->text_count; i++)
		put(descriptor, c->texts[i].offset, text_of(c->texts[i].text, c->texts[i].length));
	plugin->start(look_up(&contexts, c->communicator), &handle, descriptor);
	known = map_at(&handles, c->handle, 0);
	if (known)
		*known = (uintptr_t)handle;
}

void play_nccl(const struct tape_record *r)
{
	struct tape_nccl c;
	void *handle;

	if (!tape_get_nccl(r, &c))
		return;
	pthread_mutex_lock(&lock);
	handle = look_up(&handles, c.handle);
	if (c.call == TAPE_NCCL_INIT)
		play_init(&c);
	else if (plugin && c.call == TAPE_NCCL_START)
		play_start(&c);
	else if (handle && c.call == TAPE_NCCL_STOP)
		plugin->stop(handle);
	else if (handle && c.call == TAPE_NCCL_STATE)
		plugin->state(handle, (int)c.state, NULL);
	else if (plugin && c.call == TAPE_NCCL_FINALIZE)
		plugin->finalize(look_up(&contexts, c.communicator));
	pthread_mutex_unlock(&lock);
}
