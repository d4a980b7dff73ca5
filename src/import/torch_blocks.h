/*
 * torch_blocks.h: sizes of the blocks of PyTorch's caching allocator, which its history lacks: it
 * has what was requested. The allocator rounds this up to 512 bytes. In the pool of large blocks
 * (more than 1 MiB) it leaves a free block whole if at most 1 MiB would remain of it, so that a
 * block's size follows from the free blocks that there were: those are followed here, from the
 * history of segments. Segments that grow (expandable) and small blocks have no such remainders.
 */
#ifndef PITOT_IMPORT_TORCH_BLOCKS_H
#define PITOT_IMPORT_TORCH_BLOCKS_H

#include "base/map.h"
#include "base/vec.h"

struct torch_block {
	uint64_t address, size;
	uint32_t previous, next; /* neighbours in the segment; items, or TORCH_NO_BLOCK */
	bool is_free;
};

#define TORCH_NO_BLOCK UINT32_MAX

/* Of one device. */
struct torch_blocks {
	uint64_t max_split_bytes; /* free blocks are not split for blocks from this size on */
	bool is_expandable;
	struct map at; /* address -> item, of large blocks */
	VEC(struct torch_block) items;
	uint64_t guessed; /* large blocks that were allocated from memory of unknown size */
};

void torch_blocks_init(struct torch_blocks *b);
void torch_blocks_release(struct torch_blocks *b);

/* Adds a segment of the driver. 0 or -ENOMEM, here and below. */
int torch_blocks_add_segment(struct torch_blocks *b, uint64_t address, uint64_t size) MUST_USE;
void torch_blocks_remove_segment(struct torch_blocks *b, uint64_t address);
/* Sets *size to that of the block that is allocated at an address for so many bytes. */
int torch_blocks_allocate(struct torch_blocks *b, uint64_t address, uint64_t requested,
			  uint64_t *size) MUST_USE;
void torch_blocks_free(struct torch_blocks *b, uint64_t address);

#endif
