#include "import/torch_blocks.h"

#include <errno.h>
#include <stdlib.h>

#define ROUND_BYTES UINT64_C(512)
#define SMALL_BYTES (UINT64_C(1) << 20) /* of the largest small block, and of a remainder */
#define SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)

void torch_blocks_init(struct torch_blocks *b)
{
	*b = (struct torch_blocks){ .max_split_bytes = UINT64_MAX, .at = MAP_INIT };
}

void torch_blocks_release(struct torch_blocks *b)
{
	map_release(&b->at);
	vec_release(&b->items);
}

static int add(struct torch_blocks *b, struct torch_block block)
{
	if (b->items.count >= TORCH_NO_BLOCK || vec_push(&b->items, block) < 0)
		return -ENOMEM;
	return map_put(&b->at, block.address, b->items.count - 1);
}

static struct torch_block *block_at(const struct torch_blocks *b, uint64_t address)
{
	uint64_t item;

	return map_get(&b->at, address, &item) ? &b->items.data[item] : NULL;
}

int torch_blocks_add_segment(struct torch_blocks *b, uint64_t address, uint64_t size)
{
	if (size <= SMALL_SEGMENT_BYTES || b->is_expandable)
		return 0;
	return add(b, (struct torch_block){ address, size, TORCH_NO_BLOCK, TORCH_NO_BLOCK, true });
}

void torch_blocks_remove_segment(struct torch_blocks *b, uint64_t address)
{
	uint64_t item;

	map_remove(&b->at, address, &item);
}

/* Makes the first part of a free block a block of its own. */
static int split(struct torch_blocks *b, struct torch_block *block, uint64_t size)
{
	uint32_t item = (uint32_t)(block - b->items.data), next = block->next;
	struct torch_block rest = { block->address + size, block->size - size, item, next, true };

	block->size = size;
	block->next = (uint32_t)b->items.count;
	if (next != TORCH_NO_BLOCK)
		b->items.data[next].previous = block->next;
	return add(b, rest);
}

int torch_blocks_allocate(struct torch_blocks *b, uint64_t address, uint64_t requested,
			  uint64_t *size)
{
	uint64_t rounded = requested > UINT64_MAX - ROUND_BYTES
				   ? requested
				   : (requested + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES;
	struct torch_block *block;

	*size = rounded ? rounded : ROUND_BYTES;
	if (*size <= SMALL_BYTES || b->is_expandable)
		return 0;
	block = block_at(b, address);
	if (!block || !block->is_free || block->size < *size) {
		b->guessed++;
		return 0;
	}
	block->is_free = false;
	if (*size < b->max_split_bytes && block->size - *size > SMALL_BYTES)
		return split(b, block, *size);
	*size = block->size;
	return 0;
}

/* Adds the block after one to it, if both are free. */
static void merge(struct torch_blocks *b, uint32_t item)
{
	struct torch_block *block = item == TORCH_NO_BLOCK ? NULL : &b->items.data[item], *after;
	uint64_t removed;

	if (!block || block->next == TORCH_NO_BLOCK)
		return;
	after = &b->items.data[block->next];
	if (!block->is_free || !after->is_free)
		return;
	map_remove(&b->at, after->address, &removed);
	block->size += after->size;
	block->next = after->next;
	if (after->next != TORCH_NO_BLOCK)
		b->items.data[after->next].previous = item;
}

void torch_blocks_free(struct torch_blocks *b, uint64_t address)
{
	struct torch_block *block = block_at(b, address);
	uint32_t item, previous;

	if (!block)
		return;
	block->is_free = true;
	item = (uint32_t)(block - b->items.data);
	previous = block->previous;
	merge(b, item);
	merge(b, previous);
}
