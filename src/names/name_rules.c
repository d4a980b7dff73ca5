#include "names/name_tree.h"

#include <string.h>

/* clang-format off */

/* Patterns may begin with '*', end with '*', or both. */

/* Templates that are replaced by their first argument that is no number, else by their first. */
static const struct {
	const char *pattern, *scope;	/* scope: NULL for any */
} wrappers[] = {
	{ "device_kernel", "cutlass" },
	{ "Kernel", "cutlass" },
	{ "Kernel2", "cutlass" },
	{ "enable_sm*", NULL },
	{ "gpu_kernel_impl*", NULL },
	{ "gpu_index_kernel", NULL },
	{ "func_wrapper_t", NULL },
	{ "_kernel_agent", NULL },
	{ "__nv_dl_wrapper_t", NULL },
	{ "__nv_hdl_wrapper_t", NULL },
};

/* Arguments that do not describe what a kernel does. */
static const char *const noise[] = {
	"*OffsetCalculator", "LoadWith*", "StoreWith*", "*TensorListMetadata*",	/* PyTorch */
	"CollectiveEpilogue*", "Epilogue*", "*Scheduler*", "*Swizzle*",		/* CUTLASS */
	"Flash_kernel_traits", "*Params*",
	"Policy*", "policy_*", "*_policy", "device_ptr", "*normal_iterator",	/* CUB and Thrust */
	"no_stencil_tag", "always_true_predicate",
	NULL,
};

/* Templates that are replaced by their arguments. */
static const char *const transparent[] = {
	"CollectiveMma", "CollectiveMainloop*", "PredicatedTile*", "*_traits", "*Traits", NULL,
};

/* Templates that wrap an integer. */
static const char *const constants[] = { "C", "constant", "integral_constant", "Int", NULL };

/* Templates whose integers are dimensions. */
static const char *const shapes[] = { "tuple", "*Shape", NULL };

/* Names that are meaningful only together with their scope. */
static const char *const vague[] = {
	"functor", "kernel", "Kernel", "static_kernel", "apply", "run", NULL,
};

/* Templates of which only some arguments are useful: bit n is the n-th. */
static const struct {
	const char *pattern;
	unsigned kept;
} useful_arguments[] = {
	{ "CollectiveMma", 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4 },	/* schedule, tile, elements of A and B */
	{ "MmaMultistage", 1 << 0 | 1 << 1 },	/* tile, iterator of A */
	{ "MmaPipelined", 1 << 0 | 1 << 1 },
	{ "PredicatedTile*", 1 << 1 | 1 << 2 },	/* element, layout */
	{ "ReduceOp", 1 << 0 | 1 << 1 },	/* type, operation */
	{ "func_wrapper_t", 1 << 1 },		/* operation */
	{ "BinaryFunctor", 1 << 3 },
	{ "AUnaryFunctor", 1 << 3 },
	{ "BUnaryFunctor", 1 << 3 },
};

/* Parts of names of generated kernels; '*' at the end also matches digits and 'x'. */
static const struct {
	const char *part, *replacement;
} parts[] = {
	{ "_tilesize", "_" },
	{ "_warpgroupsize1x1x1", "" },
	{ "_warpgroupsize", "_wg" },
	{ "_warpsize*", "" },
	{ "_tensor*", "" },
	{ "_g1_tensor*", "" },
	{ "_implicit_gemm", "" },
	{ "_stage", "_s" },
	{ "_execute_segment_k_off", "" },
	{ "_execute_segment_k_on", "_segk" },
	{ "_execute_split_k", "_splitk" },
	{ "_kernel__5x_cublas", "" },
	{ "_kernel_cudnn", "" },
	{ "cudnn_generated_fort_native_", "cudnn_" },
};

/* clang-format on */

static bool matches(const char *label, const char *pattern)
{
	size_t length = strlen(pattern), label_length;
	bool begins = pattern[0] != '*', ends = pattern[length - 1] != '*';

	if (begins && ends)
		return strcmp(label, pattern) == 0;
	if (begins)
		return strncmp(label, pattern, length - 1) == 0;
	label_length = strlen(label);
	if (ends)
		return label_length >= length - 1 &&
		       strcmp(label + label_length - (length - 1), pattern + 1) == 0;
	return memmem(label, label_length, pattern + 1, length - 2) != NULL;
}

static bool matches_any(const char *label, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if (matches(label, *patterns))
			return true;
	return false;
}

bool name_is_vague(const struct name *n)
{
	return matches_any(n->label, vague) && !matches(n->scope, "*_NS");
}

static void select_arguments(struct name *n)
{
	struct name **link = &n->args;
	unsigned kept = 0;

	for (size_t i = 0; i < ARRAY_SIZE(useful_arguments) && !kept; i++)
		if (matches(n->label, useful_arguments[i].pattern))
			kept = useful_arguments[i].kept;
	if (!kept)
		return;
	for (; kept && *link; kept >>= 1) {
		if (kept & 1)
			link = &(*link)->next;
		else
			*link = (*link)->next;
	}
	*link = NULL;
}

static bool is_wrapper(const struct name *n)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (matches(n->label, wrappers[i].pattern) &&
		    (!wrappers[i].scope || (n->scope && strcmp(n->scope, wrappers[i].scope) == 0)))
			return true;
	return false;
}

static struct name *unwrap(struct name *n)
{
	for (struct name *a = n->args; a; a = a->next)
		if (!a->is_number)
			return a;
	return n->args ? n->args : n;
}

/* Replaces "GemmShape<128, 256, 32>" by "128x256x32". */
static void join_sides(struct name *n, struct arena *arena)
{
	struct strbuf s = STRBUF_INIT;
	char *label = NULL;

	for (const struct name *a = n->args; a; a = a->next) {
		if (!a->is_number)
			goto out;
		strbuf_addf(&s, "%s%s", s.length ? "x" : "", a->label);
	}
	if (!s.failed)
		label = arena_strndup(arena, strbuf_text(&s), s.length);
	if (label) {
		n->label = label;
		n->args = NULL;
	}
out:
	strbuf_release(&s);
}

/* An extended lambda is passed as "__nv_dl_tag<type, &function, number>": show its function. */
static struct name *lambda_of_tag(struct name *tag, struct arena *arena)
{
	struct name *function = tag->args ? tag->args->next : NULL,
		    *number = function ? function->next : NULL;
	char *lambda;

	if (!number || !number->is_number)
		return tag;
	if (strcmp(number->label, "1") == 0) {
		function->lambda = "lambda";
		return function;
	}
	lambda = arena_alloc(arena, strlen("lambda#") + strlen(number->label) + 1);
	if (lambda) {
		stpcpy(stpcpy(lambda, "lambda#"), number->label);
		function->lambda = lambda;
	}
	return function;
}

/* Returns the replacement of n, whose arguments have been simplified. */
static struct name *replace(struct name *n, struct arena *arena)
{
	struct name *last = n->args;

	if (!n->args)
		return n;
	while (last->next)
		last = last->next;
	if (matches_any(n->label, constants) && last->is_number)
		return last;
	if (matches_any(n->label, shapes) && n->args->next)
		join_sides(n, arena);
	else if (strcmp(n->label, "__nv_dl_tag") == 0)
		return lambda_of_tag(n, arena);
	else if (is_wrapper(n))
		return unwrap(n);
	if (matches(n->label, "Mainloop*"))
		for (struct name *a = n->args; a; a = a->next)
			if (matches(a->label, "Kernel*") && a->label[6]) {
				a->label += strlen("Kernel");
				return a;
			}
	return n;
}

static bool is_noise(const struct name *n)
{
	const struct name *first = n->args;

	if (matches_any(n->label, noise) || (strcmp(n->label, "void") == 0 && !n->suffix[0]))
		return true;
	if (!first)
		return false;
	/* The tuples left are strides and problem shapes, arrays of char * are tensor addresses. */
	return (strcmp(n->label, "tuple") == 0 && n->scope && strcmp(n->scope, "cute") == 0) ||
	       (strcasecmp(n->label, "array") == 0 && strcmp(first->label, "char") == 0 &&
		first->suffix[0]);
}

struct name *name_simplify(struct name *n, struct arena *arena)
{
	struct name **link = &n->args;

	select_arguments(n);
	while (*link) {
		struct name *next = (*link)->next, *a;

		(*link)->next = NULL;
		a = name_simplify(*link, arena);
		a->next = NULL;
		if (is_noise(a))
			a = NULL;
		else if (a->args && matches_any(a->label, transparent))
			a = a->args;
		*link = a;
		while (*link)
			link = &(*link)->next;
		*link = next;
	}
	return replace(n, arena);
}

/*
 * Returns the length without the specialization of arguments that older Triton kernels have at the
 * end of their names: "_0d1d2c3de".
 */
static size_t without_specialization(const char *word, size_t length)
{
	for (size_t start = length; start-- > 0;) {
		const char *p = word + start + 1, *end = word + length;
		unsigned groups = 0, letters = 0;

		if (word[start] != '_')
			continue;
		while (p < end) {
			char number[12];
			size_t digits = 0;

			for (unsigned n = groups; n || !digits; n /= 10)
				number[sizeof(number) - ++digits] = (char)('0' + n % 10);
			if ((size_t)(end - p) < digits ||
			    memcmp(p, number + sizeof(number) - digits, digits) != 0)
				break;
			p += digits;
			groups++;
			for (; p < end && strchr("cde", *p); p++)
				letters++;
		}
		return p == end && groups >= 2 && letters && start ? start : length;
	}
	return length;
}

/* Returns the length of `part` at p, before `end`; 0 if it is not there. */
static size_t part_length(const char *p, const char *end, const char *part)
{
	size_t length = strlen(part);
	bool with_sides = part[length - 1] == '*';

	length -= with_sides;
	if ((size_t)(end - p) < length || memcmp(p, part, length) != 0)
		return 0;
	if (with_sides)
		while (p + length < end && strchr("0123456789x", p[length]))
			length++;
	return length;
}

void word_shorten(const char *word, struct strbuf *out)
{
	const char *p = word, *end = word + without_specialization(word, strlen(word));
	bool generated = strstr(word, "_xmma_") || strncmp(word, "cudnn_generated", 15) == 0;

	while (generated && p < end) {
		size_t length = 0, i = 0;

		for (; i < ARRAY_SIZE(parts) && !length; i++)
			length = part_length(p, end, parts[i].part);
		if (length)
			strbuf_adds(out, parts[i - 1].replacement);
		else
			strbuf_addc(out, *p);
		p += length ? length : 1;
	}
	strbuf_add(out, p, (size_t)(end - p));
}
