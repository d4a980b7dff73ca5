/* tape-dump: prints a tape as text, one line per record. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "layouts.h"
#include "tape_reader.h"

static const char usage[] =
	"usage: tape-dump [--events | --summary] TAPE\n"
	"  --events   only what the recorder was told, as it is the same in a tape of the played\n"
	"             tape: without pointers, threads numbered anew, times from the first event "
	"on\n"
	"  --summary  counts, and GPU time by kind\n";

static bool events_only;
static struct map texts; /* pointer -> id, as the records go by */

static void print_text(const char *text, size_t length)
{
	putchar('"');
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < ' ' || c == '"' || c == '\\' || c >= 0x7f)
			printf("\\x%02x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_string(const char *text)
{
	if (text)
		print_text(text, strlen(text));
	else
		fputs("-", stdout);
}

static const char *function_name(unsigned function)
{
	static const char *const names[] = {
#define F(number, name) [number] = "cupti" #name,
		TAPE_CUPTI_FUNCTIONS(F)
#undef F
#define F(number, name) [number] = "cu" #name,
			TAPE_DRIVER_FUNCTIONS(F)
#undef F
#define F(number, name) [number] = "nvml" #name,
				TAPE_NVML_FUNCTIONS(F)
#undef F
#define F(number, name) [number] = "cupti" #name,
					TAPE_ENGINE_FUNCTIONS(F)
#undef F
	};

	return function < ARRAY_SIZE(names) && names[function] ? names[function] : "?";
}

static void dump_call(const struct tape_record *r)
{
	struct tape_call c;
	const uint8_t *bytes;

	if (!tape_get_call(r, &c))
		return;
	printf("%s(", function_name(c.function));
	for (unsigned i = 0; i < c.argument_count; i++)
		printf("%s%" PRIu64, i ? ", " : "", c.arguments[i]);
	printf(") = %" PRId64 " after %" PRIu64 " ns", c.result, c.duration_ns);
	bytes = c.output;
	if (c.output_length == 4)
		printf(", gives %" PRId32, (int32_t)load_u32(bytes));
	else if (c.output_length == 8)
		printf(", gives %" PRIu64, load_u64(bytes));
	else if (c.output_length) {
		printf(", gives ");
		print_text(c.output, c.output_length);
	}
}

static void dump_event(const struct tape *t, const struct tape_record *r)
{
	static const unsigned numbers[] = { [TAPE_DESCRIPTOR_MODULE] = 2,
					    [TAPE_DESCRIPTOR_GRAPH] = 7,
					    [TAPE_DESCRIPTOR_STREAM_ATTRIBUTE] = 2 };
	static const char *const domains[] = { "?",           "driver", "runtime", "resource",
					       "synchronize", "nvtx",   "state" };
	struct tape_event e;

	if (!tape_get_event(r, &e))
		return;
	printf("%s cbid=%u", domains[e.domain < ARRAY_SIZE(domains) ? e.domain : 0], e.cbid);
	if (e.domain <= CUPTI_CB_DOMAIN_RUNTIME_API) {
		printf(" %s %s context=%#" PRIx64 "/%u correlation=%u symbol=",
		       e.site ? "exit" : "enter",
		       tape_text_of(t, e.function) ? tape_text_of(t, e.function) : "-", e.context,
		       e.context_uid, e.correlation);
		print_string(tape_text_of(t, e.symbol));
		if (e.returned)
			printf(" returned=%d", e.return_value);
		for (unsigned i = 0; i < e.parameter_count; i++)
			printf("%s%#" PRIx64, i ? "," : " parameters=", e.parameters[i]);
	} else if (e.domain == CUPTI_CB_DOMAIN_STATE) {
		printf(" result=%d message=", e.result);
		print_string(tape_text_of(t, e.message));
	} else {
		printf(" context=%#" PRIx64 " stream=%#" PRIx64, e.context, e.stream);
		for (unsigned i = 0; e.descriptor && i < numbers[e.descriptor]; i++)
			printf(" %#" PRIx64, e.numbers[i]);
	}
}

/* A record without its pointers, and the texts behind them. */
static void dump_activity(const struct tape *t, const uint8_t *bytes, size_t size, uint64_t *sum)
{
	uint8_t *copy = malloc(size);
	uint32_t kind = load_u32(bytes);
	unsigned start = record_start_offset(kind);

	if (!copy)
		return;
	memcpy(copy, bytes, size);
	printf("\n\t%s size=%zu correlation=%u", kind_name(kind), size,
	       record_correlation(bytes, size));
	if (start && start + 16 <= size)
		printf(" start=%" PRIu64 " end=%" PRIu64, load_u64(bytes + start),
		       load_u64(bytes + start + 8));
	for (size_t i = 0; i < ARRAY_SIZE(tape_pointers); i++) {
		const struct tape_pointer *p = &tape_pointers[i];
		uint64_t id = 0;

		if (p->kind != kind || p->offset + sizeof(uint64_t) > size)
			continue;
		store_u64(copy + p->offset, 0);
		if (!p->text || !load_u64(bytes + p->offset))
			continue;
		putchar(' ');
		map_get(&texts, load_u64(bytes + p->offset), &id);
		print_string(tape_text_of(t, id));
	}
	*sum = hash_u64(*sum ^ hash_bytes(copy, size));
	free(copy);
}

static void dump_delivery(const struct tape *t, const struct tape_record *r)
{
	struct tape_delivery d;
	struct tape_run run;
	const uint8_t *record;
	uint64_t sum = 0;

	if (!tape_get_delivery(r, &d))
		return;
	printf("context=%#" PRIx64 " stream=%u valid=%zu end=%d", d.buffer.context, d.buffer.stream,
	       d.buffer.valid, d.buffer.end_result);
	if (!events_only)
		printf(" size=%zu", d.buffer.size);
	record = d.buffer.bytes;
	while (tape_next_run(&d, &run))
		for (uint32_t i = 0; i < run.count; i++, record += run.size)
			dump_activity(t, record, run.size, &sum);
	printf("\n\tsum=%016" PRIx64, sum);
}

static void dump_nvtx(const struct tape_record *r)
{
	struct tape_nvtx n;
	struct tape_text text;

	if (!tape_get_nvtx(r, &n, &text))
		return;
	printf("module=%u id=%u domain=%u range=%llu category=%u color=%#x payload=%d:%llu text=",
	       n.module, n.id, n.domain, n.range, n.category, n.color, n.payload_kind, n.payload);
	if (text.text)
		print_text(text.text, text.length);
	else
		putchar('-');
}

static void dump_string(const struct tape *t, const struct tape_record *r)
{
	struct tape_string s;

	if (!tape_get_string(r, &s))
		return;
	if (map_put(&texts, s.pointer, s.id) < 0)
		return;
	if (!events_only) {
		printf("%" PRIu64 " at %#" PRIx64 " ", s.id, s.pointer);
		print_string(tape_text_of(t, s.id));
	}
}

static void dump_nccl(const struct tape_record *r)
{
	static const char *const calls[] = { "?", "init", "start", "stop", "state", "finalize" };
	struct tape_nccl c;

	if (!tape_get_nccl(r, &c))
		return;
	printf("v%u %s communicator=%u", c.interface,
	       calls[c.call < ARRAY_SIZE(calls) ? c.call : 0], c.communicator);
	if (c.call == TAPE_NCCL_INIT)
		printf(" hash=%#" PRIx64 " nodes=%u ranks=%u rank=%u", c.hash, c.nodes, c.ranks,
		       c.rank);
	else if (c.call != TAPE_NCCL_FINALIZE)
		printf(" handle=%" PRIu64, c.handle);
	if (c.call == TAPE_NCCL_STATE)
		printf(" state=%" PRIu64, c.state);
	if (c.call == TAPE_NCCL_START)
		printf(" parent=%" PRIu64 " type=%" PRIu64, c.parent, c.type);
	for (unsigned i = 0; i < c.text_count; i++) {
		putchar(' ');
		print_text(c.texts[i].text, c.texts[i].length);
	}
}

static void dump_others(const struct tape *t, const struct tape_record *r)
{
	struct tape_thread thread;
	uint64_t size, max_records;

	if (r->type == TAPE_HELLO) {
		for (size_t i = 0; i < t->facts.count; i++)
			printf("\n\t%s: %s", t->facts.data[i].key, t->facts.data[i].value);
	} else if (r->type == TAPE_THREAD && tape_get_thread(r, &thread)) {
		printf("tid=%" PRIu64 " ", thread.tid);
		print_string(thread.name);
	} else if (r->type == TAPE_BUFFER_REQUEST && tape_get_request(r, &size, &max_records)) {
		printf("size=%" PRIu64 " records=%" PRIu64, size, max_records);
	}
}

/* With --events: in order of appearance there. */
static uint32_t thread_number(uint32_t thread)
{
	static uint32_t numbers[UINT16_MAX + 1], count;

	if (!events_only)
		return thread;
	if (!numbers[thread])
		numbers[thread] = ++count;
	return numbers[thread];
}

static void dump_record(const struct tape *t, size_t index)
{
	static const char *const types[] = {
		"?",        "HELLO",          "THREAD",          "STRING", "CALL",
		"CALLBACK", "BUFFER_REQUEST", "BUFFER_COMPLETE", "NVTX",   "END",
		"NCCL"
	};
	const struct tape_record *r = &t->records.data[index];
	bool event =
		r->type == TAPE_CALLBACK || r->type == TAPE_BUFFER_COMPLETE || r->type == TAPE_NVTX;
	static uint64_t start;

	if (!start && (event || !events_only))
		start = r->time;
	if (!events_only)
		printf("%zu ", index);
	if (event || !events_only)
		printf("%" PRIu64 " %u %s ", r->time - start, thread_number(r->thread),
		       types[r->type < ARRAY_SIZE(types) ? r->type : 0]);
	if (r->type == TAPE_STRING)
		dump_string(t, r);
	else if (r->type == TAPE_CALLBACK)
		dump_event(t, r);
	else if (r->type == TAPE_BUFFER_COMPLETE)
		dump_delivery(t, r);
	else if (r->type == TAPE_NVTX)
		dump_nvtx(r);
	else if (r->type == TAPE_NCCL && !events_only)
		dump_nccl(r);
	else if (r->type == TAPE_RESULT && !events_only)
		dump_call(r);
	else if (!events_only)
		dump_others(t, r);
	if (event || !events_only)
		putchar('\n');
}

static void summarize(const struct tape *t)
{
	uint64_t types[TAPE_TYPE_LIMIT] = { 0 }, records[KINDS_MAX] = { 0 }, ns[KINDS_MAX] = { 0 };
	const struct tape_record *last = &t->records.data[t->records.count - 1];

	for (size_t i = 0; i < t->records.count; i++) {
		const struct tape_record *r = &t->records.data[i];
		struct tape_delivery d;
		struct tape_run run;
		const uint8_t *bytes;

		types[r->type < TAPE_TYPE_LIMIT ? r->type : 0]++;
		if (r->type != TAPE_BUFFER_COMPLETE || !tape_get_delivery(r, &d))
			continue;
		bytes = d.buffer.bytes;
		while (tape_next_run(&d, &run))
			for (uint32_t n = 0; n < run.count; n++, bytes += run.size) {
				uint32_t kind = MIN(load_u32(bytes), (uint32_t)KINDS_MAX - 1);
				unsigned start = record_start_offset(kind);

				records[kind]++;
				if (start && start + 16 <= run.size &&
				    load_u64(bytes + start) < load_u64(bytes + start + 8))
					ns[kind] += load_u64(bytes + start + 8) -
						    load_u64(bytes + start);
			}
	}
	printf("program %s\ncupti %s\ndriver %s\nseconds %.3f\nthreads %u\ncomplete %d\ncalls "
	       "%" PRIu64 "\ncallbacks %" PRIu64 "\nbuffers %" PRIu64 "\nnvtx %" PRIu64
	       "\nnccl %" PRIu64 "\ntexts %zu\n",
	       tape_fact_text(t, "program"), tape_fact_text(t, "cupti.version"),
	       tape_fact_text(t, "driver.version"),
	       (double)(last->time - t->records.data[0].time) / 1e9,
	       t->threads ? t->threads - 1 : 0, t->complete, types[TAPE_RESULT],
	       types[TAPE_CALLBACK], types[TAPE_BUFFER_COMPLETE], types[TAPE_NVTX],
	       types[TAPE_NCCL], t->texts.count);
	for (uint32_t kind = 0; kind < KINDS_MAX; kind++)
		if (records[kind])
			printf("%s %" PRIu64 " %" PRIu64 " ns\n", kind_name(kind), records[kind],
			       ns[kind]);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "events", no_argument, NULL, 'e' },
						 { "summary", no_argument, NULL, 's' },
						 { NULL, 0, NULL, 0 } };
	struct error e = { 0 };
	bool summary = false;
	struct tape t;
	int option, r;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'e')
			events_only = true;
		else if (option == 's')
			summary = true;
		else
			return fputs(usage, stderr), 2;
	}
	if (optind + 1 != argc)
		return fputs(usage, stderr), 2;
	r = tape_load(argv[optind], &t, &e);
	if (r < 0)
		fprintf(stderr, "tape-dump: %s\n", e.text);
	else if (t.damage[0])
		fprintf(stderr, "tape-dump: '%s' is usable up to a point: %s\n", argv[optind],
			t.damage);
	if (r == 0 && summary && t.records.count)
		summarize(&t);
	for (size_t i = 0; r == 0 && !summary && i < t.records.count; i++)
		dump_record(&t, i);
	map_release(&texts);
	tape_release(&t);
	return r < 0;
}
