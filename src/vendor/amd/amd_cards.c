#include "vendor/amd/amd_cards.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/io.h"
#include "vendor/vendors.h"

const char *amd_path(char *out, const char *path)
{
	const char *root = secure_getenv("PITOT_AMD_ROOT");

	snprintf(out, AMD_PATH_MAX, "%s%s", root ? root : "", path);
	return out;
}

int amd_read(const char *folder, const char *file, struct strbuf *out)
{
	char path[AMD_PATH_MAX];
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	strbuf_clear(out);
	rc = io_read_file(path, AMD_FILE_MAX, out);
	while (rc >= 0 && out->length && isspace((unsigned char)out->data[out->length - 1]))
		out->data[--out->length] = '\0';
	return MIN(rc, 0);
}

int amd_read_number(const char *folder, const char *file, int64_t *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = amd_read(folder, file, &text);
	char *end;
	long long value;

	if (rc < 0)
		return rc;
	errno = 0;
	value = strtoll(strbuf_text(&text), &end, 10);
	if (errno || end == strbuf_text(&text) || *end)
		return -ENODATA;
	*out = value;
	return 0;
}

/* Returns the value behind a name at the start of a line: "location_id 768"; -1: there is none. */
static int64_t property(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) == 0 && line[length] == ' ')
			return strtoll(line + length, NULL, 10);
	}
	return -1;
}

static int known(int64_t value)
{
	return value > 0 && value <= INT32_MAX ? (int)value : -1;
}

/*
 * 90402 is gfx942: decimal digits of major, minor and stepping, of which the last may be a letter.
 */
static void read_architecture(struct amd_card *c, int64_t version)
{
	if (version > 0 && version < 10000000)
		snprintf(c->gpu.architecture, sizeof(c->gpu.architecture), "gfx%" PRId64 "%x%x",
			 version / 10000, (unsigned)(version / 100 % 100),
			 (unsigned)(version % 100));
}

/* Reads amdkfd's description of the GPU at a PCI address. */
static void read_node(struct amd_card *c, const char *node, unsigned domain, unsigned location)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *p;
	int64_t id, simds, per_unit;

	if (amd_read_number(node, "gpu_id", &id) < 0 || id <= 0 || id > UINT32_MAX ||
	    amd_read(node, "properties", &text) < 0)
		return;
	p = strbuf_text(&text);
	if (property(p, "location_id") != location || MAX(property(p, "domain"), 0) != domain)
		return;
	c->gpu_id = (uint32_t)id;
	simds = property(p, "simd_count");
	per_unit = property(p, "simd_per_cu");
	c->gpu.limits.multiprocessors = per_unit > 0 ? known(simds / per_unit) : -1;
	c->gpu.limits.warp_size = known(property(p, "wave_front_size"));
	c->gpu.limits.clock_khz = known(property(p, "max_engine_clk_fcompute") * 1000);
	c->gpu.limits.shared_per_multiprocessor_bytes = known(property(p, "lds_size_in_kb") * 1024);
	read_architecture(c, property(p, "gfx_target_version"));
}

static void find_node(struct amd_card *c)
{
	char pattern[AMD_PATH_MAX];
	unsigned domain, bus, device, function;
	glob_t nodes;

	if (sscanf(c->gpu.pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4 ||
	    glob(amd_path(pattern, "/sys/class/kfd/kfd/topology/nodes/*"), 0, NULL, &nodes) != 0)
		return;
	for (size_t i = 0; i < nodes.gl_pathc && !c->gpu_id; i++)
		read_node(c, nodes.gl_pathv[i], domain, bus << 8 | device << 3 | function);
	globfree(&nodes);
}

/* Reads a card. Returns false if it is no GPU of AMD's driver. */
static bool read_card(struct amd_card *c, const char *folder)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *slot;
	int64_t bytes;

#define UNKNOWN(name) .limits.name = -1,
	*c = (struct amd_card){ .gpu = { .architecture = "architecture unknown",
					 GPU_LIMITS(UNKNOWN) } };
#undef UNKNOWN
	if (strlen(folder) >= sizeof(c->folder) || amd_read(folder, "vendor", &text) < 0 ||
	    strtoul(strbuf_text(&text), NULL, 16) != vendors[VENDOR_amd]->pci_vendor ||
	    amd_read(folder, "uevent", &text) < 0)
		return false;
	memcpy(c->folder, folder, strlen(folder) + 1);
	slot = strstr(strbuf_text(&text), "PCI_SLOT_NAME=");
	if (!slot || sscanf(slot, "PCI_SLOT_NAME=%31[0-9a-fA-F:.]", c->gpu.pci) != 1)
		return false;
	if (amd_read_number(folder, "mem_info_vram_total", &bytes) == 0 && bytes > 0)
		c->gpu.memory_bytes = (uint64_t)bytes;
	if (amd_read(folder, "unique_id", &text) == 0 && text.length &&
	    text.length < sizeof(c->gpu.uuid) - 4)
		snprintf(c->gpu.uuid, sizeof(c->gpu.uuid), "GPU-%s", strbuf_text(&text));
	find_node(c);
	if (amd_read(folder, "product_name", &text) == 0 && text.length)
		snprintf(c->gpu.name, sizeof(c->gpu.name), "%s", strbuf_text(&text));
	else if (amd_read(folder, "device", &text) == 0)
		snprintf(c->gpu.name, sizeof(c->gpu.name), "AMD GPU %.16s", strbuf_text(&text));
	return true;
}

static int by_pci(const void *a, const void *b)
{
	return strcmp(((const struct amd_card *)a)->gpu.pci, ((const struct amd_card *)b)->gpu.pci);
}

unsigned amd_cards_find(struct amd_card *out, unsigned max)
{
	char pattern[AMD_PATH_MAX];
	unsigned count = 0;
	glob_t cards;

	if (glob(amd_path(pattern, "/sys/class/drm/card[0-9]*/device"), 0, NULL, &cards) != 0)
		return 0;
	for (size_t i = 0; i < cards.gl_pathc && count < max; i++)
		count += read_card(&out[count], cards.gl_pathv[i]);
	globfree(&cards);
	qsort(out, count, sizeof(*out), by_pci);
	for (unsigned i = 0; i < count; i++)
		out[i].gpu.ordinal = (int)i;
	return count;
}
