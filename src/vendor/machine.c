#include "vendor/machine.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/io.h"

#define PCI_DISPLAY 0x03 /* class of devices: graphics cards and accelerators with 3D engines */

#define VENDOR_ROW(name, sources) extern const struct vendor_machine vendor_machine_##name;
VENDORS(VENDOR_ROW, )
#undef VENDOR_ROW

const struct vendor_machine *const vendor_machines[VENDOR_COUNT] = {
#define VENDOR_ROW(name, sources) &vendor_machine_##name,
	VENDORS(VENDOR_ROW, )
#undef VENDOR_ROW
};

void check_found(struct check *c, enum check_state state, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(c->detail, sizeof(c->detail), format, args);
	va_end(args);
	c->state = state;
}

void check_advise(struct check *c, const char *text)
{
	snprintf(c->advice, sizeof(c->advice), "%s", text);
}

bool machine_has(unsigned vendor)
{
	return !vendor_machines[vendor]->is_there || vendor_machines[vendor]->is_there();
}

/* Appends what a vendor lacks to the reasons of the vendors before it. */
static void add_reason(struct strbuf *out, unsigned vendor, const char *reason)
{
	unsigned count = 0;

	for (unsigned v = 0; v < VENDOR_COUNT; v++)
		count += machine_has(v);
	strbuf_addf(out, "%s%s%s%s", out->length ? "; " : "",
		    count > 1 ? vendors[vendor]->name : "", count > 1 ? ": " : "", reason);
}

int machine_gpus(struct gpus *out, struct error *e)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	for (unsigned v = 0; v < VENDOR_COUNT; v++) {
		size_t before = out->list.count;
		struct error none = { 0 };
		char reason[512];
		int rc = vendor_machines[v]->gpus(out, &none);

		for (size_t i = before; i < out->list.count; i++)
			out->list.data[i].vendor = vendors[v];
		if (rc < 0 && rc != E_UNSUPPORTED)
			return error_set(e, rc, "%s", none.text);
		if (rc < 0 && machine_has(v))
			add_reason(&why, v,
				   vendor_machines[v]->no_gpu_reason(reason, sizeof(reason))
					   ? reason
					   : none.text);
	}
	return out->list.count
		       ? 0
		       : error_set(e, E_UNSUPPORTED, "no GPU can be used: %s", strbuf_text(&why));
}

bool machine_no_gpu_reason(char *out, size_t size)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	char reason[512];

	for (unsigned v = 0; v < VENDOR_COUNT; v++) {
		if (!machine_has(v))
			continue;
		if (!vendor_machines[v]->no_gpu_reason(reason, sizeof(reason)))
			return false;
		add_reason(&why, v, reason);
	}
	snprintf(out, size, "%s", strbuf_text(&why));
	return true;
}

/* Reads the hexadecimal number in a file of a PCI device; 0: unknown. */
static unsigned long read_pci(const char *device, const char *file)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[256];

	if (snprintf(path, sizeof(path), "%s/%s", device, file) >= (int)sizeof(path) ||
	    io_read_file(path, 64, &text) < 0)
		return 0;
	return strtoul(strbuf_text(&text), NULL, 16);
}

unsigned machine_pci_gpus(const struct vendor *vendor)
{
	unsigned count = 0;
	glob_t devices;

	if (glob("/sys/bus/pci/devices/*", 0, NULL, &devices) != 0)
		return 0;
	for (size_t i = 0; i < devices.gl_pathc; i++)
		count += read_pci(devices.gl_pathv[i], "vendor") == vendor->pci_vendor &&
			 read_pci(devices.gl_pathv[i], "class") >> 16 == PCI_DISPLAY;
	globfree(&devices);
	return count;
}
