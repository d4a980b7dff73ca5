#include "capture/cuda/attributes.h"

#include "capture/core/log.h"

#define DEVICE_BUFFER_BYTES (8u << 20) /* for kernels in flight on the GPU; larger: fewer stalls */

static void set_attribute(const struct cupti *cupti, CUpti_ActivityAttribute attribute,
			  const void *value, size_t size)
{
	CUptiResult result =
		cupti->ActivitySetAttribute(attribute, &size, (void *)(uintptr_t)value);

	if (result != CUPTI_SUCCESS)
		log_line("cuptiActivitySetAttribute(%d): %s", (int)attribute,
			 cupti_result_text(cupti, result));
}

void attributes_zeroed(const struct cupti *cupti, uint8_t zeroed)
{
	set_attribute(cupti, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &zeroed,
		      sizeof(zeroed));
}

void attributes_set(const struct cupti *cupti)
{
	size_t device_bytes = DEVICE_BUFFER_BYTES;

	if (cupti->SetThreadIdType)
		cupti->SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	set_attribute(cupti, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &device_bytes,
		      sizeof(device_bytes));
	attributes_zeroed(cupti, 1);
}
