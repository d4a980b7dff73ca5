#include "capture/amd/amd_readings.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "capture/amd/amd_devices.h"
#include "capture/amd/amd_sdk.h"
#include "capture/core/capability_notes.h"
#include "capture/counters/counters_shared.h"
#include "system/amd_reader.h"

static struct {
	enum { WANTED, READY, NONE } state;
	atomic_bool all; /* there is no trace, which has rows of GPUs */
	unsigned count;
	struct card {
		struct amd_device device;
		uint32_t ordinal; /* AMD_NO_DEVICE: HIP does not use it, or it is lost */
		bool is_noted; /* what it lacks */
		struct strbuf lacks;
	} cards[AMD_GPUS_MAX];
	struct counters_lock locks[AMD_GPUS_MAX];
} self;

static void push(void *user, uint32_t id, uint64_t time_ns, int64_t value)
{
	const struct card *card = user;

	counters_push(id, card->ordinal, time_ns, value);
}

static void note_absent(void *user, uint32_t id, const char *why)
{
	struct card *card = user;

	metric_add_absent(&card->lacks, "", id, why);
}

static void find_cards(bool all)
{
	unsigned count = MIN(amd_device_count(), AMD_GPUS_MAX);
	bool is_numbered = amd_state() == AMD_READY; /* by HIP */

	if (!count)
		self.state = NONE;
	if (!count || (!is_numbered && !all))
		return;
	self.state = READY;
	for (unsigned i = 0; i < count; i++) {
		struct card *card = &self.cards[i];

		if (!amd_device_open(&card->device, i))
			break;
		strbuf_clear(&card->lacks);
		card->is_noted = false;
		card->ordinal = self.all ? amd_devices_first() + i
					 : amd_device_at(card->device.card.gpu.pci);
		self.count++;
	}
}

static void read_card(unsigned i, const char *directory, uint64_t now_ns)
{
	struct card *card = &self.cards[i];
	const struct metric_sink sink = { .user = card, .value = push, .absent = note_absent };

	if (card->ordinal == AMD_NO_DEVICE ||
	    !counters_lock(self.locks, AMD_GPUS_MAX, i, directory, card->device.card.gpu.pci))
		return;
	amd_device_read(&card->device, now_ns, &sink);
	if (card->device.lost) {
		counters_push(METRIC_gpu_lost, card->ordinal, clock_monotonic_ns(), 1);
		card->ordinal = AMD_NO_DEVICE;
	} else if (card->lacks.length && !card->is_noted) {
		card->is_noted = true;
		capability_note(feature_counters, capability_state_degraded, NULL, NULL,
				"device %u has no %s", card->ordinal, strbuf_text(&card->lacks));
	}
}

bool amd_readings_read(bool all, const char *directory, uint64_t now_ns)
{
	atomic_store(&self.all, all);
	if (self.state == WANTED)
		find_cards(all);
	for (unsigned i = 0; i < self.count; i++)
		read_card(i, directory, now_ns);
	return self.state != NONE;
}

void amd_readings_write(struct writer *w, uint32_t device)
{
	struct gpu_description description;

	for (unsigned i = 0; atomic_load(&self.all) && i < self.count; i++)
		if (self.cards[i].ordinal == device) {
			amd_describe(&self.cards[i].device, &description);
			device_row_write(w, device, &description);
		}
}

void amd_readings_after_fork(void)
{
	counters_unlock(self.locks, AMD_GPUS_MAX);
	self.state = WANTED;
	self.count = 0;
}
