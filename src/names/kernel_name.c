/*
 * kernel_name.c: selects the parts of a kernel name that identify the kernel for people.
 *
 * A name is parsed into a tree (name_tree.h). Rules for the templates of common libraries remove
 * wrappers and meaningless arguments everywhere. If the rest is still too long, it is simplified
 * step by step (enum detail) until it fits, and finally cut.
 *
 * Names without C++ syntax (Triton, NCCL, cuBLAS, cuDNN) are words joined by '_', and shortened as
 * such.
 */

#include <ctype.h>
#include <string.h>

#include "base/utf8.h"
#include "names/kernel_name.h"
#include "names/name_tree.h"

#define TEXT_MAX ((size_t)64 << 10) /* bytes of a name; the rest is ignored */

/* How much of a name is omitted; each step includes those before it. */
enum detail {
	DETAIL_ALL,
	DETAIL_TERSE, /* true and false as 1 and 0; equal arguments only once */
	DETAIL_TYPES, /* only numbers of the kernel itself, not of its arguments */
	DETAIL_DEPTH_3,
	DETAIL_DEPTH_2, /* arguments without arguments */
	DETAIL_NAMES, /* arguments without numbers and lambdas */
};

static void render_label(const struct name *n, enum detail detail, struct strbuf *out)
{
	const char *label = n->label;

	if (detail >= DETAIL_TERSE && n->is_number && isalpha((unsigned char)label[0])) {
		strbuf_adds(out, label[0] == 't' ? "1" : "0");
		return;
	}
	if (n->scope && name_is_vague(n))
		strbuf_addf(out, "%s::", n->scope);
	if (detail >= DETAIL_TERSE && strncmp(label, "unsigned ", 9) == 0) {
		strbuf_addc(out, 'u');
		label += 9;
	} else if (detail >= DETAIL_TERSE && strncmp(label, "__nv_", 5) == 0) {
		label += 5;
	}
	strbuf_adds(out, label);
}

static bool all_equal(const struct name *args)
{
	for (const struct name *n = args; n; n = n->next)
		if (n->args || n->is_number || n->lambda || strcmp(n->label, args->label) != 0)
			return false;
	return true;
}

static void render(const struct name *n, unsigned depth, enum detail detail, struct strbuf *out)
{
	unsigned depth_max = detail >= DETAIL_DEPTH_2   ? 1
			     : detail >= DETAIL_DEPTH_3 ? 2
							: UINT32_MAX;
	bool once = depth > 0 && detail >= DETAIL_TERSE && all_equal(n->args);
	bool numbers = detail < DETAIL_TYPES || (depth == 0 && detail < DETAIL_NAMES), any = false;

	render_label(n, detail, out);
	for (const struct name *a = depth < depth_max ? n->args : NULL; a;
	     a = once ? NULL : a->next) {
		if (a->is_number && !numbers)
			continue;
		strbuf_adds(out, any ? ", " : "<");
		render(a, depth + 1, detail, out);
		any = true;
	}
	if (any)
		strbuf_addc(out, '>');
	if (n->lambda && (detail < DETAIL_NAMES || !n->label[0]))
		strbuf_addf(out, "%s%s", n->label[0] ? "::" : "", n->lambda);
	strbuf_adds(out, n->suffix);
}

/*
 * Renders the kernel with as many arguments, from the left, as fit. Returns whether an omitted
 * argument has arguments or a lambda itself: it probably describes what the kernel does.
 */
static bool render_cut(const struct name *n, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf argument = STRBUF_INIT;
	const struct name *a = n->args;
	size_t start = out->length;

	render_label(n, DETAIL_DEPTH_2, out);
	for (; a; a = a->next) {
		strbuf_clear(&argument);
		render(a, 1, DETAIL_DEPTH_2, &argument);
		if (out->length - start + argument.length + strlen(", , ...>") > KERNEL_NAME_MAX)
			break;
		strbuf_addf(out, "%s%s", a == n->args ? "<" : ", ", strbuf_text(&argument));
	}
	strbuf_adds(out, a == n->args ? "<...>" : ", ...>");
	out->failed |= argument.failed;
	while (a && !a->args && !a->lambda)
		a = a->next;
	return a != NULL;
}

/* Cuts the middle out of the text from `start` on, at character boundaries, so that it fits. */
static void cut_middle(struct strbuf *out, size_t start)
{
	size_t length = out->length - start, head = (KERNEL_NAME_MAX - 3) * 2 / 3;
	size_t tail = length - (KERNEL_NAME_MAX - 3 - head);
	char *text = out->data + start;

	if (length <= KERNEL_NAME_MAX)
		return;
	while (head && (text[head] & 0xc0) == 0x80)
		head--;
	while (tail < length && (text[tail] & 0xc0) == 0x80)
		tail++;
	memcpy(text + head, "...", 3);
	memmove(text + head + 3, text + tail, length - tail + 1);
	out->length = start + head + 3 + length - tail;
}

/* Replaces control characters and invalid UTF-8 by '?': names come from files, go to terminals. */
static void sanitize(struct strbuf *out, size_t start)
{
	size_t to = start, bad = 1;

	for (size_t i = start; i < out->length;) {
		size_t n = utf8_length(out->data + i, out->length - i, &bad);
		uint8_t c = (uint8_t)out->data[i];
		bool c1 = n == 2 && c == 0xc2 && (uint8_t)out->data[i + 1] < 0xa0;

		if (n == 0 || c < 0x20 || c == 0x7f || c1) {
			out->data[to++] = '?';
			i += n ? n : bad;
			continue;
		}
		memmove(out->data + to, out->data + i, n);
		to += n;
		i += n;
	}
	out->length = to;
	out->data[to] = '\0';
}

static bool render_fits(const struct name *root, enum detail detail, struct strbuf *out)
{
	size_t start = out->length;

	render(root, 0, detail, out);
	if (out->failed || out->length - start <= KERNEL_NAME_MAX)
		return true;
	out->length = start;
	return false;
}

static void shorten_tree(const struct name *root, struct strbuf *out)
{
	size_t start = out->length;

	for (enum detail detail = DETAIL_ALL; detail < DETAIL_NAMES; detail++)
		if (render_fits(root, detail, out))
			return;
	if (root->args && !render_cut(root, out))
		return;
	out->length = start;
	if (!render_fits(root, DETAIL_NAMES, out))
		render_cut(root, out);
}

/* Shortens a mangled name that cannot be demangled to its last part, the function's name. */
static void shorten_mangled(const char *name, struct strbuf *out)
{
	const char *label = name, *p = name + 2;
	size_t length = strlen(name);
	bool has_arguments = false;

	while (*p && strchr("NKLS", *p))
		p += p[0] == 'S' && p[1] ? 2 : 1;
	while (isdigit((unsigned char)*p)) {
		size_t n = 0;

		while (isdigit((unsigned char)*p) && n < TEXT_MAX)
			n = 10 * n + (size_t)(*p++ - '0');
		if (n > strlen(p))
			break;
		label = p;
		length = n;
		p += n;
		has_arguments = *p == 'I';
	}
	strbuf_add(out, label, MIN(length, TEXT_MAX));
	if (has_arguments)
		strbuf_adds(out, "<...>");
}

static bool is_cpp(const char *text)
{
	return strpbrk(text, "<(") || strstr(text, "::");
}

const char *kernel_name_mangled(const char *name)
{
	const char *inner = strncmp(name, "__nv_static_", 12) == 0 ? strstr(name, "__Z") : NULL;

	return inner ? inner + 1 : name;
}

void kernel_name_shorten(const char *name, const char *text, struct strbuf *out)
{
	struct arena arena = ARENA_INIT;
	size_t start = out->length;
	struct name *root = NULL;

	if (text == name && strncmp(name, "_Z", 2) == 0) {
		shorten_mangled(name, out);
	} else if (is_cpp(text)) {
		root = name_tree_parse(text, MIN(strlen(text), TEXT_MAX), &arena);
		root = root ? name_simplify(root, &arena) : NULL;
	}
	if (root && root->label[0])
		shorten_tree(root, out);
	else if (out->length == start)
		word_shorten(text, out);
	arena_release(&arena);
	if (out->failed || out->length == start)
		return;
	sanitize(out, start);
	cut_middle(out, start);
}
