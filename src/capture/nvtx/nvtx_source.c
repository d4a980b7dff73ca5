#include "capture/nvtx/nvtx_source.h"

#include <string.h>

#include "capture/nvtx/nvtx_calls.h"

/* --- module CORE: the default domain --- */

static void mark_ex(const void *a)
{
	nvtx_mark(0, nvtx_attributes_read(a));
}

static void mark_a(const char *text)
{
	nvtx_mark(0, nvtx_message_only(NVTX_MESSAGE_TEXT, text));
}

static void mark_w(const void *text)
{
	nvtx_mark(0, nvtx_message_only(NVTX_MESSAGE_WIDE, text));
}

static uint64_t start_ex(const void *a)
{
	return nvtx_start(0, nvtx_attributes_read(a));
}

static uint64_t start_a(const char *text)
{
	return nvtx_start(0, nvtx_message_only(NVTX_MESSAGE_TEXT, text));
}

static uint64_t start_w(const void *text)
{
	return nvtx_start(0, nvtx_message_only(NVTX_MESSAGE_WIDE, text));
}

static void end_range(uint64_t range)
{
	nvtx_end(0, range);
}

static int push_ex(const void *a)
{
	return nvtx_push(0, nvtx_attributes_read(a));
}

static int push_a(const char *text)
{
	return nvtx_push(0, nvtx_message_only(NVTX_MESSAGE_TEXT, text));
}

static int push_w(const void *text)
{
	return nvtx_push(0, nvtx_message_only(NVTX_MESSAGE_WIDE, text));
}

static int pop_range(void)
{
	return nvtx_pop(0);
}

static void category_a(uint32_t id, const char *text)
{
	nvtx_name_in(NVTX_NAMED_CATEGORY, NULL, id, NVTX_MESSAGE_TEXT, text);
}

static void category_w(uint32_t id, const void *text)
{
	nvtx_name_in(NVTX_NAMED_CATEGORY, NULL, id, NVTX_MESSAGE_WIDE, text);
}

static void thread_a(uint32_t tid, const char *text)
{
	nvtx_name_in(NVTX_NAMED_THREAD, NULL, tid, NVTX_MESSAGE_TEXT, text);
}

static void thread_w(uint32_t tid, const void *text)
{
	nvtx_name_in(NVTX_NAMED_THREAD, NULL, tid, NVTX_MESSAGE_WIDE, text);
}

static const nvtx_function core_functions[NVTX_CORE_COUNT] = {
	[NVTX_CORE_MARK_EX] = (nvtx_function)mark_ex,
	[NVTX_CORE_MARK_A] = (nvtx_function)mark_a,
	[NVTX_CORE_MARK_W] = (nvtx_function)mark_w,
	[NVTX_CORE_START_EX] = (nvtx_function)start_ex,
	[NVTX_CORE_START_A] = (nvtx_function)start_a,
	[NVTX_CORE_START_W] = (nvtx_function)start_w,
	[NVTX_CORE_END] = (nvtx_function)end_range,
	[NVTX_CORE_PUSH_EX] = (nvtx_function)push_ex,
	[NVTX_CORE_PUSH_A] = (nvtx_function)push_a,
	[NVTX_CORE_PUSH_W] = (nvtx_function)push_w,
	[NVTX_CORE_POP] = (nvtx_function)pop_range,
	[NVTX_CORE_CATEGORY_A] = (nvtx_function)category_a,
	[NVTX_CORE_CATEGORY_W] = (nvtx_function)category_w,
	[NVTX_CORE_THREAD_A] = (nvtx_function)thread_a,
	[NVTX_CORE_THREAD_W] = (nvtx_function)thread_w,
};

/* --- module CORE2: domains --- */

static void domain_mark_ex(const void *domain, const void *a)
{
	nvtx_mark(nvtx_domain_of(domain), nvtx_attributes_read(a));
}

static uint64_t domain_start_ex(const void *domain, const void *a)
{
	return nvtx_start(nvtx_domain_of(domain), nvtx_attributes_read(a));
}

static void domain_end(const void *domain, uint64_t range)
{
	nvtx_end(nvtx_domain_of(domain), range);
}

static int domain_push_ex(const void *domain, const void *a)
{
	return nvtx_push(nvtx_domain_of(domain), nvtx_attributes_read(a));
}

static int domain_pop(const void *domain)
{
	return nvtx_pop(nvtx_domain_of(domain));
}

static void domain_category_a(const void *domain, uint32_t id, const char *text)
{
	nvtx_name_in(NVTX_NAMED_CATEGORY, domain, id, NVTX_MESSAGE_TEXT, text);
}

static void domain_category_w(const void *domain, uint32_t id, const void *text)
{
	nvtx_name_in(NVTX_NAMED_CATEGORY, domain, id, NVTX_MESSAGE_WIDE, text);
}

/* A string is the same in every domain: its text is all there is to it. */
static void *string_a(const void *domain, const char *text)
{
	return nvtx_name_in(NVTX_NAMED_STRING, domain, 0, NVTX_MESSAGE_TEXT, text);
}

static void *string_w(const void *domain, const void *text)
{
	return nvtx_name_in(NVTX_NAMED_STRING, domain, 0, NVTX_MESSAGE_WIDE, text);
}

/* Without room for another domain its events count as the default domain's: NULL is the default domain's handle. */
static void *domain_a(const char *text)
{
	return nvtx_name_in(NVTX_NAMED_DOMAIN, NULL, 0, NVTX_MESSAGE_TEXT, text);
}

static void *domain_w(const void *text)
{
	return nvtx_name_in(NVTX_NAMED_DOMAIN, NULL, 0, NVTX_MESSAGE_WIDE, text);
}

/* Handles stay good: other threads may be using them. */
static void domain_destroy(const void *domain)
{
	(void)domain;
}

/* Of resources, threads' names are taken. */
static void *resource_create(const void *domain, const void *from)
{
	static char handle; /* nothing is known about a resource afterwards */
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

static void resource_destroy(const void *handle)
{
	(void)handle;
}

static void initialize(const void *reserved)
{
	(void)reserved;
}

static const nvtx_function core2_functions[NVTX_CORE2_COUNT] = {
	[NVTX_CORE2_MARK_EX] = (nvtx_function)domain_mark_ex,
	[NVTX_CORE2_START_EX] = (nvtx_function)domain_start_ex,
	[NVTX_CORE2_END] = (nvtx_function)domain_end,
	[NVTX_CORE2_PUSH_EX] = (nvtx_function)domain_push_ex,
	[NVTX_CORE2_POP] = (nvtx_function)domain_pop,
	[NVTX_CORE2_RESOURCE_CREATE] = (nvtx_function)resource_create,
	[NVTX_CORE2_RESOURCE_DESTROY] = (nvtx_function)resource_destroy,
	[NVTX_CORE2_CATEGORY_A] = (nvtx_function)domain_category_a,
	[NVTX_CORE2_CATEGORY_W] = (nvtx_function)domain_category_w,
	[NVTX_CORE2_STRING_A] = (nvtx_function)string_a,
	[NVTX_CORE2_STRING_W] = (nvtx_function)string_w,
	[NVTX_CORE2_DOMAIN_A] = (nvtx_function)domain_a,
	[NVTX_CORE2_DOMAIN_W] = (nvtx_function)domain_w,
	[NVTX_CORE2_DOMAIN_DESTROY] = (nvtx_function)domain_destroy,
	[NVTX_CORE2_INITIALIZE] = (nvtx_function)initialize,
};

/* --- the payload extension: ranges without what their payloads say --- */

static void payload_mark(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	nvtx_mark(nvtx_domain_of(domain), nvtx_attributes_read(NULL));
}

static int payload_push(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	return nvtx_push(nvtx_domain_of(domain), nvtx_attributes_read(NULL));
}

static int payload_pop(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	return nvtx_pop(nvtx_domain_of(domain));
}

static uint64_t payload_start(const void *domain, const void *data, size_t count)
{
	(void)data, (void)count;
	return nvtx_start(nvtx_domain_of(domain), nvtx_attributes_read(NULL));
}

static void payload_end(const void *domain, uint64_t range, const void *data, size_t count)
{
	(void)data, (void)count;
	nvtx_end(nvtx_domain_of(domain), range);
}

static uint8_t domain_is_enabled(const void *domain)
{
	(void)domain;
	return 1;
}

static const nvtx_function payload_functions[] = {
	[NVTX_PAYLOAD_SLOT_MARK] = (nvtx_function)payload_mark,
	[NVTX_PAYLOAD_SLOT_PUSH] = (nvtx_function)payload_push,
	[NVTX_PAYLOAD_SLOT_POP] = (nvtx_function)payload_pop,
	[NVTX_PAYLOAD_SLOT_START] = (nvtx_function)payload_start,
	[NVTX_PAYLOAD_SLOT_END] = (nvtx_function)payload_end,
	[NVTX_PAYLOAD_SLOT_DOMAIN_ENABLED] = (nvtx_function)domain_is_enabled,
};

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
