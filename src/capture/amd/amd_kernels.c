#include "capture/amd/amd_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* Held for a look-up or an insertion only. Code is loaded seldom. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map kernels = MAP_INIT; /* id -> struct amd_kernel * */
static atomic_uint_fast64_t refused;

static struct amd_kernel *make(const struct amd_symbol *symbol)
{
	const char *name = symbol->name ? symbol->name : "";
	size_t length = strlen(name);
	struct amd_kernel *kernel;
	char *text;

	if (length > 3 && memcmp(name + length - 3, ".kd", 3) == 0)
		length -= 3;
	kernel = malloc(sizeof(*kernel) + length + 1);
	if (!kernel)
		return NULL;
	text = (char *)(kernel + 1);
	memcpy(text, name, length);
	text[length] = '\0';
	*kernel = (struct amd_kernel){ .name = text,
				       .vgprs = symbol->vgprs,
				       .agprs = symbol->agprs,
				       .group_bytes = symbol->group_bytes };
	return kernel;
}

void amd_kernels_on_callback(struct amd_callback record, uint64_t *user, void *data)
{
	const struct amd_symbol *symbol = record.payload;
	struct amd_kernel *kernel;
	bool known;

	(void)user;
	(void)data;
	if (record.operation != AMD_CODE_OBJECT_SYMBOL || record.phase != AMD_ENTER ||
	    symbol->size < offsetof(struct amd_symbol, agprs) + sizeof(symbol->agprs))
		return;
	kernel = make(symbol);
	pthread_mutex_lock(&lock);
	known = kernel && map_put(&kernels, symbol->kernel, (uintptr_t)kernel) == 0;
	pthread_mutex_unlock(&lock);
	if (known)
		return;
	free(kernel);
	atomic_fetch_add(&refused, 1);
}

const struct amd_kernel *amd_kernel_find(uint64_t id)
{
	uint64_t kernel = 0;

	pthread_mutex_lock(&lock);
	map_get(&kernels, id, &kernel);
	pthread_mutex_unlock(&lock);
	return (const struct amd_kernel *)(uintptr_t)kernel;
}

uint64_t amd_kernels_refused(void)
{
	return atomic_load(&refused);
}
