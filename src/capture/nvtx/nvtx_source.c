#include "capture/nvtx/nvtx_source.h"

#include <string.h>

#include "capture/nvtx/nvtx_calls.h"

/*
 * NVTX's functions and the operations that implement them: F(slot, type, parameters, call).
 * Functions in A, W and EX receive texts of char, texts of wchar_t, and attributes. Module CORE
 * concerns the default domain.
 */
#define ATTRIBUTES(a) nvtx_attributes_read(a)
#define TEXT(text) nvtx_message_only(NVTX_MESSAGE_TEXT, text)
#define WIDE(text) nvtx_message_only(NVTX_MESSAGE_WIDE, text)
#define DOMAIN(handle) nvtx_domain_of(handle)
#define NAME(what, domain, id, type, text)                                                         \
	nvtx_name_in(NVTX_NAMED_##what, domain, id, NVTX_MESSAGE_##type, text)

/* clang-format off */
#define CORE_FUNCTIONS(F)                                                                          \
	F(CORE_MARK_EX, void, (const void *a), nvtx_mark(0, ATTRIBUTES(a)))                        \
	F(CORE_MARK_A, void, (const char *text), nvtx_mark(0, TEXT(text)))                         \
	F(CORE_MARK_W, void, (const void *text), nvtx_mark(0, WIDE(text)))                         \
	F(CORE_START_EX, uint64_t, (const void *a), nvtx_start(0, ATTRIBUTES(a)))                  \
	F(CORE_START_A, uint64_t, (const char *text), nvtx_start(0, TEXT(text)))                   \
	F(CORE_START_W, uint64_t, (const void *text), nvtx_start(0, WIDE(text)))                   \
	F(CORE_END, void, (uint64_t range), nvtx_end(0, range))                                    \
	F(CORE_PUSH_EX, int, (const void *a), nvtx_push(0, ATTRIBUTES(a)))                         \
	F(CORE_PUSH_A, int, (const char *text), nvtx_push(0, TEXT(text)))                          \
	F(CORE_PUSH_W, int, (const void *text), nvtx_push(0, WIDE(text)))                          \
	F(CORE_POP, int, (void), nvtx_pop(0))                                                      \
	F(CORE_CATEGORY_A, void, (uint32_t id, const char *text),                                  \
	  (void)NAME(CATEGORY, NULL, id, TEXT, text))                                              \
	F(CORE_CATEGORY_W, void, (uint32_t id, const void *text),                                  \
	  (void)NAME(CATEGORY, NULL, id, WIDE, text))                                              \
	F(CORE_THREAD_A, void, (uint32_t tid, const char *text),                                   \
	  (void)NAME(THREAD, NULL, tid, TEXT, text))                                               \
	F(CORE_THREAD_W, void, (uint32_t tid, const void *text),                                   \
	  (void)NAME(THREAD, NULL, tid, WIDE, text))

/*
 * Module CORE2: domains. A registered string is its text, whatever its domain. If there is no room
 * for another domain, its events count for the default domain, whose handle is NULL. Handles stay
 * valid after the end of a domain, because other threads may be using them.
 */
#define CORE2_FUNCTIONS(F)                                                                         \
	F(CORE2_MARK_EX, void, (const void *domain, const void *a),                                \
	  nvtx_mark(DOMAIN(domain), ATTRIBUTES(a)))                                                \
	F(CORE2_START_EX, uint64_t, (const void *domain, const void *a),                           \
	  nvtx_start(DOMAIN(domain), ATTRIBUTES(a)))                                               \
	F(CORE2_END, void, (const void *domain, uint64_t range),                                   \
	  nvtx_end(DOMAIN(domain), range))                                                         \
	F(CORE2_PUSH_EX, int, (const void *domain, const void *a),                                 \
	  nvtx_push(DOMAIN(domain), ATTRIBUTES(a)))                                                \
	F(CORE2_POP, int, (const void *domain), nvtx_pop(DOMAIN(domain)))                          \
	F(CORE2_RESOURCE_CREATE, void *, (const void *domain, const void *from),                   \
	  resource_create(domain, from))                                                           \
	F(CORE2_RESOURCE_DESTROY, void, (const void *handle), (void)handle)                        \
	F(CORE2_CATEGORY_A, void, (const void *domain, uint32_t id, const char *text),             \
	  (void)NAME(CATEGORY, domain, id, TEXT, text))                                            \
	F(CORE2_CATEGORY_W, void, (const void *domain, uint32_t id, const void *text),             \
	  (void)NAME(CATEGORY, domain, id, WIDE, text))                                            \
	F(CORE2_STRING_A, void *, (const void *domain, const char *text),                          \
	  NAME(STRING, domain, 0, TEXT, text))                                                     \
	F(CORE2_STRING_W, void *, (const void *domain, const void *text),                          \
	  NAME(STRING, domain, 0, WIDE, text))                                                     \
	F(CORE2_DOMAIN_A, void *, (const char *text), NAME(DOMAIN, NULL, 0, TEXT, text))           \
	F(CORE2_DOMAIN_W, void *, (const void *text), NAME(DOMAIN, NULL, 0, WIDE, text))           \
	F(CORE2_DOMAIN_DESTROY, void, (const void *domain), (void)domain)                          \
	F(CORE2_INITIALIZE, void, (const void *reserved), (void)reserved)

/* The payload extension: ranges are recorded without their payloads (`count` of them at `data`). */
#define PAYLOAD_FUNCTIONS(F)                                                                       \
	F(PAYLOAD_SLOT_MARK, void, (const void *domain, const void *data, size_t count),           \
	  ((void)data, (void)count, nvtx_mark(DOMAIN(domain), ATTRIBUTES(NULL))))                  \
	F(PAYLOAD_SLOT_PUSH, int, (const void *domain, const void *data, size_t count),            \
	  ((void)data, (void)count, nvtx_push(DOMAIN(domain), ATTRIBUTES(NULL))))                  \
	F(PAYLOAD_SLOT_POP, int, (const void *domain, const void *data, size_t count),             \
	  ((void)data, (void)count, nvtx_pop(DOMAIN(domain))))                                     \
	F(PAYLOAD_SLOT_START, uint64_t, (const void *domain, const void *data, size_t count),      \
	  ((void)data, (void)count, nvtx_start(DOMAIN(domain), ATTRIBUTES(NULL))))                 \
	F(PAYLOAD_SLOT_END, void,                                                                  \
	  (const void *domain, uint64_t range, const void *data, size_t count),                    \
	  ((void)data, (void)count, nvtx_end(DOMAIN(domain), range)))                              \
	F(PAYLOAD_SLOT_DOMAIN_ENABLED, uint8_t, (const void *domain), ((void)domain, 1))
/* clang-format on */

/* Of resources only threads are recorded, as names. */
static void *resource_create(const void *domain, const void *from)
{
	static char handle; /* the same for all resources: nothing is known about them later */
	struct nvtx_resource resource = { 0 };

	if (!from)
		return NULL;
	memcpy(&resource, from, offsetof(struct nvtx_resource, identifier_type));
	if (resource.size < sizeof(resource))
		return &handle;
	memcpy(&resource, from, sizeof(resource));
	if (resource.identifier_type == NVTX_RESOURCE_THREAD && resource.identifier <= UINT32_MAX)
		nvtx_name_in(NVTX_NAMED_THREAD, domain, (uint32_t)resource.identifier,
			     (enum nvtx_message)resource.message_type, resource.message);
	return &handle;
}

#define DEFINE(slot, type, parameters, call)                                                       \
	static type on_##slot parameters                                                           \
	{                                                                                          \
		return call;                                                                       \
	}
#define IN_TABLE(slot, type, parameters, call) [NVTX_##slot] = (nvtx_function)on_##slot,

CORE_FUNCTIONS(DEFINE)
CORE2_FUNCTIONS(DEFINE)
PAYLOAD_FUNCTIONS(DEFINE)

static const nvtx_function core_functions[NVTX_CORE_COUNT] = { CORE_FUNCTIONS(IN_TABLE) };
static const nvtx_function core2_functions[NVTX_CORE2_COUNT] = { CORE2_FUNCTIONS(IN_TABLE) };
static const nvtx_function payload_functions[] = { PAYLOAD_FUNCTIONS(IN_TABLE) };

/* --- attaching --- */

static bool install(const struct nvtx_callbacks *callbacks, enum nvtx_module module,
		    const nvtx_function *ours, unsigned count)
{
	nvtx_function **table = NULL;
	unsigned size = 0;

	if (!callbacks->get_table((int)module, &table, &size) || !table)
		return false;
	for (unsigned i = 1; i < MIN(size, count); i++)
		if (table[i])
			*table[i] = ours[i];
	return true;
}

int nvtx_source_attach(void *get_export_table)
{
	nvtx_get_export_table get = (nvtx_get_export_table)get_export_table;
	const struct nvtx_callbacks *callbacks = get ? get(NVTX_EXPORT_CALLBACKS) : NULL;
	const struct nvtx_version_info *version = get ? get(NVTX_EXPORT_VERSION) : NULL;

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->get_table)
		return 0;
	if (version && version->struct_size >= sizeof(*version) && version->set_tool_version)
		version->set_tool_version(NVTX_ABI_VERSION);
	if (!install(callbacks, NVTX_MODULE_CORE, core_functions, NVTX_CORE_COUNT))
		return 0;
	install(callbacks, NVTX_MODULE_CORE2, core2_functions, NVTX_CORE2_COUNT);
	return 1;
}

int nvtx_source_attach_extension(void *extension)
{
	const struct nvtx_extension *e = extension;
	const struct nvtx_extension_segment *segment;

	if (!e || e->struct_size < sizeof(*e))
		return 0;
	if (e->module != NVTX_EXTENSION_PAYLOAD)
		return 1;
	segment = e->segments;
	if (!e->segment_count || !segment || !segment->slots)
		return 0;
	for (size_t i = 0; i < MIN(segment->slot_count, ARRAY_SIZE(payload_functions)); i++)
		if (payload_functions[i])
			segment->slots[i] = (intptr_t)payload_functions[i];
	return 1;
}
