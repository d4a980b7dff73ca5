/* recover_collectives.c: collectives of NCCL that were enqueued in the last moments. */
#include <string.h>

#include "capture/nccl/nccl_rows.h"
#include "recover/recover_state.h"

/* Number 0 is no text. Returns false if it is not in the memory. */
static bool read_text(const struct recovery *r, uint8_t number, struct nccl_text *out)
{
	struct area_nccl_text text;

	*out = (struct nccl_text){ .function = collective_function_other };
	if (!number)
		return true;
	if (!recovery_read(r, AREA_NCCL, offsetof(struct area_nccl, texts) + number * sizeof(text),
			   &text, sizeof(text)) ||
	    !text.is_complete)
		return false;
	memcpy(out->text, text.text, sizeof(out->text) - 1);
	if (text.function < collective_function_other)
		out->function = (enum collective_function)text.function;
	out->is_datatype = text.is_datatype && text.datatype <= nccl_datatype_float8e5m2;
	out->datatype = out->is_datatype ? (enum nccl_datatype)text.datatype : nccl_datatype_int8;
	out->datatype_bytes = text.datatype_bytes;
	return true;
}

static bool write_communicator(struct recovery *r, struct map *written, uint32_t number)
{
	struct nccl_communicator c = { .hash = 0 };
	struct row_communicator row;
	struct area_communicator in;
	uint64_t *known = map_at(written, number, 0);

	if (known && *known)
		return true;
	if (!number || number > AREA_COMMUNICATORS_MAX ||
	    !recovery_read(r, AREA_NCCL,
			   offsetof(struct area_nccl, communicators) + (number - 1) * sizeof(in),
			   &in, sizeof(in)) ||
	    !in.is_complete)
		return false;
	c.hash = in.hash;
	c.ranks = in.ranks;
	c.nodes = in.nodes;
	c.rank = in.rank;
	memcpy(c.name, in.name, sizeof(c.name) - 1);
	row = nccl_communicator_row(r->w, number, &c);
	writer_append(r->w, TABLE_communicator, &row);
	if (known)
		*known = 1;
	return true;
}

bool recover_collective(struct recovery *r, struct map *written, const struct ring_event *event,
			uint32_t thread)
{
	const struct nccl_text *texts[NCCL_TEXTS];
	struct nccl_text read[NCCL_TEXTS];
	struct row_collective row;

	/* A graph's collective has its row since the capture, or the first replay. */
	if (event->flags & NCCL_EVENT_REPLAY)
		return true;
	for (unsigned i = 0; i < NCCL_TEXTS; i++) {
		texts[i] = &read[i];
		if (!read_text(r, nccl_event_text(event, i), &read[i]))
			return false;
	}
	if (!write_communicator(r, written, event->c))
		return false;
	row = nccl_collective_row(r->w, event, thread, recovery_call(r, event->e), texts);
	writer_append(r->w, TABLE_collective, &row);
	r->out->collectives++;
	return true;
}
