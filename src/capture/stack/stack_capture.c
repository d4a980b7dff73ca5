#include "capture/stack/stack_capture.h"

#include <string.h>

#include "base/clock.h"
#include "base/counter.h"
#include "base/path.h"
#include "base/reserve.h"
#include "base/starts_with.h"
#include "capture/core/log.h"
#include "elf/loaded_libraries.h"
#include "stack/python/python_splice.h"
#include "stack/stack_cache.h"
#include "vendor/vendors.h"

#define PYTHON_SEARCH_NS NS_PER_S /* between searches for an interpreter */
#define RENEW_NS (100 * NS_PER_MS) /* shortest life of a generation */

/* A Python that can be walked; immutable once published. */
struct python {
	struct python_runtime runtime;
	struct python_eval eval;
	struct python_codes *codes;
};

/*
 * Tables of ids can only be filled. When a generation's tables are nearly full, the collector
 * publishes the next generation, which threads use from their next stack on. Ids of stacks and code
 * objects are never reused. The last two generations are retained, for stacks on their way to the
 * collector. The memory of older ones is returned but their address ranges are not, so that a
 * thread that was stopped all that time reads zeros and gets no id.
 */
struct stack_generation {
	struct stack_generation *older;
	uint32_t number; /* of the generation: the bits of its ids above STACK_TABLE_ID_BITS */
	struct stack_interner interner;
	_Atomic(struct python *) python; /* with this generation's codes */
};

/* One slot for each thread with a ring and each sampled thread: no live thread lacks one. */

/*
 * A thread's working memory for stacks. It belongs to the ring and is passed on with it from thread
 * to thread, counts included. Unused pages are never touched.
 */
struct stack_maker {
	struct stack_maker *next; /* list of all makers */
	uint32_t claim; /* the ring's claim number of the thread that walker and cache know */
	bool busy; /* walking; a signal handler that interrupts this must not walk */
	atomic_uint_fast64_t none, python_unmatched, ends[STACK_ENDS];
	uint64_t native[STACK_NATIVE_MAX], frames[STACK_FRAMES_MAX];
	struct python_frame python[STACK_PYTHON_MAX];
	struct ring_event event[1 + STACK_FRAMES_MAX / 4];
	struct stack_walker walker;
	struct stack_cache cache;
};

static struct {
	atomic_bool on; /* for the launch path */
	atomic_bool follows_modules; /* the list of modules is kept up to date */
	atomic_bool wants_python; /* some session needs Python frames */
	atomic_bool has_searched; /* the process was searched for an interpreter */
	bool has_no_python; /* permanently; python_reason says why */
	_Atomic(struct stack_modules *) modules; /* set by the first session, never freed */
	struct code_range skip[STACK_SKIP_MAX];
	atomic_uint skip_count;
	atomic_uint limit; /* stacks per generation */
	_Atomic(struct stack_generation *) generation;
	bool renew; /* the current generation is to end */
	uint64_t renewed_ns;
	uint64_t expired; /* sampled stacks whose generation is gone */
	char python_reason[256];
	uint64_t python_searched_ns;
	_Atomic(struct stack_maker *) makers;
	atomic_uint_fast64_t no_memory;
} self;

/* --- start --- */

/* Static and never freed: the tables of many sessions would fragment the heap. */
static struct stack_generation generations[UINT32_MAX >> STACK_TABLE_ID_BITS];

static struct stack_generation *generation_new(uint32_t number)
{
	struct stack_generation *g = &generations[number];

	*g = (struct stack_generation){ .number = number };
	return stack_interner_init(&g->interner, self.limit, number << STACK_TABLE_ID_BITS) < 0
		       ? NULL
		       : g;
}

static void add_skipped(uint64_t start, uint64_t end)
{
	unsigned count = atomic_load(&self.skip_count);

	for (unsigned i = 0; i < count; i++)
		if (self.skip[i].start == start)
			return;
	if (count == STACK_SKIP_MAX)
		return;
	self.skip[count] = (struct code_range){ start, end };
	atomic_store(&self.skip_count, count + 1);
}

/*
 * Finds the libraries whose frames are left out of launch stacks. Some are loaded later than the
 * first session, with a GPU's runtime.
 */
static int find_skipped(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *path = info->dlpi_name ?: "";

	(void)size;
	(void)user;
	if (!vendor_is_below_calls(path) && !starts_with(base_name(path), "libpitot.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_X))
			add_skipped(start, start + ph->p_memsz);
	}
	return 0;
}

/* Returns false without memory. A running collector sees the modules complete or not at all. */
static bool find_modules(void)
{
	struct stack_modules *m = aligned_alloc(_Alignof(struct stack_modules), sizeof(*m));

	if (!m)
		return false;
	memset(m, 0, sizeof(*m));
	stack_modules_init(m, STACK_RULE_BYTES);
	stack_modules_update(m, 0); /* a first map, no rules yet */
	atomic_store(&self.modules, m);
	return true;
}

bool stack_capture_start(const struct settings *settings)
{
	uint64_t limit = settings->stacks_max ? settings->stacks_max : STACKS_MAX;

	if (!settings->stacks && !settings->cpu)
		return false;
	if (!atomic_load(&self.modules) && !find_modules())
		return false;
	self.limit = (uint32_t)MIN(limit, STACKS_MAX);
	if (!atomic_load(&self.generation))
		atomic_store(&self.generation, generation_new(0));
	if (!atomic_load(&self.generation))
		return false;
	loaded_libraries_visit(find_skipped, NULL);
	self.follows_modules = true;
	stack_capture_window(settings);
	return true;
}

static bool needs_python_frames(const struct settings *settings)
{
	return (settings->stacks & SETTING_STACKS_PYTHON) ||
	       (settings->cpu && !(settings->stacks & SETTING_STACKS_NATIVE));
}

bool stack_capture_waits_for_python(const struct settings *settings)
{
	return self.follows_modules && needs_python_frames(settings) && !self.has_searched;
}

void stack_capture_window(const struct settings *settings)
{
	self.wants_python = settings && needs_python_frames(settings);
	self.on = settings && settings->stacks != SETTING_STACKS_NONE && self.follows_modules;
}

uint32_t stack_capture_max(void)
{
	return self.limit;
}

/* --- the launch path --- */

static struct python *current_python(void)
{
	struct stack_generation *g = atomic_load_explicit(&self.generation, memory_order_acquire);

	return g ? atomic_load_explicit(&g->python, memory_order_acquire) : NULL;
}

/* Also returns NULL while no session needs Python frames. */
static struct python *python_if_requested(const struct stack_generation *g)
{
	if (!g || !atomic_load_explicit(&self.wants_python, memory_order_relaxed))
		return NULL;
	return atomic_load_explicit(&g->python, memory_order_acquire);
}

/* Makes the maker of a ring that has none. NULL: no memory. */
static struct stack_maker *maker_new(void)
{
	struct stack_maker *m = reserve_memory(sizeof(*m));

	if (!m)
		return NULL;
	m->walker.slot = -1;
	m->next = atomic_load_explicit(&self.makers, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&self.makers, &m->next, m,
						      memory_order_release, memory_order_relaxed))
		;
	return m;
}

/*
 * The walker and the cache know one thread's stack: they start afresh for the ring's next thread.
 */
static void maker_reset(struct stack_maker *m, uint32_t claim)
{
	m->claim = claim;
	m->busy = false;
	if (m->walker.slot >= 0)
		stack_walker_release(&m->walker);
	if (stack_walker_init(&m->walker, self.modules))
		stack_walker_skip(&m->walker, self.skip, self.skip_count);
	stack_cache_reset(&m->cache);
}

/* Returns the ring's maker; NULL: no memory or no slot. */
static struct stack_maker *maker_of(struct ring *r)
{
	struct stack_maker *m = r->stacks;

	if (unlikely(!m))
		r->stacks = m = maker_new();
	if (unlikely(m && m->claim != r->claims))
		maker_reset(m, r->claims);
	return likely(m && m->walker.slot >= 0) ? m : NULL;
}

/* Describes the calling thread's position in Python. */
static struct cache_python python_position(const struct stack_generation *g, struct python *p)
{
	if (!p)
		return (struct cache_python){ .ids = g->number };
	return (struct cache_python){ .runtime = &p->runtime,
				      .state = python_thread_state(&p->runtime),
				      .freed = python_codes_freed(p->codes),
				      .ids = g->number };
}

/*
 * Replaces the interpreter's native frames by the Python frames that they run. *end: how the native
 * stack ends, then how the result does.
 */
static unsigned splice(struct python *p, uintptr_t state, struct stack_maker *m, unsigned count,
		       enum stack_end *end, enum python_match *match)
{
	struct python_stacks stacks = { .native = m->native,
					.native_count = count,
					.native_complete = *end == stack_end_complete,
					.python = m->python };
	unsigned n;

	*match = PYTHON_MATCH_NONE;
	if (state)
		stacks.python_count = python_walk_from(&p->runtime, state, m->python,
						       STACK_PYTHON_MAX, &stacks.python_complete);
	if (stacks.python_count == 0) {
		memcpy(m->frames, m->native, count * sizeof(*m->frames));
		return count;
	}
	python_code_ids(p->codes, m->python, stacks.python_count);
	n = python_splice(&p->eval, &stacks, m->frames, STACK_FRAMES_MAX, match);
	*end = python_splice_end(&stacks, *end, n, STACK_FRAMES_MAX);
	if (*match == PYTHON_MATCH_UNSURE)
		counter_add(&m->python_unmatched, 1);
	return MIN(n, STACK_FRAMES_MAX);
}

/* Transfers a stack that no thread has seen before to the collector. */
static bool push_stack(void *context, uint32_t id, const uint64_t *frames, unsigned count,
		       enum stack_end end)
{
	struct ring *r = context;
	struct ring_event *event = r->stacks->event;

	event[0] = (struct ring_event){
		.c = id,
		.d = count,
		.e = (uint32_t)end,
		.kind = RING_STACK,
	};
	memcpy(&event[1], frames, count * sizeof(*frames));
	return ring_push(r, event, 1 + (count + 3) / 4);
}

static uint32_t walk_and_intern(struct ring *r, struct stack_generation *g, struct python *p,
				const struct cache_python *where,
				const struct stack_registers *registers)
{
	struct stack_maker *m = r->stacks;
	enum python_match match;
	enum stack_end end;
	unsigned count = stack_walk(&m->walker, registers, m->native, STACK_NATIVE_MAX, &end);
	uint32_t id;

	if (count == 0) {
		counter_add(&m->none, 1);
		return 0;
	}
	count = splice(p, where->state, m, count, &end, &match);
	counter_add(&m->ends[end], 1);
	id = stack_intern(&g->interner, m->frames, count, end, push_stack, r);
	if (id && end == stack_end_complete &&
	    (match == PYTHON_MATCH_NONE || match == PYTHON_MATCH_EXACT))
		stack_cache_add(&m->cache, &m->walker, registers, where, id);
	return id;
}

/* Returns the id of the stack. The ring's maker must belong to this thread and be marked busy. */
ALWAYS_INLINE uint32_t find_or_walk(struct ring *r, const struct stack_registers *registers)
{
	struct stack_generation *g = atomic_load_explicit(&self.generation, memory_order_acquire);
	struct python *p = python_if_requested(g);
	struct cache_python where = python_position(g, p);
	struct stack_maker *m = r->stacks;
	uint32_t id = stack_cache_find(&m->cache, &m->walker, registers, &where);

	if (unlikely(!id))
		return walk_and_intern(r, g, p, &where, registers);
	counter_add(&m->ends[stack_end_complete], 1);
	return id;
}

uint32_t stack_capture_call(struct ring *r)
{
	struct stack_registers registers;
	struct stack_maker *m;
	uint32_t id;

	if (!atomic_load_explicit(&self.on, memory_order_relaxed))
		return 0;
	m = maker_of(r);
	if (unlikely(!m)) {
		atomic_fetch_add_explicit(&self.no_memory, 1, memory_order_relaxed);
		return 0;
	}
	if (unlikely(m->busy)) {
		counter_add(&m->none, 1);
		return 0;
	}
	m->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	STACK_CAPTURE(&registers);
	id = find_or_walk(r, &registers);
	atomic_signal_fence(memory_order_seq_cst);
	m->busy = false;
	return id;
}

/* --- CPU samples --- */

/* Does what splice() does, for a thread that was interrupted at any point. */
static unsigned splice_interrupted(struct stack_sampler *s, unsigned count, uint64_t *out,
				   enum stack_end *end)
{
	struct python *p =
		python_if_requested(atomic_load_explicit(&self.generation, memory_order_acquire));
	struct python_stacks in = { .native = s->native,
				    .native_count = count,
				    .native_complete = *end == stack_end_complete,
				    .python = s->python };
	enum python_match match;
	unsigned n;

	if (p)
		in.python_count = python_walk_interrupted(&p->runtime, s->python, STACK_PYTHON_MAX,
							  &in.python_complete);
	if (in.python_count == 0) {
		memcpy(out, s->native, count * sizeof(*out));
		return count;
	}
	if (in.native_complete && in.python_complete)
		in.python_count = python_align_interrupted(&p->eval, s->native, count, s->python,
							   in.python_count);
	python_code_ids(p->codes, s->python, in.python_count);
	n = python_splice(&p->eval, &in, out, STACK_FRAMES_MAX, &match);
	*end = python_splice_end(&in, *end, n, STACK_FRAMES_MAX);
	if (match == PYTHON_MATCH_UNSURE)
		counter_add(&s->python_unmatched, 1);
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
	count = stack_walk(&s->walker, registers, s->native, STACK_NATIVE_MAX, end);
	return count ? splice_interrupted(s, count, frames, end) : 0;
}

void stack_sampler_reset(struct stack_sampler *s)
{
	if (s->ready)
		stack_walker_release(&s->walker);
	s->ready = false;
}

/* --- the collector's side --- */

/*
 * Returns the generation whose tables issued the code id of the first Python frame, or the current
 * one if there is no Python frame. NULL: that generation is gone.
 */
static struct stack_generation *generation_of_frames(const uint64_t *frames, unsigned count)
{
	struct stack_generation *current = atomic_load(&self.generation), *g = current;
	uint32_t code = 0;

	for (unsigned i = 0; i < count && !code; i++)
		code = frames[i] & FRAME_PYTHON ? python_frame_code(frames[i]) : 0;
	if (!code)
		return current;
	for (; g && current->number - g->number < STACK_GENERATIONS; g = g->older) {
		struct python *p = atomic_load(&g->python);

		if (p && python_codes_gives(p->codes, code))
			return g;
	}
	return NULL;
}

uint32_t stack_capture_intern(const uint64_t *frames, unsigned count, enum stack_end end,
			      stack_take *take, void *context)
{
	struct stack_generation *g = generation_of_frames(frames, count);

	self.expired += !g;
	return g ? stack_intern(&g->interner, frames, count, end, take, context) : 0;
}

/* Gives `g` the same Python with its own table of codes. false: no memory, or no ids left. */
static bool renew_python(struct stack_generation *g, const struct python *before)
{
	struct python *p = malloc(sizeof(*p));

	if (!p)
		return false;
	*p = *before;
	p->codes = python_codes_next(before->codes);
	if (!p->codes) {
		free(p);
		return false;
	}
	atomic_store(&g->python, p);
	return true;
}

static void release_generation(struct stack_generation *g)
{
	struct python *p = atomic_load(&g->python);

	stack_interner_forget(&g->interner);
	if (p)
		python_codes_forget(p->codes);
}

/* Begins the next generation. If that fails, new stacks are refused until an attempt succeeds. */
static void begin_generation(struct stack_generation *g)
{
	struct python *p = atomic_load(&g->python);
	struct stack_generation *next = NULL;

	if (g->number + 1 < ARRAY_SIZE(generations))
		next = generation_new(g->number + 1);
	if (!next)
		return;
	if (p && !renew_python(next, p)) {
		stack_interner_release(&next->interner);
		return;
	}
	next->older = g;
	if (g->older)
		release_generation(g->older);
	self.renew = false;
	atomic_store_explicit(&self.generation, next, memory_order_release);
	log_line("stacks: generation %u", next->number);
}

void stack_capture_begin(void)
{
	struct stack_generation *g = atomic_load(&self.generation);

	if (g)
		begin_generation(g);
}

static void renew(uint64_t now)
{
	struct stack_generation *g = atomic_load(&self.generation);
	struct python *p = atomic_load(&g->python);

	if (now - self.renewed_ns < RENEW_NS ||
	    (!self.renew && !stack_interner_nearly_full(&g->interner) &&
	     !(p && python_codes_nearly_full(p->codes))))
		return;
	self.renewed_ns = now;
	begin_generation(g);
}

void stack_capture_renew(uint32_t id)
{
	if (atomic_load(&self.generation)->number == id >> STACK_TABLE_ID_BITS)
		self.renew = true;
}

static void find_python(void)
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
		atomic_store_explicit(&atomic_load(&self.generation)->python, p,
				      memory_order_release);
		log_line("python %x found", p->runtime.version);
		return;
	}
	free(p);
	memcpy(self.python_reason, e.text, sizeof(self.python_reason) - 1);
	self.has_no_python = r != -ENOENT;
}

bool stack_capture_update(uint64_t budget_ns)
{
	uint64_t now;

	if (!self.follows_modules)
		return false;
	now = clock_monotonic_ns();
	if (self.wants_python && !self.has_no_python && !current_python() &&
	    (self.python_searched_ns == 0 || now - self.python_searched_ns > PYTHON_SEARCH_NS)) {
		self.python_searched_ns = now;
		find_python();
		self.has_searched = true;
	}
	renew(now);
	return stack_modules_update(self.modules, budget_ns) > 0;
}

struct python_codes *stack_capture_codes(void)
{
	struct python *p = current_python();

	return p ? p->codes : NULL;
}

struct python_codes *stack_capture_codes_of(uint32_t id)
{
	struct stack_generation *g = atomic_load(&self.generation);
	struct python *p;

	while (g && g->number != id >> STACK_TABLE_ID_BITS)
		g = g->older;
	p = g ? atomic_load(&g->python) : NULL;
	return p ? p->codes : NULL;
}

uint32_t stack_capture_python_version(void)
{
	struct python *p = current_python();

	return p ? p->runtime.version : 0;
}

const char *stack_capture_python_reason(void)
{
	return self.python_reason;
}

static void add_counts(const struct stack_maker *m, struct stack_capture_counts *counts)
{
	counts->none += atomic_load_explicit(&m->none, memory_order_relaxed);
	counts->python_unmatched +=
		atomic_load_explicit(&m->python_unmatched, memory_order_relaxed);
	for (unsigned i = 0; i < STACK_ENDS; i++)
		counts->ends[i] += atomic_load_explicit(&m->ends[i], memory_order_relaxed);
}

static void add_losses(const struct stack_generation *g, struct stack_capture_counts *counts)
{
	const struct python *p = atomic_load(&g->python);
	struct python_code_losses lost;

	counts->table_full += atomic_load_explicit(&g->interner.refused, memory_order_relaxed);
	if (!p)
		return;
	lost = python_code_losses(p->codes);
	counts->python.no_slot += lost.no_slot;
	counts->python.no_room += lost.no_room;
	counts->python.not_code += lost.not_code;
	counts->python.bad_strings += lost.bad_strings;
	counts->python.cut_names += lost.cut_names;
	counts->python.no_lines += lost.no_lines;
}

void stack_capture_counts(struct stack_capture_counts *counts)
{
	const struct stack_maker *m = atomic_load_explicit(&self.makers, memory_order_acquire);
	const struct stack_generation *g = atomic_load(&self.generation);
	const struct stack_modules *modules = atomic_load(&self.modules);

	*counts = (struct stack_capture_counts){
		.no_memory = atomic_load(&self.no_memory),
		.table_full = self.expired,
	};
	for (; m; m = m->next)
		add_counts(m, counts);
	for (; g; g = g->older)
		add_losses(g, counts);
	for (unsigned i = 0; i < STACK_ENDS; i++)
		counts->walked += counts->ends[i];
	if (modules) {
		counts->parts = atomic_load(&modules->parts);
		counts->rule_bytes = modules->store.bytes;
		counts->build_ns = modules->build_ns;
	}
}

void stack_capture_after_fork(void)
{
	self.on = self.follows_modules = self.has_searched = false;
	if (atomic_load(&self.modules))
		stack_modules_after_fork(atomic_load(&self.modules));
	/* Their memory is leaked: the collector may have been using it. */
	atomic_store(&self.generation, NULL);
	self.renew = false;
	self.renewed_ns = self.expired = 0;
	self.python_searched_ns = 0;
	atomic_store(&self.makers, NULL); /* rings drop theirs */
	atomic_store(&self.no_memory, 0);
}
