#include "capture/sinks/perfetto_gpus.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

int perfetto_gpu_number(void *unused, const char *pci)
{
	DIR *gpus = opendir("/proc/driver/nvidia/gpus");
	const struct dirent *gpu;
	bool is_found = false;
	int before = 0;

	(void)unused;
	while (gpus && (gpu = readdir(gpus))) {
		is_found |= strcasecmp(gpu->d_name, pci) == 0;
		before += gpu->d_name[0] != '.' && strcasecmp(gpu->d_name, pci) < 0;
	}
	if (gpus)
		closedir(gpus);
	return is_found ? before : -1;
}
