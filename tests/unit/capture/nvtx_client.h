/*
 * nvtx_client.h: a client of NVTX as a tool sees it: the tables, and the function pointers that the
 * tool overwrites.
 */
#ifndef PITOT_TESTS_NVTX_CLIENT_H
#define PITOT_TESTS_NVTX_CLIENT_H

#include <string.h>
#include <wchar.h>

#include "capture/nvtx/nvtx_abi.h"

struct client {
	/* in the order of the callback ids */
	void *unused;
	void (*mark_ex)(const void *);
	void (*mark_a)(const char *);
	void (*mark_w)(const wchar_t *);
	uint64_t (*start_ex)(const void *);
	uint64_t (*start_a)(const char *);
	uint64_t (*start_w)(const wchar_t *);
	void (*end)(uint64_t);
	int (*push_ex)(const void *);
	int (*push_a)(const char *);
	int (*push_w)(const wchar_t *);
	int (*pop)(void);
	void (*category_a)(uint32_t, const char *);
	void (*category_w)(uint32_t, const wchar_t *);
	void (*thread_a)(uint32_t, const char *);
	void (*thread_w)(uint32_t, const wchar_t *);
};

struct client2 {
	void *unused;
	void (*mark_ex)(void *, const void *);
	uint64_t (*start_ex)(void *, const void *);
	void (*end)(void *, uint64_t);
	int (*push_ex)(void *, const void *);
	int (*pop)(void *);
	void *(*resource_create)(void *, void *);
	void (*resource_destroy)(void *);
	void (*category_a)(void *, uint32_t, const char *);
	void (*category_w)(void *, uint32_t, const wchar_t *);
	void *(*string_a)(void *, const char *);
	void *(*string_w)(void *, const wchar_t *);
	void *(*domain_a)(const char *);
	void *(*domain_w)(const wchar_t *);
	void (*domain_destroy)(void *);
	void (*initialize)(const void *);
};

_Static_assert(sizeof(struct client) == NVTX_CORE_COUNT * sizeof(void *), "one pointer an id");
_Static_assert(sizeof(struct client2) == NVTX_CORE2_COUNT * sizeof(void *), "one pointer an id");

/* What the program calls through. */
static struct client nvtx;
static struct client2 nvtx2;

/* What the client offers; tests break it. */
static struct {
	nvtx_function *core[NVTX_CORE_COUNT + 1], *core2[NVTX_CORE2_COUNT + 1];
	unsigned core_size, core2_size;
	struct nvtx_callbacks callbacks;
	struct nvtx_version_info version;
	uint32_t tool_version;
} offered;

static inline void client_set_version(uint32_t version)
{
	offered.tool_version = version;
}

static inline int client_table(int module, nvtx_function ***table, unsigned *size)
{
	if (module == NVTX_MODULE_CORE) {
		*table = offered.core;
		*size = offered.core_size;
	} else if (module == NVTX_MODULE_CORE2 && offered.core2_size) {
		*table = offered.core2;
		*size = offered.core2_size;
	} else {
		return 0;
	}
	return 1;
}

static inline const void *client_export_table(uint32_t id)
{
	switch (id) {
	case NVTX_EXPORT_CALLBACKS:
		return &offered.callbacks;
	case NVTX_EXPORT_VERSION:
		return &offered.version;
	default:
		return NULL;
	}
}

/* A client that nothing is attached to: as NVTX 3 offers it. */
static inline void client_reset(void)
{
	memset(&nvtx, 0, sizeof(nvtx));
	memset(&nvtx2, 0, sizeof(nvtx2));
	memset(&offered, 0, sizeof(offered));
	for (unsigned i = 1; i < NVTX_CORE_COUNT; i++)
		offered.core[i] = (nvtx_function *)(void *)((void **)(void *)&nvtx + i);
	for (unsigned i = 1; i < NVTX_CORE2_COUNT; i++)
		offered.core2[i] = (nvtx_function *)(void *)((void **)(void *)&nvtx2 + i);
	offered.core_size = NVTX_CORE_COUNT;
	offered.core2_size = NVTX_CORE2_COUNT;
	offered.callbacks = (struct nvtx_callbacks){ sizeof(offered.callbacks), client_table };
	offered.version =
		(struct nvtx_version_info){ sizeof(offered.version), 3, 0, client_set_version };
}

#endif
