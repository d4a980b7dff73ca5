#include "agent/lake_compacted.h"

#include <string.h>

#include "base/bytes.h"
#include "base/folder.h"
#include "base/map.h"
#include "base/search.h"

#define MAGIC "PITOTCMP"
#define HEAD (strlen(MAGIC) + sizeof(uint64_t))
#define BYTES_MAX ((size_t)256 << 20)

int lake_compacted_read(int folder, struct lake_compacted *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = folder_read_file(folder, LAKE_COMPACTED, BYTES_MAX, &text);
	size_t count = text.length < HEAD ? 0 : (text.length - HEAD) / sizeof(uint64_t);

	*out = (struct lake_compacted){ .generation = 0 };
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	if (text.length != HEAD + count * sizeof(uint64_t) ||
	    memcmp(text.data, MAGIC, strlen(MAGIC)) != 0)
		return E_FORMAT;
	if (vec_reserve(&out->names, count) < 0)
		return -ENOMEM;
	out->generation = load_u64(text.data + strlen(MAGIC));
	out->names.count = count;
	if (count)
		memcpy(out->names.data, text.data + HEAD, count * sizeof(uint64_t));
	return 0;
}

static uint64_t hash_of(const char *name)
{
	return hash_bytes(name, strlen(name));
}

bool lake_compacted_has(const struct lake_compacted *c, const char *name)
{
	uint64_t hash = hash_of(name);
	size_t at = sorted_prefix(c->names.count, i, c->names.data[i] < hash);

	return at < c->names.count && c->names.data[at] == hash;
}

int lake_compacted_add(struct lake_compacted *c, const char *name)
{
	return vec_push(&c->names, hash_of(name));
}

int lake_compacted_write(int folder, struct lake_compacted *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	vec_sort(&c->names, order_u64);
	strbuf_adds(&text, MAGIC);
	strbuf_add(&text, &c->generation, sizeof(c->generation));
	if (c->names.count)
		strbuf_add(&text, c->names.data, c->names.count * sizeof(uint64_t));
	return text.failed ? -ENOMEM : folder_write_file(folder, LAKE_COMPACTED, &text, true);
}

void lake_compacted_release(struct lake_compacted *c)
{
	vec_release(&c->names);
}
