#include "capture/stack_capture.h"

#include <link.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/reserve.h"
#include "capture/log.h"
#include "stack/python/python_interrupted.h"
#include "stack/python/python_splice.h"
#include "stack/stack_cache.h"

#define PYTHON_LOOK_NS NS_PER_S /* between looks for an interpreter */

/* A Python that is ready to be walked; published once, never changed. */
struct python {
	struct python_runtime runtime;
	struct python_eval eval;
	struct python_codes *codes;
};

/* Where a thread makes a stack: too much for the stack that it runs on. Only what is used of it is ever there. */
struct launch_room {
	bool busy; /* with the stack of a call that a signal interrupted */
	uint64_t native[STACK_FRAMES_MAX], frames[STACK_FRAMES_MAX];
	struct python_frame python[STACK_FRAMES_MAX];
	struct ring_event event[1 + STACK_FRAMES_MAX / 4];
};

static struct {
	bool on; /* for the launch path */
	bool following; /* which modules there are */
	bool wants_python;
	struct stack_modules *modules;
	struct code_range skip[STACK_SKIP_MAX];
	unsigned skip_count;
	_Atomic(struct python *) python;
	char python_reason[256];
	uint64_t python_looked_ns;
	struct stack_interner interner;
	atomic_uint_fast64_t none, no_memory, unsure, ends[STACK_ENDS];
} self;

/* --- start --- */

static int note_skipped(struct dl_phdr_info *info, size_t size, void *user)
{
	static const char *const names[] = { "libpitot.so", "libcupti.so", "libcuda.so" };
	const char *name = info->dlpi_name ? base_name(info->dlpi_name) : NULL;

	(void)size;
	(void)user;
	for (size_t n = 0; name && n < ARRAY_SIZE(names); n++) {
		if (strncmp(name, names[n], strlen(names[n])) != 0)
			continue;
		for (int i = 0; i < info->dlpi_phnum && self.skip_count < STACK_SKIP_MAX; i++) {
			const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
			uint64_t start = info->dlpi_addr + ph->p_vaddr;

			if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X))
				self.skip[self.skip_count++] =
					(struct code_range){ start, start + ph->p_memsz };
		}
	}
	return 0;
}

bool stack_capture_start(const struct settings *settings)
{
	uint64_t limit = settings->stacks_max ? settings->stacks_max : STACKS_MAX;

	if (!settings->stacks && !settings->cpu)
		return false;
	if (!self.modules) {
		self.modules = aligned_alloc(_Alignof(struct stack_modules), sizeof(*self.modules));
		if (!self.modules)
			return false;
		memset(self.modules, 0, sizeof(*self.modules));
		stack_modules_init(self.modules, STACK_RULE_BYTES);
		stack_modules_update(self.modules, 0); /* a first map, no rules yet */
	}
	if (!self.interner.words &&
	    stack_interner_init(&self.interner, (uint32_t)MIN(limit, STACKS_MAX)) < 0)
		return false;
	self.skip_count = 0;
	dl_iterate_phdr(note_skipped, NULL);
	self.wants_python = (settings->stacks & SETTING_STACKS_PYTHON) ||
			    (settings->cpu && !(settings->stacks & SETTING_STACKS_NATIVE));
	self.on = settings->stacks != SETTING_STACKS_NONE;
	self.following = true;
	return true;
}

uint32_t stack_capture_max(void)
{
	return self.interner.limit;
}

/* --- the launch path --- */

/* A walker and a memo know the stack of one thread: for the ring's next thread they start afresh. */
static void start_walker(struct ring *r)
{
	struct stack_walker *w = r->walker;

	r->walker_claim = r->claims;
	if (!w)
		r->walker = w = reserve_memory(sizeof(*w));
	else if (w->slot >= 0)
		stack_walker_release(w);
	if (w && stack_walker_init(w, self.modules))
		stack_walker_skip(w, self.skip, self.skip_count);
	if (r->memo)
		stack_cache_reset(r->memo);
	else
		r->memo = reserve_memory(sizeof(*r->memo));
	if (!r->room)
		r->room = reserve_memory(sizeof(*r->room));
	if (r->room)
		r->room->busy = false;
}

/* NULL: no memory or no slot. */
static struct stack_walker *walker_of(struct ring *r)
{
	if (unlikely(r->walker_claim != r->claims))
		start_walker(r);
	return likely(r->walker && r->memo && r->room && r->walker->slot >= 0) ? r->walker : NULL;
}

/* Where the calling thread is in Python. */
static struct memo_python python_here(struct python *p)
{
	if (!p)
		return (struct memo_python){ .runtime = NULL };
	return (struct memo_python){ .runtime = &p->runtime,
				     .state = python_thread_state(&p->runtime),
				     .freed = python_codes_freed(p->codes) };
}

/* Native frames of the interpreter are replaced by the Python frames that they run. */
static unsigned splice(struct python *p, uintptr_t state, struct launch_room *room, unsigned count,
		       bool complete, enum python_match *match)
{
	struct python_stacks stacks = { .native = room->native,
					.native_count = count,
					.native_complete = complete,
					.python = room->python };
	unsigned n;

	*match = PYTHON_MATCH_NONE;
	if (state)
		stacks.python_count =
			python_walk_from(&p->runtime, state, room->python, STACK_FRAMES_MAX,
					 &stacks.python_complete);
	if (stacks.python_count == 0) {
		memcpy(room->frames, room->native, count * sizeof(*room->frames));
		return count;
	}
	python_code_ids(p->codes, room->python, stacks.python_count);
	n = python_splice(&p->eval, &stacks, room->frames, STACK_FRAMES_MAX, match);
	if (*match == PYTHON_MATCH_UNSURE)
		atomic_fetch_add_explicit(&self.unsure, 1, memory_order_relaxed);
	return MIN(n, STACK_FRAMES_MAX);
}

/* A stack that no thread has met before goes to the collector. */
static bool tell(void *context, uint32_t id, const uint64_t *frames, unsigned count,
		 enum stack_end end)
{
	struct ring *r = context;
	struct ring_event *event = r->room->event;

	event[0] = (struct ring_event){
		.c = id,
		.d = count,
		.e = (uint32_t)end,
		.kind = RING_STACK,
	};
	memcpy(&event[1], frames, count * sizeof(*frames));
	return ring_push(r, event, 1 + (count + 3) / 4);
}

static uint32_t walk_in_room(struct ring *r, struct python *p, const struct memo_python *where,
			     const struct stack_registers *registers)
{
	enum python_match match;
	enum stack_end end;
	unsigned count =
		stack_walk(r->walker, registers, r->room->native, STACK_FRAMES_MAX, &end);
	uint32_t id;

	if (count == 0) {
		atomic_fetch_add_explicit(&self.none, 1, memory_order_relaxed);
		return 0;
	}
	atomic_fetch_add_explicit(&self.ends[end], 1, memory_order_relaxed);
	count = splice(p, where->state, r->room, count, end == stack_end_complete, &match);
	id = stack_intern(&self.interner, r->room->frames, count, end, tell, r);
	if (id && end == stack_end_complete &&
	    (match == PYTHON_MATCH_NONE || match == PYTHON_MATCH_EXACT))
		stack_cache_add(r->memo, r->walker, registers, where, id);
	return id;
}

/* A stack that the thread's memo does not have. */
static __attribute__((noinline)) uint32_t walk_and_intern(struct ring *r, struct python *p,
							  const struct memo_python *where,
							  const struct stack_registers *registers)
{
	uint32_t id;

	if (r->room->busy) {
		atomic_fetch_add_explicit(&self.none, 1, memory_order_relaxed);
		return 0;
	}
	r->room->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	id = walk_in_room(r, p, where, registers);
	atomic_signal_fence(memory_order_seq_cst);
	r->room->busy = false;
	return id;
}

uint32_t stack_capture_take(struct ring *r)
{
	struct python *p = atomic_load_explicit(&self.python, memory_order_acquire);
	struct stack_registers registers;
	struct memo_python where;
	struct stack_walker *w;
	uint32_t id;

	if (!self.on)
		return 0;
	w = walker_of(r);
	if (unlikely(!w)) {
		atomic_fetch_add_explicit(&self.no_memory, 1, memory_order_relaxed);
		return 0;
	}
	where = python_here(p);
	STACK_CAPTURE(&registers);
	id = stack_cache_find(r->memo, w, &registers, &where);
	if (unlikely(!id))
		return walk_and_intern(r, p, &where, &registers);
	atomic_fetch_add_explicit(&self.ends[stack_end_complete], 1, memory_order_relaxed);
	return id;
}

/* --- CPU samples --- */

/* As splice(), of a thread that was interrupted anywhere. */
static unsigned splice_interrupted(struct stack_sampler *s, unsigned count, bool complete,
				   uint64_t *out)
{
	struct python *p = atomic_load_explicit(&self.python, memory_order_acquire);
	struct python_stacks in = { .native = s->native,
				    .native_count = count,
				    .native_complete = complete,
				    .python = s->python };
	enum python_match match;
	unsigned n;

	if (p)
		in.python_count = python_walk_interrupted(&p->runtime, s->python,
							  STACK_FRAMES_MAX, &in.python_complete);
	if (in.python_count == 0) {
		memcpy(out, s->native, count * sizeof(*out));
		return count;
	}
	if (complete && in.python_complete)
		in.python_count = python_align_interrupted(&p->eval, s->native, count, s->python,
							   in.python_count);
	python_code_ids(p->codes, s->python, in.python_count);
	n = python_splice(&p->eval, &in, out, STACK_FRAMES_MAX, &match);
	s->unsure_python += match == PYTHON_MATCH_UNSURE;
	return MIN(n, STACK_FRAMES_MAX);
}

unsigned stack_capture_sample(struct stack_sampler *s, const struct stack_registers *registers,
			      uint64_t *frames, enum stack_end *end)
{
	unsigned count;

	if (unlikely(!s->ready)) {
		s->ready = true;
		stack_walker_init(&s->walker, self.modules);
	}
	if (unlikely(s->walker.slot < 0))
		return 0;
	count = stack_walk(&s->walker, registers, s->native, STACK_FRAMES_MAX, end);
	return count ? splice_interrupted(s, count, *end == stack_end_complete, frames) : 0;
}

void stack_sampler_reset(struct stack_sampler *s)
{
	if (s->ready)
		stack_walker_release(&s->walker);
	s->ready = false;
}

uint32_t stack_capture_intern(const uint64_t *frames, unsigned count, enum stack_end end,
			      stack_take *take, void *context)
{
	return stack_intern(&self.interner, frames, count, end, take, context);
}

/* --- the collector's side --- */

static void look_for_python(void)
{
	struct error e = { 0 };
	struct python *p;
	int r;

	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	r = python_runtime_find(&p->runtime, &e);
	if (r == 0)
		r = python_eval_find(&p->runtime, &p->eval, &e);
	if (r == 0 && (p->codes = python_codes_new(PYTHON_CODES_SLOTS, PYTHON_CODES_BYTES))) {
		python_codes_attach(p->codes, &p->runtime);
		atomic_store_explicit(&self.python, p, memory_order_release);
		log_line("python %x found", p->runtime.version);
		return;
	}
	free(p);
	memcpy(self.python_reason, e.text, sizeof(self.python_reason) - 1);
	if (r != -ENOENT)
		self.wants_python = false;
}

bool stack_capture_update(uint64_t budget_ns)
{
	uint64_t now;

	if (!self.following)
		return false;
	now = clock_monotonic_ns();
	if (self.wants_python && !atomic_load(&self.python) &&
	    (self.python_looked_ns == 0 || now - self.python_looked_ns > PYTHON_LOOK_NS)) {
		self.python_looked_ns = now;
		look_for_python();
	}
	return stack_modules_update(self.modules, budget_ns) > 0;
}

struct python_codes *stack_capture_codes(void)
{
	struct python *p = atomic_load(&self.python);

	return p ? p->codes : NULL;
}

uint32_t stack_capture_python_version(void)
{
	struct python *p = atomic_load(&self.python);

	return p ? p->runtime.version : 0;
}

const char *stack_capture_python_reason(void)
{
	return self.python_reason;
}

void stack_capture_counts(struct stack_capture_counts *counts)
{
	*counts = (struct stack_capture_counts){
		.none = atomic_load(&self.none),
		.no_memory = atomic_load(&self.no_memory),
		.table_full = atomic_load(&self.interner.refused),
		.unsure_python = atomic_load(&self.unsure),
	};
	for (unsigned i = 0; i < ARRAY_SIZE(counts->ends); i++) {
		counts->ends[i] = atomic_load(&self.ends[i]);
		counts->taken += counts->ends[i];
	}
	if (self.modules) {
		counts->parts = atomic_load(&self.modules->parts);
		counts->rule_bytes = self.modules->store.bytes;
		counts->build_ns = self.modules->build_ns;
	}
}

void stack_capture_after_fork(void)
{
	self.on = self.following = false;
	if (self.modules)
		stack_modules_after_fork(self.modules);
	if (self.interner.words)
		stack_interner_release(&self.interner);
	memset(&self.interner, 0, sizeof(self.interner));
	atomic_store(&self.python, NULL); /* found again; its memory stays */
	self.python_looked_ns = 0;
	atomic_store(&self.none, 0);
	atomic_store(&self.no_memory, 0);
	atomic_store(&self.unsure, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(self.ends); i++)
		atomic_store(&self.ends[i], 0);
}
