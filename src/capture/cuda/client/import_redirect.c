#include "capture/cuda/client/import_redirect.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "arch/processor.h"
#include "base/path.h"
#include "capture/cuda/vendor.h"
#include "capture/core/park.h"
#include "elf/loaded_libraries.h"
#include "elf/slot_writer.h"

#define PENDING 256u /* libraries; if there are more, the next pass visits all */
#define VISITS_MAX 16u /* of a library whose slots lead to other functions */

/* The trampolines at the end of this file, and the symbols that they refer to. */
extern void *client_proxy_dlsym(void *, const char *),
	*client_proxy_dlvsym(void *, const char *, const char *),
	*client_proxy_dlopen(const char *, int);
__attribute__((used, visibility("hidden"))) void *redirect_real_dlsym, *redirect_real_dlvsym,
	*redirect_real_dlopen;
__attribute__((used, visibility("hidden"))) void *redirect_dlsym(void *handle, const char *name);
__attribute__((used, visibility("hidden"))) void *redirect_dlvsym(void *handle, const char *name,
								  const char *version);
__attribute__((used, visibility("hidden"))) void *redirect_dlopen(const char *path, int flags);
__attribute__((used, visibility("hidden"))) int redirect_is_path(const char *name);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one pass at a time */

static struct {
	_Atomic(const struct redirected *) functions; /* NULL: not yet; set last */
	atomic_uint count;
	struct redirected loader[3];
	uintptr_t own; /* an address in libpitot.so, and one in CUPTI */
	uintptr_t cupti;
	_Atomic(const char *) path; /* CUPTI's */
	atomic_uint version;
	/* loader's count at the latest pass: libraries loaded since are new; 0: all are new */
	atomic_ullong adds;
	struct pending {
		struct {
			uintptr_t base;
			unsigned visits;
		} libraries[PENDING];
		unsigned count;
	} pending, /* libraries with slots that could not be changed, and those of this pass */
		next;
	atomic_bool settled; /* no library is pending */
} self;

/* A pass over one library. */
struct visit {
	struct slot_writer writer;
	bool again; /* it must be visited in the next pass, too */
};

/* --- one slot --- */

static const struct redirected *find_redirected(const char *name)
{
	if (name[0] == 'd')
		for (unsigned i = 0; i < ARRAY_SIZE(self.loader); i++)
			if (strcmp(self.loader[i].name, name) == 0)
				return &self.loader[i];
	if (name[0] != 'c' || strncmp(name, "cupti", 5) != 0)
		return NULL;
	for (unsigned i = 0; i < self.count; i++)
		if (self.functions[i].real && strcmp(self.functions[i].name, name) == 0)
			return &self.functions[i];
	return NULL;
}

static void change_slot(uintptr_t *slot, const char *name, uint64_t addend, void *user)
{
	const struct redirected *r = find_redirected(name);
	struct visit *v = user;
	uintptr_t value;

	if (!r || (r->ours == (void *)client_proxy_dlopen && v->writer.library->has_rpath))
		return;
	value = __atomic_load_n(slot, __ATOMIC_RELAXED);
	if (value == (uintptr_t)r->ours + addend)
		return;
	v->again = true;
	/* Otherwise it leads to another tool or another CUPTI, or is not relocated yet. */
	if (value == (uintptr_t)r->real + addend ||
	    (!addend && loaded_library_has(v->writer.library, value)))
		slot_writer_set(&v->writer, slot, (uintptr_t)r->ours + addend);
}

/* --- one library --- */

static bool is_left_alone(const char *path)
{
	static const char *const prefixes[] = { "ld-linux",    "libc.so",         "libpthread.so",
						"libdl.so",    "libcuda.so",      "libnvidia-",
						"libcupti.so", "libcudadebugger", "libnvperf_",
						"linux-vdso" };
	const char *name = base_name(path);

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

/* Returns how many of the latest passes, without interruption, have visited the library. */
static unsigned visits_of(uintptr_t base)
{
	for (unsigned i = 0; i < self.pending.count; i++)
		if (self.pending.libraries[i].base == base)
			return self.pending.libraries[i].visits;
	return 0;
}

static bool is_pending(uintptr_t base, void *unused)
{
	(void)unused;
	return visits_of(base) > 0;
}

/* Returns false if nothing more is to be done, ever. */
static bool change_library(const struct dl_phdr_info *info, bool *is_unfinished)
{
	struct loaded_library library;
	struct visit v = { .writer = { .library = &library } };

	*is_unfinished = false;
	if (!loaded_library_read(info, &library) || loaded_library_has(&library, self.own) ||
	    loaded_library_has(&library, self.cupti))
		return false;
	import_slots_visit(&library, change_slot, &v);
	slot_writer_end(&v.writer);
	*is_unfinished = v.writer.is_unfinished;
	return v.again;
}

/* The loader keeps the library while this runs, and none of its functions is called here. */
static int visit_library(struct dl_phdr_info *info, size_t size, void *user)
{
	unsigned visits = MAX(visits_of(info->dlpi_addr), 1);
	bool *is_complete = user, is_unfinished;

	(void)size;
	if (park_is_requested()) { /* the child would inherit the loader's lock, locked forever */
		*is_complete = false;
		return 1;
	}
	if (is_left_alone(info->dlpi_name) || !change_library(info, &is_unfinished))
		return 0;
	visits += !is_unfinished;
	if (visits > VISITS_MAX)
		return 0;
	if (self.next.count < PENDING) {
		self.next.libraries[self.next.count].base = info->dlpi_addr;
		self.next.libraries[self.next.count].visits = visits;
	}
	self.next.count++;
	return 0;
}

/* Visits the libraries that are new since the last pass, and those that were not ready then. */
static void pass(void)
{
	unsigned long long adds;
	bool is_complete = true;

	pthread_mutex_lock(&lock);
	/* Libraries loaded from now on are new to the next pass, even if this one sees them. */
	adds = loaded_library_counts().adds;
	self.next.count = 0;
	loaded_libraries_visit_since(self.adds, is_pending, visit_library, &is_complete);
	if (is_complete) {
		atomic_store(&self.settled, !self.next.count);
		atomic_store(&self.adds, self.next.count > PENDING ? 0 : adds);
		self.pending = self.next;
		self.pending.count = MIN(self.next.count, PENDING);
	}
	pthread_mutex_unlock(&lock);
}

void import_redirect_start(const struct redirected *functions, unsigned count, const char *path,
			   uint32_t version)
{
	pthread_mutex_lock(&lock);
	redirect_real_dlsym = (void *)dlsym;
	redirect_real_dlvsym = (void *)dlvsym;
	redirect_real_dlopen = (void *)dlopen;
	self.loader[0] =
		(struct redirected){ "dlsym", (void *)client_proxy_dlsym, redirect_real_dlsym };
	self.loader[1] =
		(struct redirected){ "dlvsym", (void *)client_proxy_dlvsym, redirect_real_dlvsym };
	self.loader[2] =
		(struct redirected){ "dlopen", (void *)client_proxy_dlopen, redirect_real_dlopen };
	self.own = (uintptr_t)&self;
	self.cupti = (uintptr_t)functions[0].real;
	if (self.count != count)
		atomic_store(&self.adds, 0); /* more functions are redirected than before */
	self.count = count;
	self.path = path;
	self.version = version;
	self.functions = functions;
	pthread_mutex_unlock(&lock);
	pass();
}

void import_redirect_update(void)
{
	if (self.functions && (!atomic_load(&self.settled) ||
			       loaded_library_counts().adds != atomic_load(&self.adds)))
		pass();
}

void import_redirect_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

/* --- replacements of the loader's functions --- */

static void *redirected_to(void *found)
{
	for (unsigned i = 0; found && i < self.count; i++)
		if (self.functions[i].real == found)
			return self.functions[i].ours;
	return found;
}

void *redirect_dlsym(void *handle, const char *name)
{
	return redirected_to(dlsym(handle, name));
}

void *redirect_dlvsym(void *handle, const char *name, const char *version)
{
	return redirected_to(dlvsym(handle, name, version));
}

int redirect_is_path(const char *name)
{
	return name && strchr(name, '/') && !strchr(name, '$');
}

/*
 * A client may bring its own CUPTI, as Triton does, but the driver serves only one. The client gets
 * the shared one, whose records it can read if that is not older: records only grow at their ends
 * from version to version.
 */
static void *shared_cupti(void *handle)
{
	__typeof__(cuptiGetVersion) *read = NULL;
	void *shared = self.path ? dlopen(self.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	uint32_t version;

	*(void **)&read = dlsym(handle, "cuptiGetVersion");
	if (shared && shared != handle && read && read(&version) == CUPTI_SUCCESS &&
	    version <= self.version)
		return shared;
	if (shared)
		dlclose(shared);
	return handle;
}

void *redirect_dlopen(const char *path, int flags)
{
	unsigned long long before = loaded_library_counts().adds;
	void *handle = dlopen(path, flags);

	if (handle && loaded_library_counts().adds != before)
		pass();
	if (handle && strncmp(base_name(path), "libcupti.so", strlen("libcupti.so")) == 0)
		return shared_cupti(handle);
	return handle;
}

/* A jump preserves the return address, by which the loader identifies its caller. */
__asm__(".pushsection .text\n" ARCH_PASS_HANDLE(client_proxy_dlsym, redirect_dlsym,
						redirect_real_dlsym)
		ARCH_PASS_HANDLE(client_proxy_dlvsym, redirect_dlvsym, redirect_real_dlvsym)
			ARCH_PASS_IF(client_proxy_dlopen, redirect_is_path, redirect_dlopen,
				     redirect_real_dlopen) ".popsection\n");
