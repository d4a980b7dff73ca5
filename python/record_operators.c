/*
 * record_operators.c: PyTorch's observers of operators, at::RecordFunctionCallback of
 * ATen/record_function.h. They run on each thread that executes operators, also on those of
 * autograd, need no GIL, and run beside the observers of torch.profiler. A start and its end are
 * always called as a pair and on one thread for the two kinds of functions chosen here, even if the
 * observer is removed in between; so scopes nest.
 *
 * torch's NVTX ranges are not used: their texts contain a number that makes each one unique, they
 * exclude torch.profiler, and each thread has to switch them on.
 *
 * torch has no C interface for this. Declared below is what its C++ functions expect, unchanged from
 * 2.0 to 2.14. A function with another name or other arguments is not found.
 */
#include "record_operators.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct record_function; /* at::RecordFunction */

/*
 * at::RecordFunctionCallback, which is passed by value in memory. `kinds` has at::RecordScope as its
 * index; torch's has 10 entries, before three flags. All of those but the two used are false.
 */
struct observer {
	void **(*start)(void **context, const struct record_function *function);
	void (*end)(const struct record_function *function, void *context);
	double probability;
	bool kinds[40];
};
enum { KIND_OPERATOR, KIND_BACKWARD };

static struct functions {
	uint64_t (*add)(struct observer o);
	void (*remove)(uint64_t handle);
	const char *(*name)(const struct record_function *function);
} torch; /* once found, always valid: an operator may end after operators_end() */

static struct operator_scopes scope;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;
static uint64_t handle;

/*
 * Sorted. Operators that make a view or allocate memory, and the nodes of modules' hooks: they launch
 * nothing themselves, and are 60 % of the operators of a training step.
 */
static const char *const without_work[] = {
	"BackwardHookFunction",
	"BackwardHookFunctionBackward",
	"_unsafe_view",
	"alias",
	"as_strided",
	"detach",
	"empty",
	"empty_like",
	"empty_strided",
	"expand",
	"narrow",
	"permute",
	"resize_",
	"resolve_conj",
	"resolve_neg",
	"select",
	"slice",
	"split",
	"squeeze",
	"t",
	"transpose",
	"unflatten",
	"unsqueeze",
	"view",
	"view_as",
};

static int compare_names(const void *name, const void *item)
{
	return strcmp(name, *(const char *const *)item);
}

/*
 * What autograd and torch.compile do around a node or a compiled function. Hooks of modules run in
 * it and begin scopes that outlast it, so it must not be a scope.
 */
static const char *const around[] = { "autograd::engine::", "Torch-Compiled Region" };

static bool is_scope(const char *name)
{
	static const char aten[] = "aten::";

	for (size_t i = 0; i < ARRAY_SIZE(around); i++)
		if (strncmp(name, around[i], strlen(around[i])) == 0)
			return false;
	if (strncmp(name, aten, strlen(aten)) == 0)
		name += strlen(aten);
	return !bsearch(name, without_work, ARRAY_SIZE(without_work), sizeof(*without_work),
			compare_names);
}

/* Returns an empty std::unique_ptr, whose place the caller provides. */
static void **on_start(void **context, const struct record_function *function)
{
	const char *name = torch.name(function);

	*context = NULL;
	if (is_scope(name))
		scope.begin(name);
	return context;
}

static void on_end(const struct record_function *function, void *context)
{
	(void)context;
	if (is_scope(torch.name(function)))
		scope.end();
}

static bool find_torch(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	struct functions found;

	if (!library)
		return false;
	*(void **)&found.add =
		dlsym(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
	*(void **)&found.remove = dlsym(library, "_ZN2at14removeCallbackEm");
	*(void **)&found.name = dlsym(library, "_ZNK2at14RecordFunction4nameEv");
	dlclose(library);
	if (!found.add || !found.remove || !found.name)
		return false;
	torch = found;
	return true;
}

const char *operators_begin(const struct operator_scopes *scopes, const char *path)
{
	const char *reason = NULL;

	pthread_mutex_lock(&lock);
	if (!users && !find_torch(path)) {
		reason = "this version of torch has no observers of operators that Pitot knows";
	} else if (users++ == 0) {
		struct observer o = { .start = on_start, .end = on_end, .probability = 1 };

		o.kinds[KIND_OPERATOR] = o.kinds[KIND_BACKWARD] = true;
		scope = *scopes;
		handle = torch.add(o);
	}
	pthread_mutex_unlock(&lock);
	return reason;
}

void operators_end(void)
{
	pthread_mutex_lock(&lock);
	if (--users == 0)
		torch.remove(handle);
	pthread_mutex_unlock(&lock);
}
