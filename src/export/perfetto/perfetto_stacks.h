/* perfetto_stacks.h: call stacks of a recording in a Perfetto trace. */
#ifndef PITOT_EXPORT_PERFETTO_PERFETTO_STACKS_H
#define PITOT_EXPORT_PERFETTO_PERFETTO_STACKS_H

#include "export/export_stacks.h"
#include "perfetto/perfetto_frames.h"

struct perfetto;

/* Loads stacks and samples, unless the options leave them out. 0 or a negative code. */
int perfetto_stacks_init(struct perfetto *p, struct error *e) MUST_USE;

/*
 * Iid of a stack of a call, and whether perfetto_intern_frames has to follow in this packet's
 * interned data. *iid 0: it is not in the recording. 0 or -ENOMEM.
 */
int perfetto_call_stack(struct perfetto *p, struct perfetto_defined *d, uint32_t process,
			uint32_t stack, uint64_t *iid, bool *fresh) MUST_USE;
/*
 * Defines the frames of p->stacks as the call stack iid, inside an open InternedData. 0 or -ENOMEM.
 */
int perfetto_intern_frames(struct perfetto *p, struct strbuf *s, struct perfetto_defined *d,
			   uint64_t iid) MUST_USE;

#endif
