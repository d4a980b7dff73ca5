#include "unit/capture/toy_engine.h"

#include "capture/cuda/hub/hub.h"

struct toy_engine toy_engine;
extern const struct hub_client toy_client;

static bool is_engine(int engine)
{
	(void)engine;
	return true; /* a real one compares it with its SETTING_ENGINE_ */
}

static bool attach(const struct cupti *cupti, int engine, bool late)
{
	(void)cupti, (void)engine, (void)late;
	toy_engine.attached++;
	return hub_set_callback(&toy_client, true, CUPTI_CB_DOMAIN_RESOURCE,
				CUPTI_CBID_RESOURCE_CONTEXT_CREATED) == CUPTI_SUCCESS;
}

static bool wants_call(const struct hub_function *f, const struct settings *s)
{
	return s && f->is_driver && f->kind == api_kind_launch;
}

static void enter(const struct hub_call *call)
{
	(void)call;
	toy_engine.begun++;
}

static void leave(const struct hub_call *call)
{
	(void)call;
	toy_engine.ended++;
}

static void notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	(void)domain, (void)info;
	toy_engine.contexts += id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED;
}

static bool hold(void)
{
	toy_engine.held++;
	toy_engine.depth++;
	return true;
}

static void let(void)
{
	toy_engine.depth--;
}

static struct hub_wishes wishes;
const struct hub_client toy_client = {
	.name = "toy",
	.wishes = &wishes,
	.is_engine = is_engine,
	.attach = attach,
	.wants_call = wants_call,
	.enter = enter,
	.exit = leave,
	.notify = notify,
	.hold = hold,
	.let = let,
};

/* A client may have no function but is_engine. */
static struct hub_wishes idle_wishes;
const struct hub_client toy_idle_client = { .name = "toy without wishes",
					    .wishes = &idle_wishes,
					    .is_engine = is_engine };
