/*
 * cuptiFinalize: ends CUPTI for all of its clients. As the real one it waits until no other thread
 * is inside CUPTI, and for the GPU: a thread that is blocked in a call that waits blocks it, too.
 * Records that were not handed over are lost, and so are the recorder's buffers. Until somebody
 * subscribes or registers callbacks anew, functions fail; calls of them are counted.
 */
#include <unistd.h>

#include "delivery.h"
#include "standin_cupti.h"

static atomic_bool finalizing, finalized;
static atomic_uint inside_all; /* threads inside CUPTI */
static atomic_uint waiting; /* calls in progress that wait for the GPU */
static __thread unsigned inside;

void finalize_enter(void)
{
	if (inside++)
		return;
	for (;;) {
		atomic_fetch_add(&inside_all, 1);
		if (!atomic_load(&finalizing))
			return;
		atomic_fetch_sub(&inside_all, 1);
		usleep(50);
	}
}

void finalize_leave(void)
{
	if (!--inside)
		atomic_fetch_sub(&inside_all, 1);
}

void finalize_follow_wait(bool ends)
{
	unsigned count = atomic_load(&waiting);

	if (!ends)
		atomic_fetch_add(&waiting, 1);
	while (ends && count && !atomic_compare_exchange_weak(&waiting, &count, count - 1))
		;
}

bool finalize_is_over(void)
{
	if (!atomic_load(&finalized) && !atomic_load(&finalizing))
		return false;
	atomic_fetch_add(&standin_witness()->late_calls, 1);
	return true;
}

void finalize_undo(void)
{
	atomic_store(&finalized, false);
}

EXPORT CUptiResult cuptiFinalize(void)
{
	bool is_at_exit = standin_api_site == CUPTI_API_EXIT + 1, is_other;
	int forced;

	if (standin_fault(STANDIN_Finalize, &forced))
		return (CUptiResult)forced;
	if (standin_faults()->finalize_at_exit && !is_at_exit)
		return CUPTI_ERROR_INVALID_OPERATION;
	is_other = atomic_exchange(&finalizing, true);
	if (is_other)
		return CUPTI_ERROR_INVALID_OPERATION;
	while (atomic_load(&inside_all) > (inside > 0) || atomic_load(&waiting))
		usleep(50);
	cupti_end();
	launches_forget();
	atomic_fetch_add(&standin_witness()->finalized, 1);
	atomic_store(&finalized, true);
	atomic_store(&finalizing, false);
	return CUPTI_SUCCESS;
}
