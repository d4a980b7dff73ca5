#include "capture/amd/amd_devices.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "format/rows.h"
#include "vendor/amd/amd_cards.h"

/* Names are the SDK's, which keeps them until it finalizes; so they are copied. */
static struct agent {
	struct amd_agent agent;
	char name[128];
	uint32_t ordinal;
} agents[AMD_GPUS_MAX];
static unsigned count;

/* A program may use the GPUs of both vendors, first those of either. */
uint32_t amd_devices_first(void)
{
	char path[AMD_PATH_MAX];
	struct stat s;

	return stat(amd_path(path, "/proc/driver/nvidia/gpus"), &s) == 0 ? AMD_GPUS_MAX / 2 : 0;
}

static int on_agents(uint32_t version, const void **list, size_t length, void *data)
{
	uint32_t ordinal = amd_devices_first();

	(void)data;
	for (size_t i = 0; version == AMD_AGENT_VERSION && i < length && count < AMD_GPUS_MAX;
	     i++) {
		const struct amd_agent *a = list[i];
		struct agent *out = &agents[count];

		/* HIP numbers those that its variables leave visible, in this order. */
		if (a->size < sizeof(*a) || a->type != AMD_AGENT_GPU)
			continue;
		out->agent = *a;
		out->ordinal = a->visible & AMD_VISIBLE_HIP ? ordinal++ : AMD_NO_DEVICE;
		snprintf(out->name, sizeof(out->name), "%s",
			 a->product && *a->product ? a->product
			 : a->name                 ? a->name
						   : "");
		count++;
	}
	return AMD_SUCCESS;
}

int amd_devices_read(const struct amd_sdk *sdk)
{
	return sdk->query_available_agents(AMD_AGENT_VERSION, on_agents, sizeof(struct amd_agent),
					   NULL);
}

unsigned amd_devices_count(void)
{
	return count;
}

uint64_t amd_devices_agent(unsigned index)
{
	return agents[index].agent.id;
}

static uint32_t uuid_text(struct writer *w, const uint8_t *uuid)
{
	char text[64];
	int length = snprintf(text, sizeof(text), "GPU-");

	for (unsigned i = 0; i < 16; i++)
		length += snprintf(text + length, 3, "%02x", uuid[i]);
	return writer_string(w, text, (size_t)length);
}

static void write_pci(char out[32], const struct amd_agent *a)
{
	snprintf(out, 32, "%04x:%02x:%02x.%x", a->domain, a->location >> 8 & 0xff,
		 a->location >> 3 & 0x1f, a->location & 7);
}

static void write_device(struct writer *w, const struct agent *agent)
{
	const struct amd_agent *a = &agent->agent;
	char pci[32];
	struct row_device row = {
		.missing = schema_missing(TABLE_device),
		.id = agent->ordinal,
		.name = rows_text(w, agent->name),
		.uuid = uuid_text(w, a->uuid),
		.memory_bytes = a->memory_bytes,
	};

	write_pci(pci, a);
	row.pci = rows_text(w, pci);
	ROW_SET(&row, device, multiprocessors, a->compute_units);
	ROW_SET(&row, device, vendor, gpu_vendor_amd);
	ROW_SET_IF(&row, device, clock_khz, a->max_clock_mhz * 1000);
	ROW_SET_IF(&row, device, warp_size, a->wave_size);
	ROW_SET_IF(&row, device, max_threads_per_block, a->workgroup_max);
	ROW_SET_IF(&row, device, max_threads_per_multiprocessor, a->waves_per_unit * a->wave_size);
	ROW_SET_IF(&row, device, shared_per_multiprocessor_bytes, a->lds_kib * 1024);
	writer_append(w, TABLE_device, &row);
}

void amd_devices_write(struct writer *w)
{
	for (unsigned i = 0; i < count; i++)
		if (agents[i].ordinal != AMD_NO_DEVICE)
			write_device(w, &agents[i]);
}

uint32_t amd_device_of(uint64_t agent)
{
	for (unsigned i = 0; i < count; i++)
		if (agents[i].agent.id == agent)
			return agents[i].ordinal;
	return AMD_NO_DEVICE;
}

uint32_t amd_device_at(const char *pci)
{
	char own[32];

	for (unsigned i = 0; i < count; i++) {
		write_pci(own, &agents[i].agent);
		if (strcmp(own, pci) == 0)
			return agents[i].ordinal;
	}
	return AMD_NO_DEVICE;
}
