/* cmd_devices.c: `pitot devices`: the GPUs of this machine. */

#include "base/human.h"
#include "base/json.h"
#include "record/checks.h"
#include "record/libcuda.h"
#include "cli/ui.h"

static void device_json(struct json *json, const struct cuda_device *d)
{
	json_object(json);
	json_key_i64(json, "id", d->ordinal);
	json_key_string(json, "name", d->name);
	json_key_string(json, "uuid", d->uuid);
	json_key_string(json, "pci", d->pci);
	json_key_u64(json, "memory_bytes", d->memory_bytes);
#define ATTRIBUTE_JSON(name, number) json_key_known(json, #name, d->name >= 0, (uint64_t)d->name);
	CUDA_ATTRIBUTES(ATTRIBUTE_JSON)
#undef ATTRIBUTE_JSON
	json_end(json);
}

static void add_limit(struct strbuf *out, int value, const char *unit)
{
	if (value < 0)
		strbuf_adds(out, "-");
	else
		human_count(out, (uint64_t)value);
	strbuf_adds(out, unit);
}

static void add_size(struct strbuf *out, int bytes, const char *what)
{
	if (bytes < 0)
		strbuf_adds(out, "-");
	else
		human_bytes(out, (uint64_t)bytes);
	strbuf_adds(out, what);
}

static void device_text(struct strbuf *out, bool color, const struct cuda_device *d)
{
	strbuf_addf(out, "%d  %s%s%s\n", d->ordinal, style_begin(color, STYLE_BOLD), d->name,
		    style_begin(color, STYLE_NONE));
	strbuf_addf(out, "   %s, PCI %s, compute capability %d.%d\n   ", d->uuid, d->pci,
		    d->compute_major, d->compute_minor);
	human_bytes(out, d->memory_bytes);
	if (d->memory_clock_khz > 0)
		strbuf_addf(out, " at %d MHz, %d bits", d->memory_clock_khz / 1000,
			    d->memory_bus_bits);
	strbuf_adds(out, ", ");
	add_size(out, d->l2_bytes, " L2, ");
	add_limit(out, d->copy_engines, " copy engines\n   ");
	add_limit(out, d->multiprocessors, " multiprocessors");
	if (d->clock_khz > 0)
		strbuf_addf(out, " at %d MHz", d->clock_khz / 1000);
	strbuf_adds(out, "; each ");
	add_limit(out, d->max_threads_per_multiprocessor, " threads, ");
	add_limit(out, d->max_blocks_per_multiprocessor, " blocks, ");
	add_limit(out, d->registers_per_multiprocessor, " registers, ");
	add_size(out, d->shared_per_multiprocessor_bytes, " shared memory\n");
}

/* With --json prints an empty list; the reason goes to stderr in any case. */
static int no_gpu(const struct context *c, const char *why)
{
	struct strbuf none = STRBUF_INIT;

	if (c->json) {
		strbuf_adds(&none, "[]\n");
		cli_print(c, &none);
		strbuf_release(&none);
	}
	return cli_failf(c, "%s; see `pitot doctor`", why);
}

static int run_devices(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, why = STRBUF_INIT;
	struct json json = JSON_PRETTY(&out);
	struct cuda_device device;
	struct error e = { 0 };
	struct libcuda cuda;
	char reason[512];
	int count;

	(void)argc, (void)argv;
	if (libcuda_load(&cuda, &e) < 0 || libcuda_init(&cuda, &e) < 0) {
		strbuf_addf(&why, "no GPU can be used: %s",
			    checks_no_gpu_reason(reason, sizeof(reason)) ? reason : e.text);
		return no_gpu(c, strbuf_text(&why));
	}
	count = libcuda_device_count(&cuda);
	if (!count)
		return no_gpu(c, "the driver shows no GPU");
	if (c->json)
		json_array(&json);
	for (int i = 0; i < count; i++) {
		if (libcuda_device(&cuda, i, &device, &e) < 0)
			return cli_fail(c, &e);
		if (c->json)
			device_json(&json, &device);
		else
			device_text(&out, c->color, &device);
	}
	if (c->json)
		json_finish(&json);
	return cli_print(c, &out);
}

const struct command cmd_devices = {
	.name = "devices",
	.group = COMMAND_MACHINE,
	.summary = "list the GPUs of this machine",
	.usage = "[options]",
	.description = "Lists the GPUs that the CUDA driver shows, with their limits. "
		       "CUDA_VISIBLE_DEVICES applies.",
	.options = no_options,
	.run = run_devices,
};
