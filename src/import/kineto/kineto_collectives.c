/* kineto_collectives.c: the collectives that PyTorch's process groups name in their kernels. */
#include <string.h>

#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"

struct word {
	const char *text;
	uint8_t value;
};

/* Returns the value of the first word with which the text begins, or `otherwise`. */
static uint8_t find(const struct word *words, size_t count, const char *text, uint8_t otherwise)
{
	for (size_t i = 0; i < count; i++)
		if (starts_with(text, words[i].text))
			return words[i].value;
	return otherwise;
}

/* Names of c10d: "allreduce", "_allgather_base", "reduce_scatter_tensor_coalesced". */
static uint8_t function_of(const char *name)
{
	static const struct word words[] = { { "allreduce", collective_function_all_reduce },
					     { "all_reduce", collective_function_all_reduce },
					     { "allgather", collective_function_all_gather },
					     { "all_gather", collective_function_all_gather },
					     { "reduce_scatter",
					       collective_function_reduce_scatter },
					     { "broadcast", collective_function_broadcast },
					     { "all_to_all", collective_function_all_to_all },
					     { "alltoall", collective_function_all_to_all },
					     { "reduce", collective_function_reduce },
					     { "gather", collective_function_gather },
					     { "scatter", collective_function_scatter },
					     { "send", collective_function_send },
					     { "recv", collective_function_recv } };

	return find(words, ARRAY_SIZE(words), name + (*name == '_'), collective_function_other);
}

static bool datatype_of(const char *name, uint8_t *type, uint64_t *size)
{
	static const struct word words[] = { { "Float8_e4m3", nccl_datatype_float8e4m3 },
					     { "Float8_e5m2", nccl_datatype_float8e5m2 },
					     { "Float", nccl_datatype_float32 },
					     { "BFloat16", nccl_datatype_bfloat16 },
					     { "Half", nccl_datatype_float16 },
					     { "Double", nccl_datatype_float64 },
					     { "Long", nccl_datatype_int64 },
					     { "Int", nccl_datatype_int32 },
					     { "Byte", nccl_datatype_uint8 },
					     { "Char", nccl_datatype_int8 },
					     { "Bool", nccl_datatype_uint8 } };
	static const uint8_t sizes[] = {
		1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1
	}; /* by nccl_datatype */

	*type = find(words, ARRAY_SIZE(words), name, UINT8_MAX);
	*size = *type == UINT8_MAX ? 0 : sizes[*type];
	return *size != 0;
}

/* A group is its name and its ranks, which all of them spell alike. */
static uint32_t group_of(struct kineto *k, uint64_t *hash)
{
	const char *name = kineto_text(k, KINETO_GROUP_NAME);
	struct row_communicator row = { .missing = schema_missing(TABLE_communicator) };
	size_t known = k->groups.count;

	strbuf_clear(&k->scratch);
	strbuf_addf(&k->scratch, "%s %s", name, kineto_text(k, KINETO_GROUP_RANKS));
	row.hash = *hash = hash_bytes(strbuf_text(&k->scratch), k->scratch.length);
	row.id = (uint32_t)map_number(&k->groups, row.hash);
	if (k->groups.count > known) {
		row.name = rows_text(k->writer, name);
		PRESENT(&row, communicator, name, *name);
		PRESENT(&row, communicator, ranks, kineto_u32(k, KINETO_GROUP_SIZE, &row.ranks));
		kineto_append(k, TABLE_communicator, &row);
	}
	return row.id;
}

/*
 * c10d numbers the collectives of a group. Those of one coalesced call share a number, which then
 * identifies only the first. Its numbers of sends and receives are not those of the other side.
 */
static bool sequence_of(struct kineto *k, uint64_t group, struct row_collective *row)
{
	uint64_t key[] = { group, row->function, 0 };

	if (row->function == collective_function_send ||
	    row->function == collective_function_recv ||
	    !kineto_u64(k, KINETO_SEQUENCE, &row->sequence))
		return false;
	key[2] = row->sequence;
	return map_add(&k->sequences, hash_bytes(key, sizeof(key))) > 0;
}

void kineto_keep_collective(struct kineto *k, uint64_t correlation)
{
	struct row_collective row = { .missing = schema_missing(TABLE_collective),
				      .function = function_of(kineto_text(k, KINETO_COLLECTIVE)),
				      .correlation = correlation,
				      .source = collective_source_profiler };
	enum kineto_field elements = row.function == collective_function_reduce_scatter
					     ? KINETO_OUT_ELEMENTS
					     : KINETO_IN_ELEMENTS;
	bool counted = kineto_u64(k, elements, &row.count), typed;
	uint64_t size, group = 0;

	typed = datatype_of(kineto_text(k, KINETO_DATATYPE), &row.datatype, &size);
	PRESENT(&row, collective, correlation, 1);
	PRESENT(&row, collective, count, counted);
	PRESENT(&row, collective, datatype, typed);
	PRESENT(&row, collective, bytes,
		counted && typed && !__builtin_mul_overflow(row.count, size, &row.bytes));
	if (kineto_has(k, KINETO_GROUP_NAME) && k->groups.count < KINETO_KINDS_MAX) {
		row.communicator = group_of(k, &group);
		PRESENT(&row, collective, communicator, 1);
		PRESENT(&row, collective, sequence, sequence_of(k, group, &row));
	}
	if (k->all_collectives.count >= KINETO_WORK_MAX / 16 ||
	    map_put(&k->collectives, correlation, k->all_collectives.count) < 0 ||
	    vec_push(&k->all_collectives, row) < 0)
		kineto_count(k, KINETO_NO_ROOM_COUNT);
}

void kineto_write_collective(struct kineto *k, uint64_t correlation, uint64_t time_ns,
			     uint32_t thread)
{
	struct row_collective *row;
	uint64_t index;

	if (!map_remove(&k->collectives, correlation, &index) || index >= k->all_collectives.count)
		return;
	row = &k->all_collectives.data[index];
	row->time_ns = time_ns;
	row->thread = thread;
	kineto_append(k, TABLE_collective, row);
}
