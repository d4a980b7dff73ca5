/* The process's tape, and its answers by function, arguments and place. */
#include "standin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/map.h"

_Atomic(uintptr_t) standin_current_context;
__thread bool standin_capturing;

#define SCRIPT_BYTES_MAX (1u << 20)

/* Answers to one question, and texts behind one pointer, are linked in order of the tape. */
struct link {
	size_t from; /* valid from this record on */
	size_t record; /* RESULT or STRING */
	size_t next; /* index into links + 1; 0: last */
};

/* CUPTI's clock at a point in time. */
struct clock_pair {
	uint64_t monotonic;
	int64_t offset; /* CUPTI's clock minus CLOCK_MONOTONIC */
};

static struct {
	struct tape tape;
	bool open;
	VEC(struct link) links;
	struct map answers, texts; /* hash of the question, or pointer -> first link, last link */
	struct map answers_last, texts_last;
	bool has[TAPE_FUNCTION_LIMIT]; /* answers of the function */
	size_t last_event; /* the last record that is played */
	struct map functions; /* domain << 32 | cbid -> id of its name */
	VEC(struct clock_pair) clock;
} self;

static pthread_mutex_t place_lock = PTHREAD_MUTEX_INITIALIZER;
static struct place latest;
static bool has_place; /* a record has been played */
static __thread struct place here;
static __thread bool playing;

static uint64_t question(unsigned function, const uint64_t *arguments, unsigned count)
{
	uint64_t words[1 + TAPE_ARGUMENTS_MAX] = { function };

	if (count)
		memcpy(words + 1, arguments, count * sizeof(*arguments));
	return hash_bytes(words, (1 + count) * sizeof(*words));
}

static int append(struct map *first, struct map *last, uint64_t key, size_t from, size_t record)
{
	uint64_t previous;

	if (vec_push(&self.links, ((struct link){ from, record, 0 })) < 0)
		return -1;
	if (map_get(last, key, &previous))
		self.links.data[previous].next = self.links.count;
	else if (map_put(first, key, self.links.count - 1) < 0)
		return -1;
	return map_put(last, key, self.links.count - 1);
}

static int note_function(const struct tape_record *record)
{
	struct tape_event e;
	uint64_t *id;

	if (!tape_get_event(record, &e) || !e.function)
		return 0;
	id = map_at(&self.functions, (uint64_t)e.domain << 32 | e.cbid, e.function);
	return id ? 0 : -1;
}

static int note_clock(uint64_t time, const struct tape_call *call)
{
	uint64_t at = time + call->duration_ns / 2;

	if (call->function != TAPE_cuptiGetTimestamp || call->result ||
	    call->output_length != sizeof(uint64_t))
		return 0;
	if (self.clock.count && self.clock.data[self.clock.count - 1].monotonic >= at)
		return 0;
	return vec_push(&self.clock,
			((struct clock_pair){ at, (int64_t)(load_u64(call->output) - at) }));
}

/* The answer to a question asked inside a callback is valid from that callback on. */
static int build_index(void)
{
	size_t *inside =
		calloc(self.tape.threads + 1, sizeof(*inside)); /* a thread's last callback */
	int r = inside ? 0 : -1;

	for (size_t i = 0; i < self.tape.records.count && r == 0; i++) {
		const struct tape_record *record = &self.tape.records.data[i];
		struct tape_string string;
		struct tape_call call;

		if (record->type == TAPE_CALLBACK || record->type == TAPE_BUFFER_COMPLETE ||
		    record->type == TAPE_NVTX)
			self.last_event = i;
		if (record->type == TAPE_CALLBACK || record->type == TAPE_BUFFER_COMPLETE) {
			inside[record->thread] = i;
			r = record->type == TAPE_CALLBACK ? note_function(record) : 0;
		} else if (record->type == TAPE_STRING && tape_get_string(record, &string)) {
			r = append(&self.texts, &self.texts_last, string.pointer, i, i);
		} else if (record->type == TAPE_RESULT && tape_get_call(record, &call)) {
			self.has[call.function] = true;
			r = note_clock(record->time, &call);
			if (r == 0)
				r = append(&self.answers, &self.answers_last,
					   question(call.function, call.arguments,
						    call.argument_count),
					   inside[record->thread], i);
		}
	}
	free(inside);
	return r;
}

static int read_faults(const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf script = STRBUF_INIT;
	int r = io_read_file(path, SCRIPT_BYTES_MAX, &script);

	r = r < 0 ? error_set(e, r, "%s", error_code_text(r))
		  : faults_parse(strbuf_text(&script), e);
	if (r < 0)
		error_prefix(e, "cannot use the fault script '%s'", path);
	return r;
}

int standin_open(const char *path, const char *faults, struct error *e)
{
	int r = tape_load(path, &self.tape, e);

	if (r < 0)
		return r;
	if (build_index() < 0)
		return error_set(e, -ENOMEM, "no memory for the tape's index");
	self.open = true;
	return faults ? read_faults(faults, e) : 0;
}

static void open_from_environment(void)
{
	const char *path = getenv("PITOT_STANDIN_TAPE");
	struct error e = { 0 };

	if (!self.open && path && standin_open(path, getenv("PITOT_STANDIN_FAULTS"), &e) < 0)
		dprintf(2, "stand-in: %s\n", e.text);
}

const struct tape *standin_tape(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_from_environment);
	return self.open ? &self.tape : NULL;
}

void standin_at(const struct place *place)
{
	here = *place;
	playing = true;
	pthread_mutex_lock(&place_lock);
	latest = *place;
	has_place = true;
	pthread_mutex_unlock(&place_lock);
}

struct place standin_place(void)
{
	struct place p;

	if (playing)
		return here;
	pthread_mutex_lock(&place_lock);
	p = latest;
	pthread_mutex_unlock(&place_lock);
	return p;
}

bool standin_has_begun(void)
{
	bool begun;

	pthread_mutex_lock(&place_lock);
	begun = has_place;
	pthread_mutex_unlock(&place_lock);
	return begun;
}

/* Returns the last link that is valid at the place, or else the first link. */
static const struct link *link_at(const struct map *first, uint64_t key)
{
	size_t index = standin_place().index;
	const struct link *best;
	uint64_t i;

	if (!standin_tape() || !map_get(first, key, &i))
		return NULL;
	best = &self.links.data[i];
	for (const struct link *l = best; l->next; best = l) {
		l = &self.links.data[l->next - 1];
		if (l->from > index)
			break;
	}
	return best;
}

bool standin_answer(enum tape_function function, const uint64_t *arguments, unsigned count,
		    struct tape_call *answer)
{
	const struct link *l = link_at(&self.answers, question(function, arguments, count));

	return l && tape_get_call(&self.tape.records.data[l->record], answer) &&
	       answer->function == function;
}

static bool is_api_callback(const struct tape_record *record)
{
	struct tape_event e;

	return record->type == TAPE_CALLBACK && tape_get_event(record, &e) &&
	       (e.domain == CUPTI_CB_DOMAIN_DRIVER_API || e.domain == CUPTI_CB_DOMAIN_RUNTIME_API);
}

bool standin_answer_here(enum tape_function function, const uint64_t *arguments, unsigned count,
			 struct tape_call *answer)
{
	size_t i = standin_place().index;
	const struct tape_record *place = &self.tape.records.data[i];

	if (!standin_answers(function) || !standin_has_begun())
		return false;
	while (++i < self.tape.records.count) {
		const struct tape_record *record = &self.tape.records.data[i];

		if (record->thread != place->thread)
			continue;
		if (is_api_callback(record))
			return false;
		if (record->type == TAPE_RESULT && tape_get_call(record, answer) &&
		    answer->function == function && answer->argument_count == count &&
		    (!count || !memcmp(answer->arguments, arguments, count * sizeof(*arguments))))
			return true;
	}
	return false;
}

bool standin_answers(enum tape_function function)
{
	return standin_tape() && self.has[function];
}

bool standin_next_answer(enum tape_function function, size_t *from, struct tape_call *answer)
{
	size_t index = standin_place().index, end = index + 1;

	if (!standin_answers(function) || !standin_has_begun())
		return false;
	if (index >= self.last_event)
		end = self.tape.records.count;
	for (; *from < end; (*from)++) {
		const struct tape_record *record = &self.tape.records.data[*from];

		if (record->type == TAPE_RESULT && tape_get_call(record, answer) &&
		    answer->function == function && !answer->result) {
			(*from)++;
			return true;
		}
	}
	return false;
}

const char *standin_keep_text(struct cursor *c)
{
	static struct map kept; /* hash -> text */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	size_t length = cursor_varint(c);
	const uint8_t *bytes = cursor_bytes(c, length);
	const char *text = "";
	uint64_t *slot;

	if (!bytes)
		return text;
	pthread_mutex_lock(&lock);
	slot = map_at(&kept, hash_bytes(bytes, length), 0);
	if (slot && !*slot)
		*slot = (uintptr_t)strndup((const char *)bytes, length);
	if (slot && *slot)
		text = (const char *)(uintptr_t)*slot;
	pthread_mutex_unlock(&lock);
	return text;
}

const char *standin_text_at(uint64_t pointer)
{
	const struct link *l = link_at(&self.texts, pointer);
	struct tape_string string;

	if (!l || !tape_get_string(&self.tape.records.data[l->record], &string))
		return NULL;
	return tape_text_of(&self.tape, string.id);
}

const char *standin_function_name(uint32_t domain, uint32_t cbid)
{
	uint64_t id;

	return map_get(&self.functions, (uint64_t)domain << 32 | cbid, &id)
		       ? tape_text_of(&self.tape, id)
		       : NULL;
}

uint64_t standin_cupti_time(uint64_t monotonic)
{
	size_t count = self.clock.count, i = 0, above = count;
	int64_t a, b;
	uint64_t from, to;

	if (count == 0)
		return monotonic + tape_fact_number(&self.tape, "clock.realtime") -
		       tape_fact_number(&self.tape, "clock.monotonic");
	while (i < above) { /* finds the first later pair */
		size_t middle = i + (above - i) / 2;

		if (self.clock.data[middle].monotonic <= monotonic)
			i = middle + 1;
		else
			above = middle;
	}
	if (i == 0 || i == count)
		return monotonic + (uint64_t)self.clock.data[i ? count - 1 : 0].offset;
	a = self.clock.data[i - 1].offset;
	b = self.clock.data[i].offset;
	from = self.clock.data[i - 1].monotonic;
	to = self.clock.data[i].monotonic;
	return monotonic + (uint64_t)(a + (int64_t)((double)(b - a) * (double)(monotonic - from) /
						    (double)(to - from)));
}
