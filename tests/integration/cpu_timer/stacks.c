/*
 * Work on a small alternate signal stack and on small stacks of coroutines. Fails if anything
 * beyond a signal stack is written to. Prints how much was used.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "burn.h"

#define WALL 16384
#define PAINT 0xa5

static ucontext_t back, coroutine;

static size_t used(const unsigned char *memory, size_t size)
{
	size_t untouched = 0;

	while (untouched < size && memory[untouched] == PAINT)
		untouched++;
	return size - untouched;
}

static __attribute__((noinline)) void deep(void)
{
	burn(0.3);
}

static int on_signal_stack(unsigned char *memory, size_t size)
{
	stack_t stack = { .ss_sp = memory + WALL, .ss_size = size };
	stack_t none = { .ss_flags = SS_DISABLE };

	memset(memory, PAINT, WALL + size);
	sigaltstack(&stack, NULL);
	deep();
	sigaltstack(&none, NULL);
	printf("signal stack of %zu: %zu\n", size, used(memory, WALL + size));
	return used(memory, WALL + size) > size;
}

static void in_coroutine(unsigned char *memory, size_t size)
{
	memset(memory, PAINT, WALL + size);
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = memory + WALL;
	coroutine.uc_stack.ss_size = size;
	coroutine.uc_link = &back;
	makecontext(&coroutine, deep, 0);
	swapcontext(&back, &coroutine);
	printf("coroutine of %zu: %zu\n", size, used(memory, WALL + size));
}

int main(void)
{
	unsigned char *memory = malloc(WALL + 65536);
	int bad = 0;

	until_sampled();
	for (size_t size = 8192; size <= 65536; size *= 2)
		bad += on_signal_stack(memory, size);
	for (size_t size = 16384; size <= 65536; size *= 2)
		in_coroutine(memory, size);
	return bad != 0;
}
