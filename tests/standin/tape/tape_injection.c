/*
 * The injection library that the driver and NVTX load in place of the recorder: begins the tape,
 * loads the recorder, and stands between NVTX's clients and it. To a client it is the tool; to the
 * recorder it is a client, whose table the recorder fills.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "capture/nvtx/nvtx_abi.h"
#include "capture/nvtx/nvtx_calls.h"
#include "schema/schema.h"
#include "tape/tape_session.h"

#define TEXT_BYTES 4096

static void *recorder;

static void load_recorder(void)
{
	const char *path = getenv("PITOT_TAPE_RECORDER");

	recorder = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	if (!recorder)
		dprintf(2, "libpitot-tape.so: cannot load PITOT_TAPE_RECORDER='%s': %s\n",
			path ? path : "", path && *path ? dlerror() : "it names nothing");
}

/* A function of the recorder; NULL: it has none of that name. */
static void *recorder_function(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	tape_begin();
	pthread_once(&once, load_recorder);
	return recorder ? dlsym(recorder, name) : NULL;
}

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void)
{
	int (*start)(void);

	*(void **)&start = recorder_function("InitializeInjection");
	return start ? start() : 0;
}

/* --- what the recorder answered, by its handles --- */

static struct map domains; /* handle -> number */
static struct map strings; /* handle -> its text, never freed */

static uint64_t look_up(const struct map *m, const void *handle)
{
	uint64_t value = 0;

	if (!handle || !tape_writer())
		return 0;
	tape_writer_lock(tape_writer());
	map_get(m, (uintptr_t)handle, &value);
	tape_writer_unlock(tape_writer());
	return value;
}

/* A handle that has a value keeps it. Without memory it has none: the tape then lacks a name. */
static void remember(struct map *m, const void *handle, uint64_t value)
{
	uint64_t had;

	if (!handle || !tape_writer())
		return;
	tape_writer_lock(tape_writer());
	if (!map_get(m, (uintptr_t)handle, &had) && map_put(m, (uintptr_t)handle, value) < 0)
		map_clear(m);
	tape_writer_unlock(tape_writer());
}

static unsigned domain_of(const void *handle)
{
	return (unsigned)look_up(&domains, handle);
}

/* --- notes --- */

/* A text as the tape has it: UTF-8, in room of TEXT_BYTES. NULL: there is none. */
static const char *text_of(int type, const void *text, char *room)
{
	bool cut;
	size_t length;

	if (!text)
		return NULL;
	switch (type) {
	case NVTX_MESSAGE_TEXT:
		length = nvtx_text_copy(room, TEXT_BYTES - 1, text, &cut);
		break;
	case NVTX_MESSAGE_WIDE:
		length = nvtx_text_narrow(room, TEXT_BYTES - 1, text, &cut);
		break;
	case NVTX_MESSAGE_REGISTERED:
		return (const char *)(uintptr_t)look_up(&strings, text);
	default:
		return NULL;
	}
	room[length] = '\0';
	return room;
}

/* Notes a call with the attributes that a client handed over; NULL: with none. */
static void note_event(unsigned module, unsigned id, const void *domain, uint64_t range,
		       const void *attributes)
{
	struct nvtx_attributes a = { 0 };
	struct tape_nvtx call = {
		.module = module, .id = id, .domain = domain_of(domain), .range = range
	};
	char room[TEXT_BYTES];

	if (!tape_running())
		return;
	if (attributes) {
		memcpy(&a, attributes, offsetof(struct nvtx_attributes, category));
		memcpy(&a, attributes, MIN((size_t)a.size, sizeof(a)));
	}
	call.text = text_of(a.message_type, a.message, room);
	call.category = a.category;
	call.color = a.color_type == NVTX_COLOR_TYPE_ARGB ? a.color : 0;
	if (a.payload_type > nvtx_payload_none && a.payload_type <= nvtx_payload_f32) {
		call.payload_kind = a.payload_type;
		call.payload = a.payload_type >= nvtx_payload_u32 ? (uint32_t)a.payload : a.payload;
	}
	tape_put_nvtx(tape_writer(), tape_here(), &call);
}

/*
 * Notes a call that has a text; number: of a category, or of a thread where that is what is named.
 */
static void note_text(unsigned module, unsigned id, const void *domain, uint64_t range,
		      uint32_t category, int type, const void *text)
{
	char room[TEXT_BYTES];
	struct tape_nvtx call = {
		.module = module,
		.id = id,
		.domain = domain_of(domain),
		.range = range,
		.category = category,
		.text = text_of(type, text, room),
	};

	if (tape_running())
		tape_put_nvtx(tape_writer(), tape_here(), &call);
}

/* --- the recorder's functions, and those that call them --- */

static nvtx_function core[NVTX_CORE_COUNT], core2[NVTX_CORE2_COUNT];
static nvtx_function *core_slots[NVTX_CORE_COUNT], *core2_slots[NVTX_CORE2_COUNT];

#define CORE NVTX_MODULE_CORE
#define CORE2 NVTX_MODULE_CORE2

/* Calls the recorder's function in a slot; without one nothing happens. */
#define TELL(slot, parameters, ...) ((slot) ? ((void(*) parameters)(slot))(__VA_ARGS__) : (void)0)
#define ASK(type, slot, parameters, ...)                                                           \
	((slot) ? ((type(*) parameters)(slot))(__VA_ARGS__) : (type)0)

static void mark_ex(const void *a)
{
	note_event(CORE, NVTX_CORE_MARK_EX, NULL, 0, a);
	TELL(core[NVTX_CORE_MARK_EX], (const void *), a);
}

static uint64_t start_ex(const void *a)
{
	uint64_t range = ASK(uint64_t, core[NVTX_CORE_START_EX], (const void *), a);

	note_event(CORE, NVTX_CORE_START_EX, NULL, range, a);
	return range;
}

static int push_ex(const void *a)
{
	note_event(CORE, NVTX_CORE_PUSH_EX, NULL, 0, a);
	return ASK(int, core[NVTX_CORE_PUSH_EX], (const void *), a);
}

static void end_range(uint64_t range)
{
	note_event(CORE, NVTX_CORE_END, NULL, range, NULL);
	TELL(core[NVTX_CORE_END], (uint64_t), range);
}

static int pop_range(void)
{
	note_event(CORE, NVTX_CORE_POP, NULL, 0, NULL);
	return core[NVTX_CORE_POP] ? ((int (*)(void))core[NVTX_CORE_POP])() : NVTX_NO_LEVEL;
}

/* The functions that come twice: with char and with wchar_t. */
#define BOTH(letter, type)                                                                         \
	static void mark_##letter(const void *text)                                                \
	{                                                                                          \
		note_text(CORE, NVTX_CORE_MARK_##letter, NULL, 0, 0, type, text);                  \
		TELL(core[NVTX_CORE_MARK_##letter], (const void *), text);                         \
	}                                                                                          \
                                                                                                   \
	static uint64_t start_##letter(const void *text)                                           \
	{                                                                                          \
		uint64_t range =                                                                   \
			ASK(uint64_t, core[NVTX_CORE_START_##letter], (const void *), text);       \
                                                                                                   \
		note_text(CORE, NVTX_CORE_START_##letter, NULL, range, 0, type, text);             \
		return range;                                                                      \
	}                                                                                          \
                                                                                                   \
	static int push_##letter(const void *text)                                                 \
	{                                                                                          \
		note_text(CORE, NVTX_CORE_PUSH_##letter, NULL, 0, 0, type, text);                  \
		return ASK(int, core[NVTX_CORE_PUSH_##letter], (const void *), text);              \
	}                                                                                          \
                                                                                                   \
	static void category_##letter(uint32_t id, const void *text)                               \
	{                                                                                          \
		note_text(CORE, NVTX_CORE_CATEGORY_##letter, NULL, 0, id, type, text);             \
		TELL(core[NVTX_CORE_CATEGORY_##letter], (uint32_t, const void *), id, text);       \
	}                                                                                          \
                                                                                                   \
	static void thread_##letter(uint32_t tid, const void *text)                                \
	{                                                                                          \
		note_text(CORE, NVTX_CORE_THREAD_##letter, NULL, tid, 0, type, text);              \
		TELL(core[NVTX_CORE_THREAD_##letter], (uint32_t, const void *), tid, text);        \
	}                                                                                          \
                                                                                                   \
	static void domain_category_##letter(const void *domain, uint32_t id, const void *text)    \
	{                                                                                          \
		note_text(CORE2, NVTX_CORE2_CATEGORY_##letter, domain, 0, id, type, text);         \
		TELL(core2[NVTX_CORE2_CATEGORY_##letter], (const void *, uint32_t, const void *),  \
		     domain, id, text);                                                            \
	}                                                                                          \
                                                                                                   \
	static void *string_##letter(const void *domain, const void *text)                         \
	{                                                                                          \
		char room[TEXT_BYTES];                                                             \
		const char *copy = text_of(type, text, room);                                      \
		void *handle = ASK(void *, core2[NVTX_CORE2_STRING_##letter],                      \
				   (const void *, const void *), domain, text);                    \
                                                                                                   \
		note_text(CORE2, NVTX_CORE2_STRING_##letter, domain, 0, 0, type, text);            \
		if (copy && !look_up(&strings, handle))                                            \
			remember(&strings, handle, (uintptr_t)strdup(copy));                       \
		return handle;                                                                     \
	}                                                                                          \
                                                                                                   \
	static void *domain_##letter(const void *text)                                             \
	{                                                                                          \
		void *handle =                                                                     \
			ASK(void *, core2[NVTX_CORE2_DOMAIN_##letter], (const void *), text);      \
                                                                                                   \
		remember(&domains, handle, domains.count + 1);                                     \
		note_text(CORE2, NVTX_CORE2_DOMAIN_##letter, handle, 0, 0, type, text);            \
		return handle;                                                                     \
	}

BOTH(A, NVTX_MESSAGE_TEXT)
BOTH(W, NVTX_MESSAGE_WIDE)

static void domain_mark_ex(const void *domain, const void *a)
{
	note_event(CORE2, NVTX_CORE2_MARK_EX, domain, 0, a);
	TELL(core2[NVTX_CORE2_MARK_EX], (const void *, const void *), domain, a);
}

static uint64_t domain_start_ex(const void *domain, const void *a)
{
	uint64_t range =
		ASK(uint64_t, core2[NVTX_CORE2_START_EX], (const void *, const void *), domain, a);

	note_event(CORE2, NVTX_CORE2_START_EX, domain, range, a);
	return range;
}

static void domain_end(const void *domain, uint64_t range)
{
	note_event(CORE2, NVTX_CORE2_END, domain, range, NULL);
	TELL(core2[NVTX_CORE2_END], (const void *, uint64_t), domain, range);
}

static int domain_push_ex(const void *domain, const void *a)
{
	note_event(CORE2, NVTX_CORE2_PUSH_EX, domain, 0, a);
	return ASK(int, core2[NVTX_CORE2_PUSH_EX], (const void *, const void *), domain, a);
}

static int domain_pop(const void *domain)
{
	note_event(CORE2, NVTX_CORE2_POP, domain, 0, NULL);
	return ASK(int, core2[NVTX_CORE2_POP], (const void *), domain);
}

static void *resource_create(const void *domain, const void *from)
{
	const struct nvtx_resource *r = from;

	if (r && r->size >= sizeof(*r) && r->identifier_type == NVTX_RESOURCE_THREAD)
		note_text(CORE2, NVTX_CORE2_RESOURCE_CREATE, domain, r->identifier, 0,
			  r->message_type, r->message);
	return ASK(void *, core2[NVTX_CORE2_RESOURCE_CREATE], (const void *, const void *), domain,
		   from);
}

static const nvtx_function core_functions[NVTX_CORE_COUNT] = {
	[NVTX_CORE_MARK_EX] = (nvtx_function)mark_ex,
	[NVTX_CORE_MARK_A] = (nvtx_function)mark_A,
	[NVTX_CORE_MARK_W] = (nvtx_function)mark_W,
	[NVTX_CORE_START_EX] = (nvtx_function)start_ex,
	[NVTX_CORE_START_A] = (nvtx_function)start_A,
	[NVTX_CORE_START_W] = (nvtx_function)start_W,
	[NVTX_CORE_END] = (nvtx_function)end_range,
	[NVTX_CORE_PUSH_EX] = (nvtx_function)push_ex,
	[NVTX_CORE_PUSH_A] = (nvtx_function)push_A,
	[NVTX_CORE_PUSH_W] = (nvtx_function)push_W,
	[NVTX_CORE_POP] = (nvtx_function)pop_range,
	[NVTX_CORE_CATEGORY_A] = (nvtx_function)category_A,
	[NVTX_CORE_CATEGORY_W] = (nvtx_function)category_W,
	[NVTX_CORE_THREAD_A] = (nvtx_function)thread_A,
	[NVTX_CORE_THREAD_W] = (nvtx_function)thread_W,
};

/* What is not here is the recorder's own function. */
static const nvtx_function core2_functions[NVTX_CORE2_COUNT] = {
	[NVTX_CORE2_MARK_EX] = (nvtx_function)domain_mark_ex,
	[NVTX_CORE2_START_EX] = (nvtx_function)domain_start_ex,
	[NVTX_CORE2_END] = (nvtx_function)domain_end,
	[NVTX_CORE2_PUSH_EX] = (nvtx_function)domain_push_ex,
	[NVTX_CORE2_POP] = (nvtx_function)domain_pop,
	[NVTX_CORE2_RESOURCE_CREATE] = (nvtx_function)resource_create,
	[NVTX_CORE2_CATEGORY_A] = (nvtx_function)domain_category_A,
	[NVTX_CORE2_CATEGORY_W] = (nvtx_function)domain_category_W,
	[NVTX_CORE2_STRING_A] = (nvtx_function)string_A,
	[NVTX_CORE2_STRING_W] = (nvtx_function)string_W,
	[NVTX_CORE2_DOMAIN_A] = (nvtx_function)domain_A,
	[NVTX_CORE2_DOMAIN_W] = (nvtx_function)domain_W,
};

/* --- attaching --- */

static int slots_of_module(int module, nvtx_function ***table, unsigned *size)
{
	if (module != CORE && module != CORE2)
		return 0;
	*table = module == CORE ? core_slots : core2_slots;
	*size = module == CORE ? (unsigned)NVTX_CORE_COUNT : (unsigned)NVTX_CORE2_COUNT;
	return 1;
}

static const void *exports_for_recorder(uint32_t export)
{
	static const struct nvtx_callbacks callbacks = { sizeof(callbacks), slots_of_module };

	return export == NVTX_EXPORT_CALLBACKS ? &callbacks : NULL;
}

static void install(const struct nvtx_callbacks *client, int module, const nvtx_function *ours,
		    const nvtx_function *recorders, unsigned count)
{
	nvtx_function **table = NULL;
	unsigned size = 0;

	if (!client->get_table(module, &table, &size) || !table)
		return;
	for (unsigned i = 1; i < MIN(size, count); i++)
		if (table[i])
			*table[i] = ours[i] ? ours[i] : recorders[i];
}

EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table get);
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table get)
{
	const struct nvtx_callbacks *client = get ? get(NVTX_EXPORT_CALLBACKS) : NULL;
	const struct nvtx_version_info *version = get ? get(NVTX_EXPORT_VERSION) : NULL;
	int (*start)(nvtx_get_export_table);

	*(void **)&start = recorder_function("InitializeInjectionNvtx2");
	for (unsigned i = 1; i < NVTX_CORE_COUNT; i++)
		core_slots[i] = &core[i];
	for (unsigned i = 1; i < NVTX_CORE2_COUNT; i++)
		core2_slots[i] = &core2[i];
	if (!client || !client->get_table || !start || !start(exports_for_recorder))
		return 0;
	if (version && version->struct_size >= sizeof(*version) && version->set_tool_version)
		version->set_tool_version(NVTX_ABI_VERSION);
	install(client, CORE, core_functions, core, NVTX_CORE_COUNT);
	install(client, CORE2, core2_functions, core2, NVTX_CORE2_COUNT);
	return 1;
}

/* Payload ranges go by: they are not on tapes. */
EXPORT int InitializeInjectionNvtxExtension(void *module);
EXPORT int InitializeInjectionNvtxExtension(void *module)
{
	int (*start)(void *);

	*(void **)&start = recorder_function("InitializeInjectionNvtxExtension");
	return start ? start(module) : 0;
}
