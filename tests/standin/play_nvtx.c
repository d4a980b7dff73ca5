#include "play_nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/nvtx/nvtx_abi.h"

/* The client's function pointers, which the recorder overwrites; NULL: no recorder. */
static nvtx_function core[NVTX_CORE_COUNT], core2[NVTX_CORE2_COUNT];
static nvtx_function *core_table[NVTX_CORE_COUNT], *core2_table[NVTX_CORE2_COUNT];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map ranges, domains; /* number on the tape -> value that the recorder returned */

static int get_table(int module, nvtx_function ***table, unsigned *size)
{
	if (module == NVTX_MODULE_CORE) {
		*table = core_table;
		*size = NVTX_CORE_COUNT;
	} else if (module == NVTX_MODULE_CORE2) {
		*table = core2_table;
		*size = NVTX_CORE2_COUNT;
	} else {
		return 0;
	}
	return 1;
}

static const void *get_export_table(uint32_t export)
{
	static const struct nvtx_callbacks callbacks = { sizeof(callbacks), get_table };

	return export == NVTX_EXPORT_CALLBACKS ? &callbacks : NULL;
}

static void load(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*start)(nvtx_get_export_table get);

	for (unsigned i = 1; i < NVTX_CORE_COUNT; i++)
		core_table[i] = &core[i];
	for (unsigned i = 1; i < NVTX_CORE2_COUNT; i++)
		core2_table[i] = &core2[i];
	if (!library)
		return;
	*(void **)&start = dlsym(library, "InitializeInjectionNvtx2");
	if (start)
		start(get_export_table);
}

static uint64_t look_up(const struct map *m, uint64_t key)
{
	uint64_t value = 0;

	pthread_mutex_lock(&lock);
	map_get(m, key, &value);
	pthread_mutex_unlock(&lock);
	return value;
}

static void remember(struct map *m, uint64_t key, uint64_t value)
{
	pthread_mutex_lock(&lock);
	if (map_put(m, key, value) < 0)
		map_clear(m);
	pthread_mutex_unlock(&lock);
}

/* Call a client's pointer if the recorder has set it. */
#define CALL(slot, type, ...) ((slot) ? ((type)(slot))(__VA_ARGS__) : 0)
#define CALL_VOID(slot, type, ...) ((slot) ? ((type)(slot))(__VA_ARGS__) : (void)0)

typedef void mark_fn(const void *a);
typedef uint64_t start_fn(const void *a);
typedef void end_fn(uint64_t range);
typedef int push_fn(const void *a);
typedef int pop_fn(void);
typedef void name_fn(uint32_t id, const char *text);
typedef void domain_mark_fn(const void *domain, const void *a);
typedef uint64_t domain_start_fn(const void *domain, const void *a);
typedef void domain_end_fn(const void *domain, uint64_t range);
typedef int domain_push_fn(const void *domain, const void *a);
typedef int domain_pop_fn(const void *domain);
typedef void domain_name_fn(const void *domain, uint32_t id, const char *text);
typedef void *string_fn(const void *domain, const char *text);
typedef void *domain_fn(const char *text);
typedef void *resource_fn(const void *domain, const void *resource);

/* Wide variants are played like the others, because the tape has UTF-8. */
static void play_core(const struct tape_nvtx *c, const void *a, const char *text, uint64_t tid)
{
	switch (c->id) {
	case NVTX_CORE_MARK_EX:
		CALL_VOID(core[c->id], mark_fn *, a);
		break;
	case NVTX_CORE_MARK_A:
	case NVTX_CORE_MARK_W:
		CALL_VOID(core[NVTX_CORE_MARK_A], mark_fn *, text);
		break;
	case NVTX_CORE_START_EX:
		remember(&ranges, c->range, CALL(core[c->id], start_fn *, a));
		break;
	case NVTX_CORE_START_A:
	case NVTX_CORE_START_W:
		remember(&ranges, c->range, CALL(core[NVTX_CORE_START_A], start_fn *, text));
		break;
	case NVTX_CORE_END:
		CALL_VOID(core[c->id], end_fn *, look_up(&ranges, c->range));
		break;
	case NVTX_CORE_PUSH_EX:
		CALL(core[c->id], push_fn *, a);
		break;
	case NVTX_CORE_PUSH_A:
	case NVTX_CORE_PUSH_W:
		CALL(core[NVTX_CORE_PUSH_A], push_fn *, text);
		break;
	case NVTX_CORE_POP:
		if (core[c->id])
			((pop_fn *)core[c->id])();
		break;
	case NVTX_CORE_CATEGORY_A:
	case NVTX_CORE_CATEGORY_W:
		CALL_VOID(core[NVTX_CORE_CATEGORY_A], name_fn *, c->category, text);
		break;
	case NVTX_CORE_THREAD_A:
	case NVTX_CORE_THREAD_W:
		CALL_VOID(core[NVTX_CORE_THREAD_A], name_fn *, (uint32_t)tid, text);
		break;
	default:
		break;
	}
}

static void play_resource(const void *domain, const char *text, uint64_t tid)
{
	struct nvtx_resource resource = {
		.version = NVTX_ABI_VERSION,
		.size = sizeof(resource),
		.identifier_type = NVTX_RESOURCE_THREAD,
		.identifier = tid,
		.message_type = NVTX_MESSAGE_TEXT,
		.message = text,
	};

	CALL(core2[NVTX_CORE2_RESOURCE_CREATE], resource_fn *, domain, &resource);
}

static void play_core2(const struct tape_nvtx *c, const void *a, const char *text, uint64_t tid)
{
	const void *domain = (const void *)(uintptr_t)look_up(&domains, c->domain);

	switch (c->id) {
	case NVTX_CORE2_MARK_EX:
		CALL_VOID(core2[c->id], domain_mark_fn *, domain, a);
		break;
	case NVTX_CORE2_START_EX:
		remember(&ranges, c->range, CALL(core2[c->id], domain_start_fn *, domain, a));
		break;
	case NVTX_CORE2_END:
		CALL_VOID(core2[c->id], domain_end_fn *, domain, look_up(&ranges, c->range));
		break;
	case NVTX_CORE2_PUSH_EX:
		CALL(core2[c->id], domain_push_fn *, domain, a);
		break;
	case NVTX_CORE2_POP:
		CALL(core2[c->id], domain_pop_fn *, domain);
		break;
	case NVTX_CORE2_RESOURCE_CREATE:
		play_resource(domain, text, tid);
		break;
	case NVTX_CORE2_CATEGORY_A:
	case NVTX_CORE2_CATEGORY_W:
		CALL_VOID(core2[NVTX_CORE2_CATEGORY_A], domain_name_fn *, domain, c->category,
			  text);
		break;
	case NVTX_CORE2_STRING_A:
	case NVTX_CORE2_STRING_W:
		CALL(core2[NVTX_CORE2_STRING_A], string_fn *, domain, text);
		break;
	case NVTX_CORE2_DOMAIN_A:
	case NVTX_CORE2_DOMAIN_W:
		remember(&domains, c->domain,
			 (uintptr_t)CALL(core2[NVTX_CORE2_DOMAIN_A], domain_fn *, text));
		break;
	default:
		break;
	}
}

void play_nvtx(const struct tape_nvtx *call, const struct tape_text *text,
	       uint64_t (*tid_of)(uint64_t recorded))
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	_cleanup_free_ char *copy = text->text ? strndup(text->text, text->length) : NULL;
	struct nvtx_attributes a = {
		.version = NVTX_ABI_VERSION,
		.size = sizeof(a),
		.category = call->category,
		.color_type = call->color ? NVTX_COLOR_TYPE_ARGB : 0,
		.color = call->color,
		.payload_type = call->payload_kind,
		.payload = call->payload,
		.message_type = copy ? NVTX_MESSAGE_TEXT : NVTX_MESSAGE_NONE,
		.message = copy,
	};

	pthread_once(&once, load);
	if (call->module == NVTX_MODULE_CORE)
		play_core(call, &a, copy, tid_of(call->range));
	else if (call->module == NVTX_MODULE_CORE2)
		play_core2(call, &a, copy, tid_of(call->range));
}
