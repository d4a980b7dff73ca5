/* test_hub.c: what CUPTI is made to do for several clients of the hub, and in which order. */
#include "capture/cuda/hub/hub.h"

#include <pthread.h>
#include <string.h>

#include "support/cmocka_tests.h"

#define KERNEL (UINT64_C(1) << CUPTI_ACTIVITY_KIND_KERNEL)
#define CONCURRENT (UINT64_C(1) << CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
#define MEMCPY (UINT64_C(1) << CUPTI_ACTIVITY_KIND_MEMCPY)
#define DRIVER CUPTI_CB_DOMAIN_DRIVER_API
#define ROUNDS 20000

/* A CUPTI that knows what is enabled. */
static struct {
	atomic_uint_fast64_t kinds;
	atomic_bool callbacks[HUB_CALLBACK_IDS_MAX]; /* of the driver's API */
	uint64_t refuses; /* kinds */
	CUpti_CallbackId refused_id;
	atomic_uint changes;
} gpu;

static CUptiResult enable_callback(uint32_t on, CUpti_SubscriberHandle subscriber,
				   CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	assert_ptr_equal(subscriber, (void *)&gpu);
	assert_int_equal(domain, DRIVER);
	if (on && id == gpu.refused_id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	atomic_store(&gpu.callbacks[id], on);
	gpu.changes++;
	return CUPTI_SUCCESS;
}

static CUptiResult enable_domain(uint32_t on, CUpti_SubscriberHandle subscriber,
				 CUpti_CallbackDomain domain)
{
	(void)subscriber, (void)domain;
	for (unsigned i = 0; i < HUB_CALLBACK_IDS_MAX; i++)
		atomic_store(&gpu.callbacks[i], on);
	return CUPTI_SUCCESS;
}

static CUptiResult enable_kind(CUpti_ActivityKind kind)
{
	uint64_t bit = UINT64_C(1) << kind;

	if (gpu.refuses & bit)
		return CUPTI_ERROR_NOT_COMPATIBLE;
	/* CUPTI cannot record kernels in both ways. */
	assert_false((bit | atomic_load(&gpu.kinds)) == (KERNEL | CONCURRENT));
	atomic_fetch_or(&gpu.kinds, bit);
	gpu.changes++;
	return CUPTI_SUCCESS;
}

static CUptiResult disable_kind(CUpti_ActivityKind kind)
{
	atomic_fetch_and(&gpu.kinds, ~(UINT64_C(1) << kind));
	gpu.changes++;
	return CUPTI_SUCCESS;
}

static const struct cupti cupti = { .EnableCallback = enable_callback,
				    .EnableDomain = enable_domain,
				    .ActivityEnable = enable_kind,
				    .ActivityDisable = disable_kind };

/* --- the clients --- */

static char order[64]; /* of calls, a letter each */

static void add(char letter)
{
	order[strlen(order)] = letter;
}

static void enter_engine(const struct hub_call *call)
{
	(void)call;
	add('e');
}

static void exit_engine(const struct hub_call *call)
{
	(void)call;
	add('E');
}

static void enter_trace(const struct hub_call *call)
{
	(void)call;
	add('t');
}

static void exit_trace(const struct hub_call *call)
{
	(void)call;
	add('T');
}

static bool works = true, leaves = true, holds = true, keeps;

static bool is_engine(int engine)
{
	return engine == SETTING_ENGINE_DEEP;
}

static bool attach(const struct cupti *c, int engine, bool late)
{
	assert_ptr_equal(c->EnableDomain, cupti.EnableDomain);
	assert_int_equal(engine, SETTING_ENGINE_DEEP);
	(void)late;
	return works;
}

static bool detach(void)
{
	return leaves;
}

static bool hold(void)
{
	add('h');
	return true;
}

static bool hold_at_times(void)
{
	return holds;
}

static void let(void)
{
	add('l');
}

static bool keeps_kinds(void)
{
	return keeps;
}

static struct hub_wishes wishes[3];
static const struct hub_client engine = { .name = "engine",
					  .wishes = &wishes[0],
					  .takes_counters = true,
					  .is_engine = is_engine,
					  .attach = attach,
					  .detach = detach,
					  .keeps_kinds = keeps_kinds,
					  .enter = enter_engine,
					  .exit = exit_engine,
					  .hold = hold,
					  .let = let };
static const struct hub_client trace = { .name = "trace",
					 .wishes = &wishes[1],
					 .enter = enter_trace,
					 .exit = exit_trace,
					 .hold = hold_at_times };
static const struct hub_client profiler = { .name = "profiler",
					    .wishes = &wishes[2],
					    .is_profiler = true };
const struct hub_client *const hub_clients[] = { &engine, &trace, &profiler, NULL };

static int begin(void **state)
{
	(void)state;
	hub_after_fork();
	memset(&gpu, 0, sizeof(gpu));
	memset(order, 0, sizeof(order));
	works = leaves = holds = true;
	keeps = false;
	hub_use(&cupti);
	hub_subscribed((CUpti_SubscriberHandle)(void *)&gpu);
	return 0;
}

/* --- the union --- */

static void test_a_callback_that_two_want(void **state)
{
	(void)state;
	assert_int_equal(hub_set_callback(&trace, true, DRIVER, 7), CUPTI_SUCCESS);
	assert_int_equal(hub_set_callback(&engine, true, DRIVER, 7), CUPTI_SUCCESS);
	assert_true(gpu.callbacks[7]);
	hub_set_callback(&trace, false, DRIVER, 7);
	assert_true(gpu.callbacks[7]);
	assert_false(hub_wants(&trace, DRIVER, 7));
	hub_set_callback(&engine, false, DRIVER, 7);
	assert_false(gpu.callbacks[7]);
}

static void test_a_domain_beside_a_callback(void **state)
{
	(void)state;
	hub_set_callback(&trace, true, DRIVER, 7);
	hub_set_domain(&profiler, true, DRIVER);
	assert_true(gpu.callbacks[8]);
	hub_set_domain(&profiler, false, DRIVER);
	assert_false(gpu.callbacks[8]);
	assert_true(gpu.callbacks[7]);
}

static void test_refused_wishes_are_not_kept(void **state)
{
	(void)state;
	gpu.refused_id = 9;
	gpu.refuses = MEMCPY;
	assert_int_not_equal(hub_set_callback(&trace, true, DRIVER, 9), CUPTI_SUCCESS);
	assert_false(hub_wants(&trace, DRIVER, 9));
	assert_int_not_equal(hub_set_kind(&trace, true, CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
	assert_int_equal(hub_kinds(&trace), 0);
	assert_int_equal(gpu.changes, 0);
	assert_int_equal(hub_set_kind(&trace, true, 64), CUPTI_ERROR_INVALID_KIND);
	assert_int_equal(hub_set_callback(&trace, true, DRIVER, HUB_CALLBACK_IDS_MAX),
			 CUPTI_ERROR_INVALID_PARAMETER);
}

/* Concurrent records become serialized ones without both at a time, and back. */
static void test_serialized_late(void **state)
{
	(void)state;
	hub_set_kind(&trace, true, HUB_KERNELS);
	hub_set_kind(&profiler, true, HUB_KERNELS);
	assert_int_equal(gpu.kinds, CONCURRENT);
	assert_int_equal(hub_serialize(&engine, true), CUPTI_SUCCESS);
	assert_int_equal(gpu.kinds, KERNEL);
	assert_true(hub_is_serialized() && hub_is_serialized_late());
	hub_set_kind(&trace, false, HUB_KERNELS);
	assert_int_equal(gpu.kinds, KERNEL);
	hub_set_kind(&engine, false, HUB_KERNELS);
	assert_int_equal(gpu.kinds, CONCURRENT); /* the profiler's alone */
	assert_int_equal(hub_left_out(), CONCURRENT);
	hub_set_kind(&engine, true, HUB_KERNELS);
	assert_int_equal(gpu.kinds, KERNEL);
	assert_int_equal(hub_left_out(), 0);
}

static void test_serialized_refused(void **state)
{
	(void)state;
	hub_set_kind(&trace, true, HUB_KERNELS);
	gpu.refuses = KERNEL;
	assert_int_not_equal(hub_serialize(&engine, false), CUPTI_SUCCESS);
	assert_int_equal(gpu.kinds, CONCURRENT);
	assert_false(hub_is_serialized());
	hub_set_kind(&trace, false, HUB_KERNELS);
	assert_int_not_equal(hub_serialize(&engine, false), CUPTI_SUCCESS);
	assert_false(hub_is_serialized());
	assert_int_equal(gpu.kinds | hub_kinds(&engine), 0);
}

static void test_kinds_between_windows(void **state)
{
	(void)state;
	hub_set_kind(&engine, true, HUB_KERNELS);
	keeps = true;
	hub_close_window();
	assert_int_equal(gpu.kinds, CONCURRENT);
	keeps = false;
	hub_close_window();
	assert_int_equal(gpu.kinds, 0);
}

static void *change(void *client)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		hub_set_callback(client, i % 2, DRIVER, 7);
		hub_set_kind(client, i % 2, CUPTI_ACTIVITY_KIND_MEMCPY);
	}
	return NULL;
}

/* Whatever the order: in the end CUPTI has what is wanted. */
static void test_wishes_that_change_at_once(void **state)
{
	pthread_t threads[2];

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		pthread_create(&threads[0], NULL, change, (void *)(uintptr_t)&trace);
		pthread_create(&threads[1], NULL, change, (void *)(uintptr_t)&profiler);
		for (unsigned i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		assert_true(gpu.callbacks[7] && gpu.kinds == MEMCPY);
		hub_set_callback(&trace, false, DRIVER, 7);
		hub_set_callback(&profiler, false, DRIVER, 7);
		assert_false(gpu.callbacks[7]);
	}
}

static pthread_barrier_t barrier;

/* Drops what the other thread begins to want. */
static void *drop(void *unused)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		hub_set_callback(&profiler, true, DRIVER, 7);
		hub_set_kind(&profiler, true, CUPTI_ACTIVITY_KIND_MEMCPY);
		pthread_barrier_wait(&barrier);
		hub_set_callback(&profiler, false, DRIVER, 7);
		hub_set_kind(&profiler, false, CUPTI_ACTIVITY_KIND_MEMCPY);
		pthread_barrier_wait(&barrier);
	}
	return unused;
}

/* A wish that comes while another client's one for the same goes. */
static void test_a_wish_that_is_handed_over(void **state)
{
	unsigned missing = 0;
	pthread_t thread;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, drop, NULL);
	for (unsigned i = 0; i < ROUNDS; i++) {
		hub_set_callback(&trace, false, DRIVER, 7);
		hub_set_kind(&trace, false, CUPTI_ACTIVITY_KIND_MEMCPY);
		pthread_barrier_wait(&barrier);
		hub_set_callback(&trace, true, DRIVER, 7);
		hub_set_kind(&trace, true, CUPTI_ACTIVITY_KIND_MEMCPY);
		pthread_barrier_wait(&barrier);
		missing += !gpu.callbacks[7] || gpu.kinds != MEMCPY;
	}
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	assert_int_equal(missing, 0);
}

/* --- clients --- */

static void test_counters(void **state)
{
	(void)state;
	assert_null(hub_counters_engine());
	assert_true(hub_attach(SETTING_ENGINE_DEEP, false));
	assert_false(hub_attach(SETTING_ENGINE_DEEP, false));
	assert_string_equal(hub_counters_engine(), "deep");
	hub_release_counters(&trace);
	assert_non_null(hub_counters_engine());
	hub_release_counters(&engine);
	assert_null(hub_counters_engine());
	hub_unsubscribed();
	works = false;
	assert_true(hub_attach(SETTING_ENGINE_DEEP, false));
	assert_null(hub_counters_engine());
}

static void test_a_client_that_leaves(void **state)
{
	(void)state;
	assert_false(hub_attach(SETTING_ENGINE_TRACE, false));
	assert_int_equal(hub_listeners, 0);
	hub_attach(SETTING_ENGINE_DEEP, false);
	assert_int_not_equal(hub_listeners, 0);
	hub_set_callback(&engine, true, DRIVER, 7);
	hub_set_callback(&profiler, true, DRIVER, 8);
	leaves = false;
	assert_false(hub_detach());
	leaves = true;
	assert_true(hub_detach());
	hub_unsubscribed();
	assert_int_equal(hub_listeners, 0);
	assert_false(hub_wants_anything(&engine));
	assert_true(hub_wants_anything(&profiler));
	memset(&gpu, 0, sizeof(gpu));
	hub_repeat_callbacks(&profiler);
	assert_true(gpu.callbacks[8] && !gpu.callbacks[7]);
}

static void call(CUpti_ApiCallbackSite site)
{
	const struct hub_function f = { .name = "cuLaunchKernel", .is_driver = true, .id = 7 };
	const CUpti_CallbackData data = { .callbackSite = site };

	hub_call(&(struct hub_call){ &f, DRIVER, &data });
}

static void test_the_order_of_calls(void **state)
{
	(void)state;
	hub_set_callback(&trace, true, DRIVER, 7);
	hub_set_callback(&engine, true, DRIVER, 7);
	call(CUPTI_API_ENTER);
	call(CUPTI_API_EXIT);
	assert_string_equal(order, "etTE");
	hub_set_callback(&trace, false, DRIVER, 7); /* the engine's alone */
	call(CUPTI_API_ENTER);
	hub_is_own_call = true;
	call(CUPTI_API_ENTER);
	hub_is_own_call = false;
	assert_string_equal(order, "etTEe");
}

static void test_a_flush_that_is_not_held(void **state)
{
	(void)state;
	assert_true(hub_hold());
	hub_let();
	holds = false;
	assert_false(hub_hold());
	assert_string_equal(order, "hlhl");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_callback_that_two_want, begin),
		cmocka_unit_test_setup(test_a_domain_beside_a_callback, begin),
		cmocka_unit_test_setup(test_refused_wishes_are_not_kept, begin),
		cmocka_unit_test_setup(test_serialized_late, begin),
		cmocka_unit_test_setup(test_serialized_refused, begin),
		cmocka_unit_test_setup(test_kinds_between_windows, begin),
		cmocka_unit_test_setup(test_wishes_that_change_at_once, begin),
		cmocka_unit_test_setup(test_a_wish_that_is_handed_over, begin),
		cmocka_unit_test_setup(test_counters, begin),
		cmocka_unit_test_setup(test_a_client_that_leaves, begin),
		cmocka_unit_test_setup(test_the_order_of_calls, begin),
		cmocka_unit_test_setup(test_a_flush_that_is_not_held, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
