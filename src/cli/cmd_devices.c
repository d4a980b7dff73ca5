/* cmd_devices.c: `pitot devices`: the GPUs of this machine. */

#include "base/human.h"
#include "base/json.h"
#include "cli/devices_topology.h"
#include "cli/ui.h"
#include "vendor/machine.h"

static void device_json(struct json *json, const struct gpu *d)
{
	json_object(json);
	json_key_i64(json, "id", d->ordinal);
	json_key_string(json, "vendor", d->vendor->name);
	json_key_string(json, "name", d->name);
	json_key_string(json, "uuid", d->uuid);
	json_key_string(json, "pci", d->pci);
	json_key_u64(json, "memory_bytes", d->memory_bytes);
#define LIMIT_JSON(name) json_key_known(json, #name, d->limits.name >= 0, (uint64_t)d->limits.name);
	GPU_LIMITS(LIMIT_JSON)
#undef LIMIT_JSON
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

static void device_text(struct strbuf *out, bool color, const struct gpu *d)
{
	strbuf_addf(out, "%d  %s%s%s\n", d->ordinal, style_begin(color, STYLE_BOLD), d->name,
		    style_begin(color, STYLE_NONE));
	strbuf_addf(out, "   %s, PCI %s, %s\n   ", d->uuid, d->pci, d->architecture);
	human_bytes(out, d->memory_bytes);
	if (d->limits.memory_clock_khz > 0)
		strbuf_addf(out, " at %d MHz, %d bits", d->limits.memory_clock_khz / 1000,
			    d->limits.memory_bus_bits);
	strbuf_adds(out, ", ");
	add_size(out, d->limits.l2_bytes, " L2, ");
	add_limit(out, d->limits.copy_engines, " copy engines\n   ");
	add_limit(out, d->limits.multiprocessors, " multiprocessors");
	if (d->limits.clock_khz > 0)
		strbuf_addf(out, " at %d MHz", d->limits.clock_khz / 1000);
	strbuf_adds(out, "; each ");
	add_limit(out, d->limits.max_threads_per_multiprocessor, " threads, ");
	add_limit(out, d->limits.max_blocks_per_multiprocessor, " blocks, ");
	add_limit(out, d->limits.registers_per_multiprocessor, " registers, ");
	add_size(out, d->limits.shared_per_multiprocessor_bytes, " shared memory\n");
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

static bool topology, measure, dot;

static const struct option options[] = {
	FLAG("topology", 0, topology,
	     "how GPUs and network adapters are connected: PCIe, NVLink, NUMA nodes"),
	FLAG("measure", 0, measure,
	     "also measure copies: host to GPU, back, within and between GPUs (needs 512 MiB of "
	     "each)"),
	FLAG("dot", 0, dot, "the topology as a graph for Graphviz"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot devices --topology", "what lies between the GPUs of this machine" },
	{ "pitot devices --measure", "and what that is worth, measured" },
	{ "pitot devices --dot | dot -Tsvg > machine.svg", "as a picture" },
	{ NULL, NULL },
};

static int run_devices(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json json = JSON_PRETTY(&out);
	struct gpus gpus = { VEC_INIT };
	struct error e = { 0 };
	int status;

	(void)argc, (void)argv;
	if (dot && (measure || c->json))
		return cli_usage(c, "--dot draws the topology: it has no --measure and no --json");
	if (topology || measure || dot)
		return devices_print_topology(c, measure, dot);
	if (machine_gpus(&gpus, &e) < 0) {
		vec_release(&gpus.list);
		return no_gpu(c, e.text);
	}
	if (c->json)
		json_array(&json);
	for (size_t i = 0; i < gpus.list.count; i++) {
		if (c->json)
			device_json(&json, &gpus.list.data[i]);
		else
			device_text(&out, c->color, &gpus.list.data[i]);
	}
	if (c->json)
		json_finish(&json);
	status = cli_print(c, &out);
	vec_release(&gpus.list);
	return status;
}

const struct command cmd_devices = {
	.name = "devices",
	.group = COMMAND_MACHINE,
	.summary = "list the GPUs of this machine",
	.usage = "[options]",
	.description = "Lists the GPUs that their drivers show, with their limits. "
		       "CUDA_VISIBLE_DEVICES applies.\n\n"
		       "--topology lists all GPUs and network adapters on the PCI bus, also those "
		       "that CUDA_VISIBLE_DEVICES hides, and what lies between each two. --measure "
		       "copies with the GPUs that CUDA shows, and stands beside the nominal "
		       "bandwidth.",
	.options = options,
	.examples = examples,
	.run = run_devices,
};
