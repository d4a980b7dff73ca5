/*
 * nvtx_abi.h: the binary interface between an NVTX client and a tool, written independently of
 * NVTX's headers, which are not needed.
 *
 * The client (code inside the target's libraries) calls InitializeInjectionNvtx2(get_export_table)
 * at its first use of NVTX. The tool asks get_export_table for a table of callbacks. That table
 * returns, for each module, an array of addresses of the client's function pointers, indexed by
 * callback id; the tool overwrites the pointers. Extensions work the other way round:
 * InitializeInjectionNvtxExtension receives the slots directly. The interface has not changed since
 * NVTX 2, and is the same in the old libnvToolsExt.so.1. tests/unit/capture/test_nvtx_client.c
 * checks it against NVTX's headers on machines that have them.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_ABI_H
#define PITOT_CAPTURE_NVTX_NVTX_ABI_H

#include "base/compiler.h"

#define NVTX_ABI_VERSION 3u

enum nvtx_export { NVTX_EXPORT_CALLBACKS = 1, NVTX_EXPORT_VERSION = 3 };

enum nvtx_module { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

enum nvtx_core {
	NVTX_CORE_MARK_EX = 1,
	NVTX_CORE_MARK_A,
	NVTX_CORE_MARK_W,
	NVTX_CORE_START_EX,
	NVTX_CORE_START_A,
	NVTX_CORE_START_W,
	NVTX_CORE_END,
	NVTX_CORE_PUSH_EX,
	NVTX_CORE_PUSH_A,
	NVTX_CORE_PUSH_W,
	NVTX_CORE_POP,
	NVTX_CORE_CATEGORY_A,
	NVTX_CORE_CATEGORY_W,
	NVTX_CORE_THREAD_A,
	NVTX_CORE_THREAD_W,
	NVTX_CORE_COUNT,
};

enum nvtx_core2 {
	NVTX_CORE2_MARK_EX = 1,
	NVTX_CORE2_START_EX,
	NVTX_CORE2_END,
	NVTX_CORE2_PUSH_EX,
	NVTX_CORE2_POP,
	NVTX_CORE2_RESOURCE_CREATE,
	NVTX_CORE2_RESOURCE_DESTROY,
	NVTX_CORE2_CATEGORY_A,
	NVTX_CORE2_CATEGORY_W,
	NVTX_CORE2_STRING_A,
	NVTX_CORE2_STRING_W,
	NVTX_CORE2_DOMAIN_A,
	NVTX_CORE2_DOMAIN_W,
	NVTX_CORE2_DOMAIN_DESTROY,
	NVTX_CORE2_INITIALIZE,
	NVTX_CORE2_COUNT,
};

typedef void (*nvtx_function)(void);
typedef const void *(*nvtx_get_export_table)(uint32_t export);

struct nvtx_callbacks {
	size_t struct_size;
	/* returns not 0 if it sets *table and *size (ids 0 to size - 1; 0 is unused) */
	int (*get_table)(int module, nvtx_function ***table, unsigned *size);
};

struct nvtx_version_info {
	size_t struct_size;
	uint32_t version;
	uint32_t reserved;
	void (*set_tool_version)(uint32_t version);
};

enum nvtx_message {
	NVTX_MESSAGE_NONE,
	NVTX_MESSAGE_TEXT,
	NVTX_MESSAGE_WIDE,
	NVTX_MESSAGE_REGISTERED
};

#define NVTX_COLOR_TYPE_ARGB 1

/* Clients of other versions may pass fewer or more bytes: `size` says how many. */
struct nvtx_attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category; /* 0: none */
	int32_t color_type;
	uint32_t color;
	int32_t payload_type; /* the values of enum nvtx_payload; others belong to extensions */
	int32_t blocks; /* NVTX_PAYLOAD_BLOCKS: number of blocks at `payload` */
	uint64_t payload; /* a union: 32-bit kinds use its first four bytes */
	int32_t message_type; /* enum nvtx_message */
	const void *message;
};
_Static_assert(sizeof(struct nvtx_attributes) == 48, "NVTX's layout");

/* A payload_type: `payload` is the address of an array, valid during the call. */
#define NVTX_PAYLOAD_BLOCKS ((int32_t)0xdfbd0009)

struct nvtx_payload_block {
	uint64_t schema;
	size_t size; /* SIZE_MAX: unknown */
	const void *data;
};
_Static_assert(sizeof(struct nvtx_payload_block) == 24, "NVTX's layout");

#define NVTX_RESOURCE_THREAD 0x10003 /* identifier: thread id of the operating system */

struct nvtx_resource {
	uint16_t version;
	uint16_t size;
	int32_t identifier_type;
	uint64_t identifier;
	int32_t message_type;
	const void *message;
};
_Static_assert(sizeof(struct nvtx_resource) == 32, "NVTX's layout");

/* What a push or pop returns if the tool does not count levels. */
#define NVTX_NO_LEVEL (-2)

/* --- extensions --- */

#define NVTX_EXTENSION_PAYLOAD 2

enum nvtx_payload_slot {
	NVTX_PAYLOAD_SLOT_MARK = 2,
	NVTX_PAYLOAD_SLOT_PUSH = 3,
	NVTX_PAYLOAD_SLOT_POP = 4,
	NVTX_PAYLOAD_SLOT_START = 5,
	NVTX_PAYLOAD_SLOT_END = 6,
	NVTX_PAYLOAD_SLOT_DOMAIN_ENABLED = 7,
};

struct nvtx_extension_segment {
	size_t id;
	size_t slot_count;
	intptr_t *slots;
};

struct nvtx_extension {
	uint16_t nvtx_version;
	uint16_t struct_size;
	uint16_t module;
	uint16_t compatibility;
	size_t segment_count;
	struct nvtx_extension_segment *segments;
	intptr_t (*get_export)(uint32_t id);
	const void *info;
};

#endif
