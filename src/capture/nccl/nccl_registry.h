/*
 * nccl_registry.h: what NCCL's callbacks refer to by number: communicators, texts, and numbers of
 * point-to-point operations. Static tables to which threads only add, without a lock. Entries are
 * never changed or removed, and what exceeds a table has number 0.
 */
#ifndef PITOT_CAPTURE_NCCL_NCCL_REGISTRY_H
#define PITOT_CAPTURE_NCCL_NCCL_REGISTRY_H

#include <stdbool.h>

#include "base/compiler.h"
#include "schema/schema.h"

#define NCCL_COMMUNICATORS_MAX 4096u
#define NCCL_NAME_MAX 64u /* bytes; longer names of communicators are truncated */
#define NCCL_UNKNOWN UINT32_MAX

struct nccl_communicator {
	uint64_t hash;
	uint32_t ranks, nodes, rank; /* or NCCL_UNKNOWN */
	char name[NCCL_NAME_MAX]; /* "": none */
};

/* Returns the number of the new communicator, from 1. Any thread. */
uint32_t nccl_communicator_add(const struct nccl_communicator *c);
/* Returns the number of the newest communicator with that hash. Any thread. */
uint32_t nccl_communicator_find(uint64_t hash);
/* NULL: there is none with that number yet. */
const struct nccl_communicator *nccl_communicator_at(uint32_t number);
uint32_t nccl_communicator_count(void);
/* Communicators for which there was no room. */
uint64_t nccl_communicators_refused(void);

/* A text of NCCL's tables, and what it means. */
struct nccl_text {
	char text[24];
	enum collective_function function; /* _other: it names no function that Pitot knows */
	bool is_datatype;
	enum nccl_datatype datatype;
	uint32_t datatype_bytes;
};

/* Returns the number of a text, from 1 to 255; NULL has 0. Texts with one address are one. */
uint8_t nccl_text_number(const char *text);
/* The text of a number; "" for 0. */
const struct nccl_text *nccl_text_at(uint8_t number);

/* Shares what is known with recover/; what comes later is shared when it comes. */
void nccl_registry_share(void);

/*
 * Returns how often it was called before with these arguments; UINT64_MAX: unknown. `peer` is 0 for
 * functions without one.
 */
uint64_t nccl_count_operation(uint32_t communicator, enum collective_function function,
			      uint32_t peer);

#endif
