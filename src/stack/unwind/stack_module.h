/* stack_module.h: a module of this process, whose unwind rules are compiled part by part. */
#ifndef PITOT_STACK_UNWIND_STACK_MODULE_H
#define PITOT_STACK_UNWIND_STACK_MODULE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "stack/unwind/unwind_parts.h"

struct stack_module {
	uint64_t bias; /* address minus ELF virtual address */
	uint64_t identity; /* hash that distinguishes modules at the same place */
	uint64_t header, header_size; /* address of PT_GNU_EH_FRAME; 0: none */
	uint64_t segment_start, segment_end; /* segment that contains it */
	uint64_t code_start, code_end; /* ELF virtual addresses */
	uint32_t references; /* number of maps that contain it */
	uint32_t part_count;
	bool given_up; /* a part could not be read or stored: no further ones */
	atomic_bool wanted; /* one of its parts is wanted */
	_Atomic(struct unwind_part *) *parts; /* cells, from code_start on */
};

#endif
