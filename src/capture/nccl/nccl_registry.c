#include "capture/nccl/nccl_registry.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/map.h"
#include "capture/core/shared_area.h"

static struct {
	struct nccl_communicator value;
	atomic_bool is_complete;
} communicators[NCCL_COMMUNICATORS_MAX];
static atomic_uint communicator_count; /* also of those without room */

uint32_t nccl_communicator_count(void)
{
	return MIN(atomic_load(&communicator_count), NCCL_COMMUNICATORS_MAX);
}

uint64_t nccl_communicators_refused(void)
{
	return atomic_load(&communicator_count) - nccl_communicator_count();
}

const struct nccl_communicator *nccl_communicator_at(uint32_t number)
{
	return number && number <= NCCL_COMMUNICATORS_MAX &&
			       atomic_load_explicit(&communicators[number - 1].is_complete,
						    memory_order_acquire)
		       ? &communicators[number - 1].value
		       : NULL;
}

static void share_communicator(uint32_t number)
{
	struct area_nccl *area = shared_area_part(AREA_NCCL);
	const struct nccl_communicator *c = nccl_communicator_at(number);
	struct area_communicator *to;

	_Static_assert(NCCL_COMMUNICATORS_MAX == AREA_COMMUNICATORS_MAX &&
			       sizeof(c->name) == sizeof(to->name),
		       "the area has room for all");
	if (!area || !c)
		return;
	to = &area->communicators[number - 1];
	to->hash = c->hash;
	to->ranks = c->ranks;
	to->nodes = c->nodes;
	to->rank = c->rank;
	memcpy(to->name, c->name, sizeof(to->name));
	atomic_store_explicit(&to->is_complete, 1, memory_order_release);
}

uint32_t nccl_communicator_add(const struct nccl_communicator *c)
{
	unsigned index = atomic_fetch_add(&communicator_count, 1);

	if (index >= NCCL_COMMUNICATORS_MAX)
		return 0;
	communicators[index].value = *c;
	atomic_store_explicit(&communicators[index].is_complete, true, memory_order_release);
	share_communicator(index + 1);
	return index + 1;
}

uint32_t nccl_communicator_find(uint64_t hash)
{
	for (uint32_t number = nccl_communicator_count(); number; number--) {
		const struct nccl_communicator *c = nccl_communicator_at(number);

		if (c && c->hash == hash)
			return number;
	}
	return 0;
}

/* --- texts --- */

#define TEXTS_MAX 255u
#define TEXT_BUCKETS 512u

static struct nccl_text texts[TEXTS_MAX + 1];
static atomic_uint text_count;
/* A bucket is an address and a number, which are added at once: 48 and 8 bits. */
static atomic_uint_fast64_t text_buckets[TEXT_BUCKETS];

/* NCCL's names; matched regardless of case, because versions differ ("AllToAll"). */
static const char *const functions[] = {
	[collective_function_all_reduce] = "AllReduce",
	[collective_function_all_gather] = "AllGather",
	[collective_function_reduce_scatter] = "ReduceScatter",
	[collective_function_broadcast] = "Broadcast",
	[collective_function_reduce] = "Reduce",
	[collective_function_all_to_all] = "AlltoAll",
	[collective_function_gather] = "Gather",
	[collective_function_scatter] = "Scatter",
	[collective_function_send] = "Send",
	[collective_function_recv] = "Recv",
};

static const struct {
	const char *name;
	uint32_t bytes;
} datatypes[] = {
	[nccl_datatype_int8] = { "ncclInt8", 1 },
	[nccl_datatype_uint8] = { "ncclUint8", 1 },
	[nccl_datatype_int32] = { "ncclInt32", 4 },
	[nccl_datatype_uint32] = { "ncclUint32", 4 },
	[nccl_datatype_int64] = { "ncclInt64", 8 },
	[nccl_datatype_uint64] = { "ncclUint64", 8 },
	[nccl_datatype_float16] = { "ncclFloat16", 2 },
	[nccl_datatype_float32] = { "ncclFloat32", 4 },
	[nccl_datatype_float64] = { "ncclFloat64", 8 },
	[nccl_datatype_bfloat16] = { "ncclBfloat16", 2 },
	[nccl_datatype_float8e4m3] = { "ncclFloat8e4m3", 1 },
	[nccl_datatype_float8e5m2] = { "ncclFloat8e5m2", 1 },
};

static struct nccl_text text_of(const char *text)
{
	struct nccl_text t = { .function = collective_function_other };

	for (size_t i = 0; i < sizeof(t.text) - 1 && text[i]; i++)
		t.text[i] = text[i];
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strcasecmp(t.text, functions[i]))
			t.function = (enum collective_function)i;
	for (size_t i = 0; i < ARRAY_SIZE(datatypes); i++) {
		if (strcasecmp(t.text, datatypes[i].name))
			continue;
		t.is_datatype = true;
		t.datatype = (enum nccl_datatype)i;
		t.datatype_bytes = datatypes[i].bytes;
	}
	return t;
}

/* A text is complete before an event has its number. */
static void share_text(unsigned number)
{
	struct area_nccl *area = shared_area_part(AREA_NCCL);
	const struct nccl_text *t = &texts[number];

	_Static_assert(TEXTS_MAX < AREA_NCCL_TEXTS_MAX, "the area has room for all");
	if (!area || !t->text[0])
		return;
	area->texts[number] = (struct area_nccl_text){ .datatype_bytes = t->datatype_bytes,
						       .is_complete = 1,
						       .function = (uint8_t)t->function,
						       .is_datatype = t->is_datatype,
						       .datatype = (uint8_t)t->datatype };
	memcpy(area->texts[number].text, t->text, sizeof(t->text));
}

void nccl_registry_share(void)
{
	for (unsigned number = 1; number <= TEXTS_MAX; number++)
		share_text(number);
	for (uint32_t number = 1; number <= nccl_communicator_count(); number++)
		share_communicator(number);
}

static uint8_t add_text(atomic_uint_fast64_t *bucket, const char *text)
{
	uint64_t empty = 0, address = (uintptr_t)text;
	unsigned number = atomic_fetch_add(&text_count, 1) + 1;

	if (number > TEXTS_MAX || address >> 48) {
		atomic_store(&text_count, MIN(number, TEXTS_MAX));
		return 0;
	}
	texts[number] = text_of(text);
	share_text(number);
	/* If another thread has added one here, this one stays without an address: it is found no
	 * more, and valid. */
	atomic_compare_exchange_strong(bucket, &empty, address << 8 | number);
	return (uint8_t)number;
}

uint8_t nccl_text_number(const char *text)
{
	uint64_t address = (uintptr_t)text, at = hash_u64(address);

	if (!text)
		return 0;
	for (unsigned i = 0; i < TEXT_BUCKETS; i++) {
		atomic_uint_fast64_t *bucket = &text_buckets[(at + i) % TEXT_BUCKETS];
		uint64_t found = atomic_load_explicit(bucket, memory_order_acquire);

		if (found >> 8 == address)
			return (uint8_t)found;
		if (!found)
			return add_text(bucket, text);
	}
	return 0;
}

const struct nccl_text *nccl_text_at(uint8_t number)
{
	static const struct nccl_text none = { .function = collective_function_other };

	return number ? &texts[number] : &none;
}

/* --- numbers of operations --- */

#define COUNTS 32768u /* of distinct arguments */
#define PROBES 64u

static struct {
	atomic_uint_fast64_t key, count;
} counts[COUNTS];

uint64_t nccl_count_operation(uint32_t communicator, enum collective_function function,
			      uint32_t peer)
{
	uint64_t key = (uint64_t)communicator << 40 | (uint64_t)function << 32 | peer;
	uint64_t at = hash_u64(key);

	if (!communicator)
		return UINT64_MAX;
	for (unsigned i = 0; i < PROBES; i++) {
		size_t slot = (at + i) % COUNTS;
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&counts[slot].key, &found, key) || found == key)
			return atomic_fetch_add_explicit(&counts[slot].count, 1,
							 memory_order_relaxed);
	}
	return UINT64_MAX;
}
