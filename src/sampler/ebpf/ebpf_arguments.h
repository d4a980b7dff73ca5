/*
 * ebpf_arguments.h: where the arguments of a static probe are, from the text in its note
 * (elf/usdt_notes.h) to what the BPF programs read.
 *
 * Each argument is SIZE@OPERAND, with an operand in the assembler's words: %rax, $-1, 8(%rsp),
 * -8(%rbp,%rcx,4). The size is in bytes, negative for a signed value.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_ARGUMENTS_H
#define PITOT_SAMPLER_EBPF_EBPF_ARGUMENTS_H

#include "base/error.h"
#include "sampler/ebpf/bpf/sampler.h"

/*
 * Reads the first `max` arguments. Returns how many there are of them, or E_UNSUPPORTED: an operand
 * is none of these, such as a symbol or a floating-point register.
 */
int ebpf_arguments_read(const char *text, struct bpf_argument *out, unsigned max,
			struct error *e) MUST_USE;

#endif
