#include "sampler/ebpf/ebpf_arguments.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* The names of a register for 8, 4, 2 and 1 bytes, at its number in DWARF. */
static const char *const registers[][4] = {
	{ "rax", "eax", "ax", "al" },      { "rdx", "edx", "dx", "dl" },
	{ "rcx", "ecx", "cx", "cl" },      { "rbx", "ebx", "bx", "bl" },
	{ "rsi", "esi", "si", "sil" },     { "rdi", "edi", "di", "dil" },
	{ "rbp", "ebp", "bp", "bpl" },     { "rsp", "esp", "sp", "spl" },
	{ "r8", "r8d", "r8w", "r8b" },     { "r9", "r9d", "r9w", "r9b" },
	{ "r10", "r10d", "r10w", "r10b" }, { "r11", "r11d", "r11w", "r11b" },
	{ "r12", "r12d", "r12w", "r12b" }, { "r13", "r13d", "r13w", "r13b" },
	{ "r14", "r14d", "r14w", "r14b" }, { "r15", "r15d", "r15w", "r15b" },
};

/* Bits 8 to 15 of the first four registers have names, too. */
static const char *const second_bytes[] = { "ah", "dh", "ch", "bh" };

static size_t name_length(const char *text)
{
	return strcspn(text, " ,)");
}

static bool is_name(const char *text, const char *name)
{
	return name_length(text) == strlen(name) && !memcmp(text, name, strlen(name));
}

/* Reads the name of a register, behind its %. *shift may be NULL: then it has to have 8 bytes. */
static bool read_register(const char **text, __u8 *out, __u8 *shift)
{
	if (*(*text)++ != '%')
		return false;
	for (unsigned i = 0; shift && i < ARRAY_SIZE(second_bytes); i++) {
		if (!is_name(*text, second_bytes[i]))
			continue;
		*out = (__u8)i;
		*shift = 8;
		*text += name_length(*text);
		return true;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(registers); i++) {
		for (unsigned size = 0; size < (shift ? ARRAY_SIZE(registers[i]) : 1); size++) {
			if (!is_name(*text, registers[i][size]))
				continue;
			*out = (__u8)i;
			*text += name_length(*text);
			return true;
		}
	}
	return false;
}

static bool read_number(const char **text, __s64 *out)
{
	char *end;

	errno = 0;
	*out = strtoll(*text, &end, 0);
	if (end == *text || errno)
		return false;
	*text = end;
	return true;
}

/* Reads what stands in parentheses: (%base), (%base,%index,scale) or (,%index,scale). */
static bool read_address(const char **text, struct bpf_argument *a)
{
	__s64 scale = 1;

	a->is_memory = 1;
	(*text)++;
	if (**text == '%' && !read_register(text, &a->base, NULL))
		return false;
	if (**text == ',') {
		(*text)++;
		if (!read_register(text, &a->index, NULL))
			return false;
		if (**text == ',') {
			(*text)++;
			if (!read_number(text, &scale))
				return false;
		}
	}
	if (scale != 1 && scale != 2 && scale != 4 && scale != 8)
		return false;
	a->scale = (__u8)__builtin_ctzll((unsigned long long)scale);
	return *(*text)++ == ')' && (a->base != BPF_NO_REGISTER || a->index != BPF_NO_REGISTER);
}

static bool read_operand(const char **text, struct bpf_argument *a)
{
	if (**text == '%')
		return read_register(text, &a->base, &a->shift);
	if (**text == '$') {
		(*text)++;
		return read_number(text, &a->offset);
	}
	if (**text != '(' && !read_number(text, &a->offset))
		return false;
	return **text == '(' && read_address(text, a);
}

static bool read_one(const char **text, struct bpf_argument *a)
{
	__s64 size;

	*a = (struct bpf_argument){ .base = BPF_NO_REGISTER, .index = BPF_NO_REGISTER };
	if (!read_number(text, &size) || *(*text)++ != '@')
		return false;
	a->is_signed = size < 0;
	size = size < 0 && size >= -8 ? -size : size;
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return false;
	a->size = (__u8)size;
	return read_operand(text, a) && (**text == ' ' || !**text);
}

int ebpf_arguments_read(const char *text, struct bpf_argument *out, unsigned max, struct error *e)
{
	const char *at = text + strspn(text, " ");
	unsigned count = 0;

	while (*at && count < max) {
		if (!read_one(&at, &out[count]))
			return error_set(e, E_UNSUPPORTED,
					 "the arguments of a probe are of an unknown form: '%s'",
					 text);
		count++;
		at += strspn(at, " ");
	}
	return (int)count;
}
