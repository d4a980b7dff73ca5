#include "analysis/stacks_names.h"

#include <string.h>

#include "base/path.h"
#include "base/starts_with.h"
#include "names/module_name.h"
#include "vendor/vendors.h"

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t n = strlen(end);

	return length >= n && !memcmp(text + length - n, end, n);
}

/* Length without compiler annotations and qualifiers: " [clone .cold]", " const", "&". */
static size_t trim_end(const char *name, size_t length)
{
	static const char *const ends[] = { " const", " volatile", "&", " " };
	bool again = true;

	while (again && length) {
		again = false;
		for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
			if (ends_with(name, length, ends[i]) && length > strlen(ends[i])) {
				length -= strlen(ends[i]);
				again = true;
			}
		if (name[length - 1] == ']') {
			const char *clone = memrchr(name, '[', length);

			if (clone && clone > name && !strncmp(clone, "[clone ", 7)) {
				length = (size_t)(clone - name);
				again = true;
			}
		}
	}
	return length;
}

/* Start of the brackets that end at `end`; `end` itself if they are not balanced. */
static size_t opening(const char *name, size_t end, char open, char close)
{
	unsigned depth = 0;

	for (size_t i = end; i-- > 0;) {
		depth += name[i] == close;
		if (name[i] == open && --depth == 0)
			return i;
	}
	return end;
}

/* Length without the parameter list at the end; the brackets of "operator()" are not a list. */
static size_t cut_parameters(const char *name, size_t length)
{
	size_t start;

	length = trim_end(name, length);
	if (!length || name[length - 1] != ')')
		return length;
	start = opening(name, length, '(', ')');
	if (start == length || start == 0 || ends_with(name, start, "operator") ||
	    !strncmp(name + start, "(anonymous", 10))
		return length;
	return start;
}

/* Length of "operator" and its symbol, whose signs are not brackets; 0: there is none at i. */
static size_t operator_length(const char *name, size_t i, size_t length)
{
	size_t n = 8;

	if (length - i < n || memcmp(name + i, "operator", n) != 0 ||
	    (i > 0 && name[i - 1] != ':' && name[i - 1] != ' '))
		return 0;
	while (i + n < length && strchr("<>-=()[]", name[i + n]) && n < 11)
		n++;
	/* "operator()<int>", "operator< <int>": template arguments do not belong to the symbol */
	if (n == 11 && name[i + 10] == '<')
		n--;
	return n;
}

static int depth_change(char c)
{
	return c == '<' || c == '(' || c == '[' || c == '{'   ? 1
	       : c == '>' || c == ')' || c == ']' || c == '}' ? -1
							      : 0;
}

/* Start of the name after its return type. */
static size_t skip_return_type(const char *name, size_t length)
{
	size_t start = 0, skip;
	int depth = 0;

	for (size_t i = 0; i < length; i++) {
		skip = depth ? 0 : operator_length(name, i, length);
		if (skip) /* the rest is the name: "operator new", "operator unsigned int" */
			break;
		depth += depth_change(name[i]);
		if (name[i] == ' ' && depth == 0)
			start = i + 1;
	}
	return start;
}

/* Appends the name with "<...>" in place of its template arguments. */
static void add_collapsed(const char *name, size_t length, struct strbuf *out)
{
	unsigned depth = 0;
	size_t skip;

	for (size_t i = 0; i < length; i += skip) {
		skip = depth ? 0 : operator_length(name, i, length);
		if (skip) {
			strbuf_add(out, name + i, skip);
			continue;
		}
		skip = 1;
		if (name[i] == '<' && depth++ == 0)
			strbuf_adds(out, "<...>");
		else if (name[i] == '>' && depth && (i == 0 || name[i - 1] != '-'))
			depth--;
		else if (!depth)
			strbuf_addc(out, name[i]);
	}
}

/*
 * Appends the owner in Rust's "<type as trait>::function" and "<type>::function" and in C++'s
 * "<lambda(int)>::operator()": the first pair of brackets contains the owner, not arguments.
 * Returns its length.
 */
static size_t add_owner(const char *name, size_t length, struct strbuf *out)
{
	static const char as[] = " as ";
	size_t end = 0, start = 1;
	unsigned depth = 0;

	if (!length || name[0] != '<')
		return 0;
	for (size_t i = 0; i < length && !end; i++) {
		depth += name[i] == '<';
		if (name[i] == '>' && name[i - 1] != '-' && --depth == 0)
			end = i;
		if (depth == 1 && length - i > strlen(as) && !memcmp(name + i, as, strlen(as)))
			start = i + strlen(as);
	}
	if (!end || start >= end)
		return 0;
	strbuf_adds(out, start > 1 ? "<... as " : "<");
	add_collapsed(name + start, end - start, out);
	strbuf_addc(out, '>');
	return end + 1;
}

void function_name_short(const char *name, struct strbuf *out)
{
	size_t length = cut_parameters(name, strlen(name)), start = 0;

	if (memchr(name, '<', length) || name[length])
		start = skip_return_type(name, length);
	name += start;
	length -= start;
	if (length <= FUNCTION_NAME_MAX || !memchr(name, '<', length)) {
		strbuf_add(out, name, length);
		return;
	}
	start = add_owner(name, length, out);
	add_collapsed(name + start, length - start, out);
}

void python_name(const char *function, const char *file, uint32_t line, struct strbuf *out)
{
	strbuf_adds(out, function);
	if (!*file)
		return;
	strbuf_addf(out, " (%s", base_name(file));
	if (line)
		strbuf_addf(out, ":%u", line);
	strbuf_addc(out, ')');
}

static bool contains_one(const char *text, const char *const *parts)
{
	for (; *parts; parts++)
		if (strstr(text, *parts))
			return true;
	return false;
}

bool is_interpreter(const char *path)
{
	static const char *const names[] = { "python", "libpython", NULL };

	return starts_with_one(base_name(path), names);
}

bool runs_python(const char *path)
{
	static const char *const names[] = { "libc.so", "libc-2", "libpthread", NULL };

	return is_interpreter(path) || starts_with_one(base_name(path), names);
}

bool is_library_module(const char *path)
{
	static const char *const names[] = {
		"[vdso]",    "linux-vdso", "ld-linux",   "libc.so",       "libc-2",
		"libm.so",   "libm-2",     "libpthread", "libdl",         "librt",
		"libstdc++", "libgcc_s",   "libgomp",    "libiomp",       "libomp",
		"libmkl",    "libopenbl",  "libtorch",   "libc10",        "libcaffe2",
		"libjax",    "libxla",     "libtriton",  "libtensorflow", NULL,
	};
	static const char *const folders[] = { "/usr/lib/", "/usr/lib64/", "/usr/lib32/", "/lib/",
					       "/lib64/",   "/lib32/",     NULL };
	static const char *const parts[] = { "/site-packages/", "/dist-packages/", "/lib-dynload/",
					     NULL };

	return is_vendor_module(path) || vendor_is_library(path) || vendor_is_folder(path) ||
	       is_interpreter(path) || starts_with_one(base_name(path), names) ||
	       starts_with_one(path, folders) || contains_one(path, parts);
}

/* ".../lib/python3.12/json/decoder.py" */
static bool is_python_library(const char *path)
{
	const char *at = path;

	while ((at = strstr(at, "/python")) != NULL) {
		const char *version = at + strlen("/python");
		size_t digits = strspn(version, "0123456789.");

		if (digits && version[digits] == '/' &&
		    ((at - path >= 4 && !strncmp(at - 4, "/lib", 4)) ||
		     (at - path >= 6 && !strncmp(at - 6, "/lib64", 6))))
			return true;
		at = version;
	}
	return false;
}

bool is_library_source(const char *path)
{
	static const char *const heads[] = { "<frozen", "/usr/include/", NULL };
	static const char *const parts[] = { "/site-packages/", "/dist-packages/", "/include/c++/",
					     NULL };

	return starts_with_one(path, heads) || contains_one(path, parts) ||
	       vendor_is_folder(path) || is_python_library(path);
}

bool is_framework_wrapper(const char *function, const char *file)
{
	static const char *const names[] = {
		"_call_impl",       "_wrapped_call_impl",
		"decorate_context", "wrapper",
		"wrapped",          "inner",
		"wrapped_func",     "_fn",
		"_lazy_forward",
	};
	static const char *const heads[] = { "<frozen", NULL };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t length = strlen(function), n = strlen(names[i]);

		/* "Module._call_impl", "f.<locals>.wrapper" */
		if (length >= n && !strcmp(function + length - n, names[i]) &&
		    (length == n || function[length - n - 1] == '.'))
			return true;
	}
	return starts_with_one(file, heads);
}

bool is_framework_source(const char *file)
{
	static const char *const parts[] = { "/torch/",      "/jax/",    "/jaxlib/",
					     "/tensorflow/", "/triton/", "/numpy/",
					     "/cupy/",       "/flax/",   NULL };

	return is_library_source(file) &&
	       (contains_one(file, parts) ||
		!contains_one(file, (const char *const[]){ "-packages/", NULL }));
}

bool is_autograd_thread(const char *name)
{
	return strncmp(name, "pt_autograd_", strlen("pt_autograd_")) == 0;
}

bool is_start_of_thread(const char *function)
{
	static const char *const names[] = { "_start", "__libc_start", "__clone",
					     "clone",  "start_thread", NULL };

	return starts_with_one(function, names);
}
