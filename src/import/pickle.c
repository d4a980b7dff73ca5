#include "import/pickle.h"

#include <string.h>

#include "base/bytes.h"

#define VALUES_MAX (1u << 25)
#define LISTS_MAX (1u << 24)
#define ITEMS_MAX (1u << 26) /* of all lists */
#define MARKS_MAX 65536u /* lists within lists */
#define MEMBERS_MAX 512u /* of a dictionary in which members are searched */

enum kind { OTHER, INTEGER, TEXT, LIST, DICT };

struct pickle_value {
	enum kind kind;
	uint32_t length; /* of a text */
	union {
		int64_t integer;
		const char *text;
		uint32_t list; /* in p->lists */
	};
};

struct pickle_list {
	VEC(uint32_t) items;
};

enum opcode {
	MARK = '(',
	STOP = '.',
	POP = '0',
	POP_MARK = '1',
	BINFLOAT = 'G',
	BININT = 'J',
	BININT1 = 'K',
	BININT2 = 'M',
	NONE = 'N',
	BINUNICODE = 'X',
	EMPTY_LIST = ']',
	APPEND = 'a',
	APPENDS = 'e',
	BINGET = 'h',
	LONG_BINGET = 'j',
	BINPUT = 'q',
	LONG_BINPUT = 'r',
	SETITEM = 's',
	TUPLE = 't',
	SETITEMS = 'u',
	EMPTY_TUPLE = ')',
	EMPTY_DICT = '}',
	BINBYTES = 'B',
	SHORT_BINBYTES = 'C',
	PROTO = 0x80,
	TUPLE1 = 0x85,
	TUPLE2,
	TUPLE3,
	NEWTRUE = 0x88,
	NEWFALSE,
	LONG1 = 0x8a,
	LONG4,
	SHORT_BINUNICODE = 0x8c,
	BINUNICODE8,
	MEMOIZE = 0x94,
	FRAME,
};

static int push_item(struct pickle *p, uint32_t value)
{
	return p->stack.count < VALUES_MAX ? vec_push(&p->stack, value) : E_LIMIT;
}

static int push(struct pickle *p, struct pickle_value value)
{
	if (p->values.count >= VALUES_MAX)
		return E_LIMIT;
	if (vec_push(&p->values, value) < 0)
		return -ENOMEM;
	return push_item(p, (uint32_t)p->values.count - 1);
}

static int push_integer(struct pickle *p, int64_t integer)
{
	return push(p, (struct pickle_value){ .kind = INTEGER, .integer = integer });
}

static int push_text(struct pickle *p, struct cursor *c, uint64_t length)
{
	const void *text = length <= UINT32_MAX ? cursor_bytes(c, (size_t)length) : NULL;

	return text || !length ? push(p, (struct pickle_value){ .kind = TEXT,
								.length = (uint32_t)length,
								.text = text })
			       : E_FORMAT;
}

/* A long is little-endian and signed; one that does not fit is no integer. */
static int push_long(struct pickle *p, struct cursor *c, uint64_t length)
{
	const uint8_t *bytes = cursor_bytes(c, (size_t)MIN(length, SIZE_MAX));
	uint64_t value = 0;

	if (length && !bytes)
		return E_FORMAT;
	/* an address above 2^63 has a ninth byte, which is 0 */
	if (length > 9 || (length == 9 && bytes[8] != 0))
		return push(p, (struct pickle_value){ .kind = OTHER });
	for (size_t i = 0; i < length && i < 8; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	if (length && length < 8 && bytes[length - 1] & 0x80)
		value |= UINT64_MAX << 8 * length;
	return push_integer(p, (int64_t)value);
}

static int push_list(struct pickle *p, enum kind kind)
{
	struct pickle_list list = { .items = VEC_INIT };

	if (p->lists.count >= LISTS_MAX)
		return E_LIMIT;
	if (vec_push(&p->lists, list) < 0)
		return -ENOMEM;
	return push(p, (struct pickle_value){ .kind = kind, .list = (uint32_t)p->lists.count - 1 });
}

/* Moves what is above a height of the stack into a list. */
static int move_items(struct pickle *p, size_t height, uint32_t list)
{
	p->items += p->stack.count - height;
	if (p->items > ITEMS_MAX)
		return E_LIMIT;
	for (size_t i = height; i < p->stack.count; i++)
		if (vec_push(&p->lists.data[list].items, p->stack.data[i]) < 0)
			return -ENOMEM;
	p->stack.count = height;
	return 0;
}

/* Moves what is above a height of the stack into the list below it. */
static int append_from(struct pickle *p, size_t height, enum kind kind)
{
	const struct pickle_value *v;

	if (!height || height > p->stack.count)
		return E_FORMAT;
	v = &p->values.data[p->stack.data[height - 1]];
	if (v->kind != kind || (kind == DICT && (p->stack.count - height) % 2))
		return E_FORMAT;
	return move_items(p, height, v->list);
}

static int make_tuple(struct pickle *p, size_t height)
{
	uint32_t tuple;
	int rc;

	if (height > p->stack.count)
		return E_FORMAT;
	rc = push_list(p, LIST);
	if (rc < 0)
		return rc;
	tuple = p->stack.data[--p->stack.count];
	rc = move_items(p, height, p->values.data[tuple].list);
	return rc < 0 ? rc : push_item(p, tuple);
}

/* Returns the height of the last mark, which it removes; SIZE_MAX if there is none. */
static size_t pop_mark(struct pickle *p)
{
	return p->marks.count ? p->marks.data[--p->marks.count] : SIZE_MAX;
}

static size_t below(const struct pickle *p, size_t count)
{
	return p->stack.count >= count ? p->stack.count - count : SIZE_MAX;
}

static int get(struct pickle *p, uint64_t number)
{
	uint64_t value;

	return map_get(&p->memo, number, &value) ? push_item(p, (uint32_t)value) : E_FORMAT;
}

static int put(struct pickle *p, uint64_t number)
{
	if (p->memo.count >= VALUES_MAX)
		return E_LIMIT;
	return p->stack.count ? map_put(&p->memo, number, p->stack.data[p->stack.count - 1])
			      : E_FORMAT;
}

static int execute(struct pickle *p, struct cursor *c, uint8_t opcode)
{
	size_t height;

	switch (opcode) {
	case PROTO:
		return cursor_u8(c) <= 5 ? 0 : E_UNSUPPORTED;
	case FRAME:
		cursor_u64(c);
		return 0;
	case MARK:
		return p->marks.count < MARKS_MAX ? vec_push(&p->marks, (uint32_t)p->stack.count)
						  : E_LIMIT;
	case POP:
		p->stack.count -= p->stack.count != 0;
		return 0;
	case POP_MARK:
		height = pop_mark(p);
		p->stack.count = MIN(p->stack.count, height);
		return height == SIZE_MAX ? E_FORMAT : 0;
	case NONE:
	case NEWFALSE:
		return push(p, (struct pickle_value){ .kind = OTHER });
	case NEWTRUE:
		return push_integer(p, 1);
	case BINFLOAT:
		cursor_u64(c);
		return push(p, (struct pickle_value){ .kind = OTHER });
	case BININT:
		return push_integer(p, (int32_t)cursor_u32(c));
	case BININT1:
		return push_integer(p, cursor_u8(c));
	case BININT2:
		return push_integer(p, cursor_u16(c));
	case LONG1:
		return push_long(p, c, cursor_u8(c));
	case LONG4:
		return push_long(p, c, cursor_u32(c));
	case SHORT_BINBYTES:
	case SHORT_BINUNICODE:
		return push_text(p, c, cursor_u8(c));
	case BINBYTES:
	case BINUNICODE:
		return push_text(p, c, cursor_u32(c));
	case BINUNICODE8:
		return push_text(p, c, cursor_u64(c));
	case EMPTY_LIST:
	case EMPTY_TUPLE:
		return push_list(p, LIST);
	case EMPTY_DICT:
		return push_list(p, DICT);
	case APPEND:
		return append_from(p, below(p, 1), LIST);
	case APPENDS:
		return append_from(p, pop_mark(p), LIST);
	case SETITEM:
		return append_from(p, below(p, 2), DICT);
	case SETITEMS:
		return append_from(p, pop_mark(p), DICT);
	case TUPLE:
		return make_tuple(p, pop_mark(p));
	case TUPLE1:
	case TUPLE2:
	case TUPLE3:
		return make_tuple(p, below(p, opcode - TUPLE1 + 1u));
	case BINGET:
		return get(p, cursor_u8(c));
	case LONG_BINGET:
		return get(p, cursor_u32(c));
	case BINPUT:
		return put(p, cursor_u8(c));
	case LONG_BINPUT:
		return put(p, cursor_u32(c));
	case MEMOIZE:
		return put(p, p->memo.count);
	default:
		return E_UNSUPPORTED;
	}
}

int pickle_read(struct pickle *p, const void *bytes, size_t length, struct error *e)
{
	struct cursor c = cursor_of(bytes, length);
	int rc = 0;

	*p = (struct pickle){ .top = PICKLE_NONE };
	while (rc == 0) {
		size_t at = length - cursor_left(&c);
		uint8_t opcode = cursor_u8(&c);

		if (opcode == STOP && !c.failed)
			break;
		rc = c.failed ? E_FORMAT : execute(p, &c, opcode);
		if (rc == 0 && c.failed)
			rc = E_FORMAT;
		if (rc == E_UNSUPPORTED)
			return error_set(e, rc,
					 "byte %zu: pickle opcode 0x%02x, which is no data: "
					 "objects and calls are not read",
					 at, opcode);
		if (rc == E_FORMAT)
			return error_set(e, rc, "byte %zu: the pickle is damaged or cut off", at);
	}
	if (rc < 0)
		return error_set(e, rc, "%s", error_code_text(rc));
	if (p->stack.count)
		p->top = p->stack.data[p->stack.count - 1];
	return 0;
}

void pickle_release(struct pickle *p)
{
	for (size_t i = 0; i < p->lists.count; i++)
		vec_release(&p->lists.data[i].items);
	vec_release(&p->values);
	vec_release(&p->lists);
	vec_release(&p->stack);
	vec_release(&p->marks);
	map_release(&p->memo);
}

static const struct pickle_list *list_of(const struct pickle *p, uint32_t value, enum kind kind)
{
	return value < p->values.count && p->values.data[value].kind == kind
		       ? &p->lists.data[p->values.data[value].list]
		       : NULL;
}

struct pickle_items pickle_items(const struct pickle *p, uint32_t value)
{
	const struct pickle_list *list = list_of(p, value, LIST);

	return list ? (struct pickle_items){ list->items.data, list->items.count }
		    : (struct pickle_items){ NULL, 0 };
}

struct pickle_text pickle_text(const struct pickle *p, uint32_t value)
{
	const struct pickle_value *v = value < p->values.count ? &p->values.data[value] : NULL;

	return v && v->kind == TEXT ? (struct pickle_text){ v->text, v->length }
				    : (struct pickle_text){ "", 0 };
}

uint32_t pickle_member(const struct pickle *p, uint32_t dict, const char *key)
{
	const struct pickle_list *list = list_of(p, dict, DICT);
	size_t length = strlen(key);

	for (size_t i = 0; list && i + 1 < list->items.count && i < 2 * MEMBERS_MAX; i += 2) {
		struct pickle_text t = pickle_text(p, list->items.data[i]);

		if (t.length == length && !memcmp(t.bytes, key, length))
			return list->items.data[i + 1];
	}
	return PICKLE_NONE;
}

bool pickle_integer(const struct pickle *p, uint32_t value, int64_t *out)
{
	const struct pickle_value *v = value < p->values.count ? &p->values.data[value] : NULL;

	if (!v || v->kind != INTEGER)
		return false;
	*out = v->integer;
	return true;
}
