/*
 * NVTX's own headers as a client of the source: what nvtx_abi.h says is held against them, and
 * their loader attaches us through the static injection that they offer. Skipped where the headers
 * are not installed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "capture/nvtx/nvtx_abi.h"
#include "capture/nvtx/nvtx_names.h"
#include "capture/nvtx/nvtx_source.h"
#include "unit/capture/captured_rows.h"
#include "unit/capture/source_ops.h"

atomic_bool collector_idle;

void collector_wake(void)
{
}

#if __has_include(<nvtx3/nvToolsExt.h>) && __has_include(<nvtx3/nvToolsExtPayload.h>)
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

static int attach(NvtxGetExportTableFunc_t get_export_table)
{
	return nvtx_source_attach((void *)get_export_table);
}

static int attach_extension(nvtxExtModuleInfo_t *module)
{
	return nvtx_source_attach_extension(module);
}

NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = attach;
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = attach_extension;

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SAME_MEMBER(ours, member, theirs, field)                                                   \
	SAME(offsetof(struct ours, member), offsetof(theirs, field))

SAME(NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME(NVTX_EXPORT_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_EXPORT_VERSION, NVTX_ETID_VERSIONINFO);
SAME(NVTX_CORE_MARK_EX, NVTX_CBID_CORE_MarkEx);
SAME(NVTX_CORE_START_W, NVTX_CBID_CORE_RangeStartW);
SAME(NVTX_CORE_END, NVTX_CBID_CORE_RangeEnd);
SAME(NVTX_CORE_PUSH_EX, NVTX_CBID_CORE_RangePushEx);
SAME(NVTX_CORE_POP, NVTX_CBID_CORE_RangePop);
SAME(NVTX_CORE_CATEGORY_A, NVTX_CBID_CORE_NameCategoryA);
SAME(NVTX_CORE_THREAD_W, NVTX_CBID_CORE_NameOsThreadW);
SAME(NVTX_CORE_COUNT, NVTX_CBID_CORE_SIZE);
SAME(NVTX_CORE2_END, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(NVTX_CORE2_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME(NVTX_CORE2_RESOURCE_CREATE, NVTX_CBID_CORE2_DomainResourceCreate);
SAME(NVTX_CORE2_CATEGORY_A, NVTX_CBID_CORE2_DomainNameCategoryA);
SAME(NVTX_CORE2_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(NVTX_CORE2_DOMAIN_A, NVTX_CBID_CORE2_DomainCreateA);
SAME(NVTX_CORE2_INITIALIZE, NVTX_CBID_CORE2_Initialize);
SAME(NVTX_CORE2_COUNT, NVTX_CBID_CORE2_SIZE);
SAME(sizeof(struct nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
SAME_MEMBER(nvtx_callbacks, get_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME(sizeof(struct nvtx_version_info), sizeof(NvtxExportTableVersionInfo));
SAME_MEMBER(nvtx_version_info, set_tool_version, NvtxExportTableVersionInfo,
	    SetInjectionNvtxVersion);
SAME(sizeof(struct nvtx_attributes), sizeof(nvtxEventAttributes_t));
SAME_MEMBER(nvtx_attributes, size, nvtxEventAttributes_t, size);
SAME_MEMBER(nvtx_attributes, category, nvtxEventAttributes_t, category);
SAME_MEMBER(nvtx_attributes, color_type, nvtxEventAttributes_t, colorType);
SAME_MEMBER(nvtx_attributes, color, nvtxEventAttributes_t, color);
SAME_MEMBER(nvtx_attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_MEMBER(nvtx_attributes, payload, nvtxEventAttributes_t, payload);
SAME_MEMBER(nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
SAME_MEMBER(nvtx_attributes, message, nvtxEventAttributes_t, message);
SAME(sizeof(struct nvtx_resource), sizeof(nvtxResourceAttributes_t));
SAME_MEMBER(nvtx_resource, identifier, nvtxResourceAttributes_t, identifier);
SAME_MEMBER(nvtx_resource, message, nvtxResourceAttributes_t, message);
SAME(NVTX_RESOURCE_THREAD, NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE);
SAME(NVTX_MESSAGE_TEXT, NVTX_MESSAGE_TYPE_ASCII);
SAME(NVTX_MESSAGE_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(nvtx_payload_none, NVTX_PAYLOAD_UNKNOWN);
SAME(nvtx_payload_u64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(nvtx_payload_i64, NVTX_PAYLOAD_TYPE_INT64);
SAME(nvtx_payload_f64, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(nvtx_payload_u32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(nvtx_payload_i32, NVTX_PAYLOAD_TYPE_INT32);
SAME(nvtx_payload_f32, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(NVTX_NO_LEVEL, NVTX_NO_PUSH_POP_TRACKING);
SAME(sizeof(struct nvtx_extension), sizeof(nvtxExtModuleInfo_t));
SAME_MEMBER(nvtx_extension, struct_size, nvtxExtModuleInfo_t, structSize);
SAME_MEMBER(nvtx_extension, module, nvtxExtModuleInfo_t, moduleId);
SAME_MEMBER(nvtx_extension, segment_count, nvtxExtModuleInfo_t, segmentsCount);
SAME_MEMBER(nvtx_extension, segments, nvtxExtModuleInfo_t, segments);
SAME(sizeof(struct nvtx_extension_segment), sizeof(nvtxExtModuleSegment_t));
SAME_MEMBER(nvtx_extension_segment, slot_count, nvtxExtModuleSegment_t, slotCount);
SAME_MEMBER(nvtx_extension_segment, slots, nvtxExtModuleSegment_t, functionSlots);
SAME(NVTX_EXTENSION_PAYLOAD, NVTX_EXT_PAYLOAD_MODULEID);
SAME(NVTX_PAYLOAD_SLOT_MARK, NVTX3EXT_CBID_nvtxMarkPayload);
SAME(NVTX_PAYLOAD_SLOT_PUSH, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME(NVTX_PAYLOAD_SLOT_POP, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME(NVTX_PAYLOAD_SLOT_START, NVTX3EXT_CBID_nvtxRangeStartPayload);
SAME(NVTX_PAYLOAD_SLOT_END, NVTX3EXT_CBID_nvtxRangeEndPayload);
SAME(NVTX_PAYLOAD_SLOT_DOMAIN_ENABLED, NVTX3EXT_CBID_nvtxDomainIsEnabled);

static const struct {
	enum nvtx_kind kind;
	const char *text;
} expected[] = {
	{ nvtx_kind_push, "outer" },  { nvtx_kind_push, "wide €" },
	{ nvtx_kind_pop, NULL },      { nvtx_kind_mark, "marked" },
	{ nvtx_kind_start, "range" }, { nvtx_kind_push, "registered" },
	{ nvtx_kind_push, NULL },     { nvtx_kind_pop, NULL },
	{ nvtx_kind_pop, NULL },      { nvtx_kind_end, NULL },
	{ nvtx_kind_pop, NULL },
};

/* The range that it starts is left to be compared. */
static nvtxDomainHandle_t use_nvtx(nvtxRangeId_t *range)
{
	nvtxEventAttributes_t a = { .version = NVTX_VERSION,
				    .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
				    .category = 3,
				    .payloadType = NVTX_PAYLOAD_TYPE_DOUBLE,
				    .payload.dValue = 1.5,
				    .messageType = NVTX_MESSAGE_TYPE_REGISTERED };
	nvtxDomainHandle_t domain;

	assert_int_equal(nvtxRangePushA("outer"), 0);
	assert_int_equal(nvtxRangePushW(L"wide €"), 1);
	assert_int_equal(nvtxRangePop(), 1);
	nvtxMarkA("marked");
	*range = nvtxRangeStartA("range");
	domain = nvtxDomainCreateA("a domain");
	assert_non_null(domain);
	a.message.registered = nvtxDomainRegisterStringA(domain, "registered");
	assert_non_null(a.message.registered);
	assert_int_equal(nvtxDomainRangePushEx(domain, &a), 0);
	assert_int_equal(nvtxDomainIsEnabled(domain), 1);
	assert_int_equal(nvtxRangePushPayload(domain, NULL, 0), 1);
	assert_int_equal(nvtxRangePopPayload(domain, NULL, 0), 1);
	assert_int_equal(nvtxDomainRangePop(domain), 0);
	nvtxRangeEnd(*range);
	assert_int_equal(nvtxRangePop(), 0);
	nvtxDomainDestroy(domain);
	return domain;
}

static void test_nvtx_itself(void **state)
{
	struct captured *c = captured_begin();
	struct row_nvtx *rows;
	nvtxRangeId_t range;
	size_t count;

	(void)state;
	source_window(&nvtx_source, true, NULL);
	use_nvtx(&range);
	source_drain(&nvtx_source, c->writer);
	captured_close(c);
	rows = captured_rows(c, TABLE_nvtx, &count);
	assert_int_equal(count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(rows[i].kind, expected[i].kind);
		assert_int_equal(HAS(&rows[i], nvtx, message), expected[i].text != NULL);
		if (expected[i].text)
			assert_string_equal(captured_text(c, rows[i].message), expected[i].text);
		assert_int_equal(rows[i].domain, i >= 5 && i <= 8 ? NVTX_DOMAIN_SCOPES + 1 : 0);
	}
	assert_int_equal(rows[4].range, range);
	assert_int_equal(rows[5].category, 3);
	assert_int_equal(rows[5].payload_kind, nvtx_payload_f64);
	assert_true(rows[5].payload == 0x3ff8000000000000);
	assert_int_equal(rows[9].range, range);
	free(rows);
	captured_free(c);
}
#else
static void test_nvtx_itself(void **state)
{
	(void)state;
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_nvtx_itself) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
