#include "base/xml_pull.h"

#include <errno.h>
#include <string.h>

#define INPUT_BYTES ((size_t)64 << 10)
#define NAME_MAX_BYTES 256u

static int fail(const struct xml_pull *p, struct error *e, const char *what)
{
	return error_set(e, E_FORMAT, "line %llu: %s", (unsigned long long)p->line + 1, what);
}

/* Returns the next byte, which stays; -1 at the end, or a negative code. */
static int peek(struct xml_pull *p)
{
	ssize_t n;

	if (p->at < p->length)
		return (unsigned char)p->input[p->at];
	if (p->ended)
		return -1;
	if (!p->input && !(p->input = malloc(INPUT_BYTES)))
		return -ENOMEM;
	n = p->read(p->user, p->input, INPUT_BYTES);
	if (n <= 0) {
		p->ended = n == 0;
		return n < 0 ? (int)n : -1;
	}
	p->at = 0;
	p->length = (size_t)n;
	return (unsigned char)*p->input;
}

static int next(struct xml_pull *p)
{
	int c = peek(p);

	if (c >= 0) {
		p->at++;
		p->line += c == '\n';
	}
	return c;
}

static int at_end(const struct xml_pull *p, struct error *e, int c)
{
	if (c < -1)
		return error_set(e, c, "%s", error_code_text(c));
	return fail(p, e, "the document ends within an element");
}

static bool is_blank(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int skip_blanks(struct xml_pull *p)
{
	int c;

	while (is_blank(c = peek(p)))
		next(p);
	return c;
}

/* Skips to the end of a mark, such as "-->". */
static int skip_past(struct xml_pull *p, const char *mark, struct strbuf *text, struct error *e)
{
	size_t length = strlen(mark), matched = 0;
	int c;

	while (matched < length) {
		c = next(p);
		if (c < 0)
			return at_end(p, e, c);
		if (text && text->length < XML_TEXT_MAX)
			strbuf_addc(text, (char)c);
		/* Only ']' and '-' of "]]>" and "-->" can repeat before the end. */
		if (c == mark[matched])
			matched++;
		else if (!(matched == length - 1 && c == mark[0]))
			matched = c == mark[0];
	}
	if (text && text->length >= length && text->length < XML_TEXT_MAX)
		text->data[text->length -= length] = '\0';
	return 0;
}

static void add_character(struct strbuf *out, uint32_t c)
{
	char bytes[4];
	size_t length = 0;

	if (c < 0x80) {
		bytes[length++] = (char)c;
	} else if (c < 0x800) {
		bytes[length++] = (char)(0xc0 | c >> 6);
	} else if (c < 0x10000) {
		bytes[length++] = (char)(0xe0 | c >> 12);
		bytes[length++] = (char)(0x80 | (c >> 6 & 63));
	} else {
		bytes[length++] = (char)(0xf0 | c >> 18);
		bytes[length++] = (char)(0x80 | (c >> 12 & 63));
		bytes[length++] = (char)(0x80 | (c >> 6 & 63));
	}
	if (c >= 0x80)
		bytes[length++] = (char)(0x80 | (c & 63));
	strbuf_add(out, bytes, length);
}

/* What stands between & and ;. Returns 0, or -1 if there is no such entity. */
static int add_entity(struct strbuf *out, const char *name)
{
	static const char entities[][2][5] = {
		{ "lt", "<" }, { "gt", ">" }, { "amp", "&" }, { "quot", "\"" }, { "apos", "'" }
	};
	unsigned long c;
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(entities); i++)
		if (!strcmp(name, entities[i][0])) {
			strbuf_adds(out, entities[i][1]);
			return 0;
		}
	if (name[0] != '#' || strspn(name + 1, "0123456789abcdefABCDEFx") != strlen(name + 1) ||
	    !name[1] || (name[1] == 'x' && !name[2]))
		return -1;
	c = strtoul(name + 1 + (name[1] == 'x'), &end, name[1] == 'x' ? 16 : 10);
	if (*end || c > 0x10ffff)
		return -1;
	add_character(out, c && (c < 0xd800 || c > 0xdfff) ? (uint32_t)c : 0xfffd);
	return 0;
}

/* Appends a byte of a text or a value, or the entity that it begins. Returns 0 or a code. */
static int add_text(struct xml_pull *p, struct strbuf *out, size_t start, int c, struct error *e)
{
	char name[12];
	size_t length = 0;

	if (c != '&') {
		if (out->length - start < XML_TEXT_MAX)
			strbuf_addc(out, c ? (char)c : '?');
		return 0;
	}
	while ((c = next(p)) != ';') {
		if (c < -1)
			return at_end(p, e, c);
		if (c < 0 || length == sizeof(name) - 1)
			return fail(p, e, "an entity that is none of XML's own");
		name[length++] = (char)c;
	}
	name[length] = '\0';
	if (add_entity(out, name) < 0)
		return fail(p, e, "an entity that is none of XML's own");
	return 0;
}

static int read_name(struct xml_pull *p, struct strbuf *out, struct error *e)
{
	size_t start = out->length;
	int c;

	while ((c = peek(p)) > ' ' && !strchr("=/><\"'&?!", c)) {
		if (out->length - start >= NAME_MAX_BYTES)
			return fail(p, e, "a name of more than 256 bytes");
		strbuf_addc(out, (char)next(p));
	}
	if (c < -1)
		return at_end(p, e, c);
	return out->length > start ? 0 : fail(p, e, "no name where one should be");
}

static int read_attribute(struct xml_pull *p, struct error *e)
{
	size_t start;
	int c, quote, rc = read_name(p, &p->attributes, e);

	if (rc < 0)
		return rc;
	strbuf_addc(&p->attributes, '\0');
	if (skip_blanks(p) != '=')
		return fail(p, e, "an attribute without a value");
	next(p);
	quote = skip_blanks(p);
	if (quote != '"' && quote != '\'')
		return fail(p, e, "a value without quotes");
	next(p);
	start = p->attributes.length;
	while ((c = next(p)) != quote) {
		if (c < 0)
			return at_end(p, e, c);
		if (c == '<')
			return fail(p, e, "a '<' within a value");
		rc = add_text(p, &p->attributes, start, c, e);
		if (rc < 0)
			return rc;
	}
	strbuf_addc(&p->attributes, '\0');
	if (++p->attribute_count > XML_ATTRIBUTES_MAX)
		return fail(p, e, "an element with more than 32 attributes");
	return 0;
}

static int open_element(struct xml_pull *p, struct error *e)
{
	int c, rc;

	strbuf_clear(&p->name);
	strbuf_clear(&p->attributes);
	p->attribute_count = 0;
	rc = read_name(p, &p->name, e);
	while (rc >= 0 && (c = skip_blanks(p)) != '>' && c != '/')
		rc = c < 0 ? at_end(p, e, c) : read_attribute(p, e);
	if (rc < 0)
		return rc;
	p->closes = next(p) == '/';
	if (p->closes && next(p) != '>')
		return fail(p, e, "no '>' after '/'");
	if (p->depth == XML_DEPTH_MAX)
		return fail(p, e, "more than 64 elements within each other");
	if (p->is_over)
		return fail(p, e, "a second document");
	p->depth++;
	strbuf_add(&p->path, strbuf_text(&p->name), p->name.length + 1);
	return XML_OPEN;
}

/* Ends the innermost element, whose name is set. */
static int close_element(struct xml_pull *p)
{
	size_t start = p->path.length - 1;

	while (start && p->path.data[start - 1])
		start--;
	strbuf_clear(&p->name);
	strbuf_adds(&p->name, p->path.data + start);
	p->path.length = start;
	p->is_over = --p->depth == 0;
	return XML_CLOSE;
}

static int read_close(struct xml_pull *p, struct error *e)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	int rc = read_name(p, &name, e);

	if (rc < 0)
		return rc;
	if (skip_blanks(p) != '>')
		return fail(p, e, "no '>' where an element ends");
	next(p);
	if (!p->depth)
		return fail(p, e, "the end of an element that has not begun");
	close_element(p);
	return !strcmp(strbuf_text(&p->name), strbuf_text(&name))
		       ? XML_CLOSE
		       : fail(p, e, "an element ends that is not the innermost one");
}

/* <!-- -->, <![CDATA[ ]]>, or a document type, which is refused. */
static int read_mark(struct xml_pull *p, struct error *e)
{
	static const char comment[] = "--", cdata[] = "[CDATA[";
	const char *rest = peek(p) == '-' ? comment : cdata;

	for (; *rest; rest++)
		if (next(p) != *rest)
			return fail(p, e, "a document type, which is not read");
	return rest == comment + strlen(comment) ? skip_past(p, "-->", NULL, e)
						 : skip_past(p, "]]>", &p->text, e);
}

int xml_pull_next(struct xml_pull *p, struct error *e)
{
	int c, rc = 0;

	strbuf_clear(&p->text);
	if (p->closes) {
		p->closes = false;
		return close_element(p);
	}
	while (rc >= 0) {
		c = next(p);
		if (c < -1)
			return error_set(e, c, "%s", error_code_text(c));
		if (c < 0)
			return p->depth || !p->is_over ? at_end(p, e, c) : XML_END;
		if (!c && !p->depth)
			return fail(p, e, "a NUL byte outside of all elements");
		if (c != '<') {
			rc = add_text(p, &p->text, 0, c, e);
			continue;
		}
		c = peek(p);
		if (c == '/' || c == '?' || c == '!')
			next(p);
		if (c == '/')
			rc = read_close(p, e);
		else if (c == '?')
			rc = skip_past(p, "?>", NULL, e);
		else if (c == '!')
			rc = read_mark(p, e);
		else
			rc = open_element(p, e);
		if (p->name.failed || p->text.failed || p->attributes.failed || p->path.failed)
			return error_set(e, -ENOMEM, "out of memory");
		if (rc != 0)
			return rc;
	}
	return rc;
}

const char *xml_attribute(const struct xml_pull *p, const char *name)
{
	const char *at = strbuf_text(&p->attributes);

	for (unsigned i = 0; i < p->attribute_count; i++) {
		const char *value = at + strlen(at) + 1;

		if (!strcmp(at, name))
			return value;
		at = value + strlen(value) + 1;
	}
	return NULL;
}

void xml_pull_release(struct xml_pull *p)
{
	free(p->input);
	p->input = NULL;
	strbuf_release(&p->name);
	strbuf_release(&p->text);
	strbuf_release(&p->attributes);
	strbuf_release(&p->path);
}
