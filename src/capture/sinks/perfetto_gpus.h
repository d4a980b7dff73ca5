/* perfetto_gpus.h: how Perfetto's traces number the GPUs of a machine. */
#ifndef PITOT_CAPTURE_PERFETTO_GPUS_H
#define PITOT_CAPTURE_PERFETTO_GPUS_H

/*
 * Returns the position of a GPU among all GPUs that the driver lists, ordered by PCI address as in
 * nvidia-smi; -1 if it is not listed.
 */
int perfetto_gpu_number(void *unused, const char *pci);

#endif
