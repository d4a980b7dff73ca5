/* Prepares records of the tape: pointers, times and ids, and the changes of the fault script. */
#include "stage.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "standin_cupti.h"

#define NAME_OFFSET 104 /* of kernels */
#define UNKNOWN_KIND 0x7ff0

static atomic_uint_fast64_t timed_records, named_records, withheld;

/* --- what the fault script does to records --- */

static bool is_kernel(uint32_t kind)
{
	return kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
}

static bool every(uint64_t n, uint64_t count)
{
	return n && count % n == 0;
}

/* Returns a text made once for each key and never freed. */
static const char *made_text(uint64_t key, const char *base, size_t length)
{
	static struct map made;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t *slot;
	const char *text = NULL;

	pthread_mutex_lock(&lock);
	slot = map_at(&made, key, 0);
	if (slot && !*slot) {
		char *fresh = malloc(length + 1);

		if (fresh) {
			size_t have = strnlen(base, length);

			memcpy(fresh, base, have);
			memset(fresh + have, 'x', length - have);
			fresh[length] = 0;
			*slot = (uintptr_t)fresh;
		}
	}
	if (slot)
		text = (const char *)(uintptr_t)*slot;
	pthread_mutex_unlock(&lock);
	return text;
}

const char *standin_storm_name(uint64_t number)
{
	char name[48];

	snprintf(name, sizeof(name), "storm_kernel_%06llu", (unsigned long long)number);
	return made_text(hash_u64(number), name, strlen(name));
}

static const char *scripted_name(const char *name, uint64_t count)
{
	static const char hostile[] = "\xff\xfe\"\\\n\t\x1b[31m<script>&'%s%n\x01\xc3";
	const struct faults *f = standin_faults();

	if (every(f->null_name_every, count))
		return NULL;
	if (every(f->hostile_every, count))
		return hostile;
	if (f->storm)
		return standin_storm_name(count % f->storm);
	if (f->huge_names && name)
		return made_text((uintptr_t)name, name, f->huge_names);
	return name;
}

static void zero_time(uint8_t *time, void *user)
{
	(void)user;
	store_u64(time, 0);
}

static void spoil_times(uint8_t *record, size_t size, unsigned start)
{
	const struct faults *f = standin_faults();
	uint64_t count = atomic_fetch_add(&timed_records, 1) + 1;
	uint64_t from = load_u64(record + start), to = load_u64(record + start + 8);

	if (every(f->zero_every, count))
		record_times(record, size, zero_time, NULL);
	else if (every(f->incomplete_every, count))
		store_u64(record + start + 8, 0);
	else if (every(f->reverse_every, count)) {
		store_u64(record + start, to);
		store_u64(record + start + 8, from);
	}
	if (every(f->bad_kind_every, count))
		store_u32(record, UNKNOWN_KIND);
}

/* --- staging --- */

static void shift_time(uint8_t *time, void *user)
{
	const struct place *place = user;
	const struct faults *f = standin_faults();
	uint64_t t = load_u64(time);

	if (!t)
		return;
	if (f->step_at < standin_tape()->records.count &&
	    t >= standin_cupti_time(standin_tape()->records.data[f->step_at].time))
		t += (uint64_t)f->step_ns;
	store_u64(time,
		  t + place->time_shift + (uint64_t)atomic_load(&cupti_state.clock_offset_ns));
}

static void patch_pointers(uint8_t *record, size_t size, uint32_t kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(tape_pointers); i++) {
		const struct tape_pointer *p = &tape_pointers[i];
		uint64_t pointer;

		if (p->kind != kind || p->offset + sizeof(pointer) > size)
			continue;
		pointer = p->text ? (uintptr_t)standin_text_at(load_u64(record + p->offset)) : 0;
		store_u64(record + p->offset, pointer);
	}
}

static void change_record(uint8_t *record, size_t size, uint32_t kind, struct place *place)
{
	unsigned start = record_start_offset(kind);
	const struct faults *f = standin_faults();

	patch_pointers(record, size, kind);
	if (start && start + 16 <= size && is_kernel(kind) &&
	    f->gpu_fault_at < standin_tape()->records.count &&
	    load_u64(record + start) >=
		    standin_cupti_time(standin_tape()->records.data[f->gpu_fault_at].time))
		record_times(record, size, zero_time, NULL);
	record_times(record, size, shift_time, place);
	record_shift_correlation(record, size, place->id_shift + f->correlation_shift);
	if (is_kernel(kind) && size >= NAME_OFFSET + 8) {
		const char *name = (const char *)(uintptr_t)load_u64(record + NAME_OFFSET);
		uint64_t count = atomic_fetch_add(&named_records, 1) + 1;

		store_u64(record + NAME_OFFSET, (uintptr_t)scripted_name(name, count));
	}
	if (start && start + 16 <= size)
		spoil_times(record, size, start);
}

bool record_is_description(uint32_t kind)
{
	return kind == CUPTI_ACTIVITY_KIND_DEVICE || kind == CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE ||
	       kind == CUPTI_ACTIVITY_KIND_CONTEXT || kind == CUPTI_ACTIVITY_KIND_STREAM ||
	       kind == CUPTI_ACTIVITY_KIND_NAME || kind == CUPTI_ACTIVITY_KIND_MODULE;
}

/*
 * Returns the kind under which a record is delivered. Tapes have concurrent kernels; serialized
 * kernels have equal records.
 */
static uint32_t given_kind(uint32_t kind)
{
	return kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
			       !atomic_load(&cupti_state.kinds[kind])
		       ? CUPTI_ACTIVITY_KIND_KERNEL
		       : kind;
}

int stage_record(struct stage *s, const uint8_t *record, uint32_t size, size_t n,
		 struct place *place)
{
	uint32_t kind = load_u32(record), version = standin_faults()->version;
	size_t wanted = version ? record_size_in(kind, version, size) : size;
	uint8_t *copy = s->bytes + s->used;

	if (kind >= KINDS_MAX || !atomic_load(&cupti_state.kinds[given_kind(kind)])) {
		atomic_fetch_add(&withheld, 1);
		return 0;
	}
	if (record_is_description(kind) && !place->first)
		return 0;
	memset(copy, 0xa5, wanted); /* the members that a newer CUPTI appends */
	memcpy(copy, record, MIN(size, wanted));
	change_record(copy, MIN(size, wanted), kind, place);
	if (load_u32(copy) == kind)
		store_u32(copy, given_kind(kind));
	if (vec_push(&s->pieces, ((struct piece){ s->used, (uint32_t)wanted, n })) < 0)
		return -ENOMEM;
	s->used += wanted;
	return 0;
}

uint64_t record_end(const uint8_t *record, size_t size)
{
	unsigned start = size >= 4 ? record_start_offset(load_u32(record)) : 0;
	uint64_t end = start && start + 16 <= size ? load_u64(record + start + 8) : 0;

	return end ? end : UINT64_MAX;
}

void stage_shuffle(struct stage *s)
{
	uint64_t random = 88172645463325252ull + s->used;

	for (size_t i = s->pieces.count; i > 1; i--) {
		struct piece *a = &s->pieces.data[i - 1], *b, swap;

		random = hash_u64(random);
		b = &s->pieces.data[random % i];
		swap = *a;
		*a = *b;
		*b = swap;
	}
}

void stage_release(struct stage *s)
{
	free(s->bytes);
	vec_release(&s->pieces);
}

uint64_t stage_withheld(void)
{
	return atomic_load(&withheld);
}
