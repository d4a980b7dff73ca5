/* perfetto_stacks.h: call stacks of a recording in a Perfetto trace. */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_STACKS_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_STACKS_H

#include "export/export_stacks.h"
#include "perfetto/perfetto_frames.h"

struct perfetto;

/* Loads stacks and samples unless the options exclude them. Returns 0 or a negative code. */
int perfetto_stacks_init(struct perfetto *p, struct error *e) MUST_USE;

/*
 * Returns in *iid the iid of a call's stack, 0 if the recording does not contain it, and in *is_new
 * whether perfetto_intern_frames must follow in this packet's interned data. Returns 0 or -ENOMEM.
 */
int perfetto_call_stack(struct perfetto *p, struct perfetto_defined *d, uint32_t process,
			uint32_t stack, uint64_t *iid, bool *is_new) MUST_USE;
/*
 * Defines the frames of p->stacks as call stack iid, inside an open InternedData. Returns 0 or
 * -ENOMEM.
 */
int perfetto_intern_frames(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
			   uint64_t iid) MUST_USE;

#endif
