/*
 * amd_cards.h: AMD's GPUs, from the files in which the kernel's drivers amdgpu and amdkfd show them
 * (sysfs; Documentation/gpu/amdgpu of Linux). No library is needed.
 */
#ifndef PITOT_VENDOR_AMD_AMD_CARDS_H
#define PITOT_VENDOR_AMD_AMD_CARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "vendor/machine.h"

#define AMD_CARDS_MAX 64u
#define AMD_PATH_MAX 512u
#define AMD_FILE_MAX 8192u /* more than any of these files has */

struct amd_card {
	struct gpu gpu; /* texts "" and 0 bytes: unknown */
	char folder[AMD_PATH_MAX]; /* …/sys/class/drm/card0/device */
	uint32_t gpu_id; /* amdkfd's number of it; 0: it has none */
};

/* Finds at most `max` GPUs, in the order of their PCI addresses. Returns their number. */
unsigned amd_cards_find(struct amd_card *out, unsigned max);

/*
 * Writes the path of a file of the machine, such as "/dev/kfd", into a buffer of AMD_PATH_MAX
 * bytes: below the folder that PITOT_AMD_ROOT names, if it is set.
 */
const char *amd_path(char *out, const char *path);

/* Reads a file of a folder, without spaces at its end. Returns 0 or a negative errno. */
int amd_read(const char *folder, const char *file, struct strbuf *out);
/* Likewise, a decimal number. -ENODATA: it is none. */
int amd_read_number(const char *folder, const char *file, int64_t *out);

#endif
