/* cmd_agent.c: `pitot agent`: ships small rows of a machine's recordings into a lake. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent_metrics.h"
#include "agent/job_dump.h"
#include "base/clock.h"
#include "base/http_server.h"
#include "cli/option_file.h"
#include "cli/s3_options.h"
#include "cli/tls_options.h"
#include "cli/ui.h"

#define MODE_DEFAULT "0640"

#define LISTEN_DEFAULT "127.0.0.1:9464"

static const char *option_config, *option_lake, *option_spool, *option_mode = MODE_DEFAULT;
static const char *option_listen = LISTEN_DEFAULT, *option_secret;
static struct option_list option_recordings, option_pids, option_when;
static bool option_no_live;
static uint64_t option_interval = 10 * NS_PER_S, option_ship = 60 * NS_PER_S;
static uint64_t option_spool_size = (uint64_t)256 << 20;
static bool option_once;
static struct s3_options option_s3;
static struct s3_given given_s3;
static const char *option_otlp, *option_profiles;
static int option_profiles_to;
static struct gpufl_options option_gpufl;
static struct tls_options option_tls;
static uint64_t option_otlp_interval = 60 * NS_PER_S;
static struct kafka_options option_kafka = { .topic = "pitot" };
static struct {
	bool lake, spool, mode, interval, ship, spool_size, no_live, once, listen;
	bool kafka, kafka_topic, kafka_config, otlp, otlp_interval, secret, profiles, profiles_to;
	bool gpufl, gpufl_key_file, gpufl_ca_file;
} given;

static const struct option options[] = {
	OPTION(STRING, "config", 0, option_config, "FILE",
	       "read options from FILE: a JSON object, whose keys are their names",
	       .is_path = true),
	OPTION(STRING, "lake", 0, option_lake, "LAKE",
	       "ship into a folder, or a bucket: s3://BUCKET/PREFIX (see `pitot lake`)",
	       .is_path = true, .given = &given.lake),
	S3_OPTIONS(option_s3, given_s3),
	OPTION(STRING, "kafka", 0, option_kafka.brokers, "HOST:PORT,…",
	       "also send rows to these brokers of Kafka, as JSON", .given = &given.kafka,
	       .group = "other servers"),
	OPTION(STRING, "kafka-topic", 0, option_kafka.topic, "PREFIX",
	       "topics are PREFIX.step, PREFIX.kernel_sketch and PREFIX.loss (default pitot)",
	       .given = &given.kafka_topic, .group = "other servers"),
	OPTION(STRING, "kafka-config", 0, option_kafka.config, "FILE",
	       "properties of librdkafka, NAME=VALUE, such as those of SASL and TLS",
	       .is_path = true, .given = &given.kafka_config, .group = "other servers"),
	OPTION(STRING, "spool", 0, option_spool, "DIR",
	       "what is not shipped yet, and the state of the agent; a folder of its own",
	       .is_path = true, .given = &given.spool),
	OPTION(LIST, "recordings", 0, option_recordings, "DIR",
	       "also ship recordings in DIR; recordings in progress are found without it",
	       .is_path = true),
	OPTION(LIST, "pid", 'p', option_pids, "PID",
	       "only recordings of process PID and its descendants (default: of all processes)"),
	FLAG("no-live", 0, option_no_live, "only recordings in the folders of --recordings",
	     .given = &given.no_live),
	OPTION(LIST, "when", 0, option_when, "RULE",
	       "ship a window, a recording of the last seconds, when RULE holds (see `pitot "
	       "rules`)"),
	OPTION(DURATION, "interval", 'i', option_interval, "TIME",
	       "time between readings, at least 1s (default 10s)", .positive = true,
	       .given = &given.interval),
	OPTION(DURATION, "ship", 0, option_ship, "TIME",
	       "time between objects of a table (default 1m)", .positive = true,
	       .given = &given.ship),
	OPTION(SIZE, "spool-size", 0, option_spool_size, "SIZE",
	       "size of the spool; more is dropped, the oldest first, and counted (default 256M)",
	       .positive = true, .given = &given.spool_size),
	OPTION(STRING, "otlp", 0, option_otlp, "URL",
	       "send metrics each minute to this collector of OpenTelemetry: http://HOST:4318",
	       .given = &given.otlp, .group = "other servers"),
	OPTION(DURATION, "otlp-interval", 0, option_otlp_interval, "TIME",
	       "time between them (default 1m)", .positive = true, .given = &given.otlp_interval,
	       .group = "other servers"),
	OPTION(STRING, "profiles", 0, option_profiles, "URL",
	       "send profiles of GPU time by call stack to this server: http://HOST:4040",
	       .given = &given.profiles, .group = "other servers"),
	OPTION(ENUM, "profiles-to", 0, option_profiles_to, NULL, "what it is (default pyroscope)",
	       .choices = profile_names, .given = &given.profiles_to, .group = "other servers"),
	OPTION(STRING, "gpufl", 0, option_gpufl.url, "URL",
	       "also send windows to gpufl's backend: https://HOST, with the key in PITOT_API_KEY",
	       .given = &given.gpufl, .group = "other servers"),
	OPTION(STRING, "gpufl-key-file", 0, option_gpufl.key_file, "FILE",
	       "file with the key, instead", .is_path = true, .given = &given.gpufl_key_file,
	       .group = "other servers"),
	OPTION(STRING, "gpufl-ca-file", 0, option_gpufl.ca_file, "FILE",
	       "trusted certificates, PEM (default: those of the machine)", .is_path = true,
	       .given = &given.gpufl_ca_file, .group = "other servers"),
	OPTION(STRING, "mode", 0, option_mode, "OCTAL",
	       "permissions of objects (default " MODE_DEFAULT ")", .given = &given.mode),
	OPTION(STRING, "listen", 0, option_listen, "ADDRESS:PORT",
	       "serve metrics for Prometheus at /metrics there; off: nowhere "
	       "(default " LISTEN_DEFAULT ")",
	       .given = &given.listen),
	TLS_OPTIONS(option_tls),
	OPTION(STRING, "secret", 0, option_secret, "FILE",
	       "answer `pitot dump --job` there, of those who have the same secret in a file",
	       .is_path = true, .given = &given.secret),
	FLAG("once", 0, option_once, "ship what there is now, and end", .given = &given.once),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot agent --lake /mnt/lake --spool /var/lib/pitot", "one on each machine" },
	{ "pitot agent --lake s3://pitot/v1 --kafka broker:9092 --spool /var/lib/pitot",
	  "into object storage, and to Kafka" },
	{ "pitot agent --config /etc/pitot/agent.json", "the same, from a file" },
	{ "pitot agent --once --recordings runs --lake lake --spool spool",
	  "ship finished recordings, once" },
	{ NULL, NULL },
};

static void on_warning(void *user, const char *text)
{
	cli_warn(user, "%s", text);
}

static int parse_mode(unsigned *mode)
{
	char *end;
	unsigned long value = strtoul(option_mode, &end, 8);

	if (!*option_mode || *end || value > 0777 || !(value & 0400))
		return -1;
	*mode = (unsigned)value;
	return 0;
}

static int parse_pids(struct context *c, pid_t *pids)
{
	for (unsigned i = 0; i < option_pids.count; i++) {
		uint64_t pid;

		if (parse_u64(option_pids.items[i], &pid) < 0 || !pid || pid > INT_MAX)
			return cli_usage(c, "--pid takes the id of a process, not '%s'",
					 option_pids.items[i]);
		pids[i] = (pid_t)pid;
	}
	return EXIT_DONE;
}

/* Some rules need what only `pitot record` sees: that a process ended, a signal. */
static int add_rules(struct rule_list *rules, struct error *e)
{
	for (unsigned i = 0; i < option_when.count; i++) {
		enum rule_family family;

		if (rule_list_add(rules, option_when.items[i], e) < 0)
			return e->code;
		family = rule_metrics[rules->rules[rules->count - 1].metric].family;
		if (family == RULE_OF_OUTSIDE || family == RULE_OF_EXIT ||
		    rules->rules[rules->count - 1].deepen)
			return error_set(e, E_USAGE,
					 "'%s' can only be judged by `pitot record --ring --when`",
					 option_when.items[i]);
	}
	return 0;
}

struct metrics_page {
	struct http_server server;
	const struct agent *agent;
	struct job_dump dump;
};

static void answer(void *user, uint64_t connection, const struct http_request *r)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct metrics_page *page = user;
	struct http_answer a = { .status = 200, .type = HTTP_TEXT };

	if (!strcmp(r->path, "/dump")) {
		job_dump_handle(&page->dump, connection, r);
		return;
	}
	if (strcmp(r->path, "/metrics") != 0)
		a.status = 404;
	else
		a.type = agent_metrics_render(page->agent, r->accept, &text);
	a.status = text.failed ? 503 : a.status;
	a.body = strbuf_text(&text);
	a.length = text.length;
	http_answer(&page->server, connection, &a);
}

/* Waits until something is due, and serves pages meanwhile. False: a signal has arrived. */
static bool wait_until(uint64_t due_ns, struct metrics_page *page)
{
	struct pollfd polled[HTTP_DESCRIPTORS];

	do {
		uint64_t next_ns = MIN(due_ns, job_dump_step(&page->dump));

		if (!terminal_wait(next_ns, polled, http_server_poll(&page->server, polled)))
			return false;
		http_server_serve(&page->server);
	} while (clock_monotonic_ns() < due_ns);
	return true;
}

static int run_until_stopped(struct context *c, struct agent *a, struct error *e)
{
	struct metrics_page page = {
		.server = { .fd = -1, .option = "--listen", .handle = answer, .user = &page },
		.agent = a,
		.dump = { .server = &page.server, .sources = &a->sources, .spool = -1 },
	};
	uint64_t due_ns;
	int rc = 0;

	if (option_secret) {
		rc = peer_secret_read(option_secret, &page.dump.secret, e);
		page.dump.spool = a->spool.folder;
	}
	if (rc < 0)
		return rc;

	if (strcmp(option_listen, "off") != 0) {
		rc = tls_options_open(c, &option_tls, &page.server.tls, e);
		rc = rc < 0 ? rc : http_server_open(&page.server, option_listen, e);
		if (rc < 0) {
			tls_server_free(page.server.tls);
			return rc;
		}
		cli_note(c, "metrics at %s://%s/metrics", page.server.tls ? "https" : "http",
			 page.server.address);
	}
	do {
		rc = agent_step(a, &due_ns, e);
	} while (rc == 0 && wait_until(due_ns, &page));
	http_server_close(&page.server);
	tls_server_free(page.server.tls);
	job_dump_release(&page.dump);
	if (rc == 0 && agent_finish(a, false, e) < 0) {
		cli_warn(c, "%s", e->text); /* the spool has it */
		*e = (struct error){ 0 };
	}
	return rc;
}

static void note_counts(const struct context *c, const struct agent *a)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++)
		strbuf_addf(&text, "%s%s %" PRIu64, t ? ", " : "", fleet_schemas[t].name,
			    a->counts.rows[t]);
	cli_note(c, "rows by table: %s; objects shipped into '%s': %" PRIu64, strbuf_text(&text),
		 a->options->lake, a->counts.objects);
}

static int run_agent(struct context *c, int argc, char **argv)
{
	pid_t pids[ARRAY_SIZE(option_pids.items)];
	static struct rule_list rules;
	struct agent_options o = { .recordings = option_recordings.items,
				   .pids = pids,
				   .rules = &rules };
	struct agent a = { .options = &o, .warn = on_warning, .user = c };
	const char *service = getenv("OTEL_SERVICE_NAME");
	struct error e = { 0 };
	int rc;

	(void)argc, (void)argv;
	if (option_config && option_file_read(option_config, options, &e) < 0)
		return cli_fail(c, &e);
	if (!option_lake || !option_spool)
		return cli_usage(c, "--lake and --spool are needed");
	if (option_gpufl.url && !option_when.count)
		return cli_usage(c, "--gpufl sends the windows that rules make: give --when");
	if (parse_mode(&o.mode) < 0)
		return cli_usage(c, "--mode takes permissions such as 0640, not '%s'", option_mode);
	if (option_interval < NS_PER_S)
		return cli_usage(c, "--interval takes a time of at least 1s");
	if (parse_pids(c, pids) != EXIT_DONE)
		return EXIT_USAGE;
	if (add_rules(&rules, &e) < 0)
		return cli_fail(c, &e);
	o.pid_count = option_pids.count;
	o.no_processes = option_no_live;
	o.lake = option_lake;
	o.s3 = option_s3;
	o.kafka = option_kafka;
	o.otlp = (struct http_push_options){ .url = option_otlp,
					     .option = "--otlp",
					     .what = "metrics",
					     .path = "/v1/metrics",
					     .type = "application/json",
					     .headers = "OTEL_EXPORTER_OTLP_HEADERS",
					     .certificate = "OTEL_EXPORTER_OTLP_CERTIFICATE" };
	o.gpufl = option_gpufl;
	o.gpufl.warn = on_warning;
	o.gpufl.user = c;
	o.profile_kind = (enum profile_kind)option_profiles_to;
	o.profiles = (struct http_push_options){ .url = option_profiles,
						 .option = "--profiles",
						 .what = "a profile",
						 .path = profile_servers[o.profile_kind].path,
						 .type = profile_servers[o.profile_kind].type,
						 .headers = "PITOT_PROFILES_HEADERS",
						 .certificate = "PITOT_PROFILES_CERTIFICATE" };
	o.render_metrics = agent_metrics_render_otlp;
	o.otlp_ns = option_otlp_interval;
	o.service = service && *service ? service : "pitot-agent";
	o.spool = option_spool;
	o.read_ns = option_interval;
	o.ship_ns = option_ship;
	o.spool_bytes = option_spool_size;
	o.hold_ns = option_secret ? JOB_DUMP_HOLD_NS : 0;
	terminal_catch_signals();
	rc = agent_open(&a, &e);
	if (rc >= 0)
		rc = option_once ? agent_finish(&a, true, &e) : run_until_stopped(c, &a, &e);
	if (rc >= 0)
		note_counts(c, &a);
	agent_release(&a);
	return rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

const struct command cmd_agent = {
	.name = "agent",
	.group = COMMAND_MACHINE,
	.summary = "ship small rows of this machine's recordings into a lake",
	.usage = "[options]",
	.description =
		"Finds the recordings of this machine that its user may read, on the disk and in "
		"memory (--ring), as they are made, and ships rows of them as Parquet objects into "
		"a folder or a bucket, and to Kafka if wanted: steps, GPU work by kernel in spans "
		"of 10 seconds, and losses. The "
		"recorded processes do nothing for it, and go on if it ends.\n\n"
		"Each row is shipped once, whenever the agent is killed and started again. Rows "
		"wait in the spool while the lake cannot be written.",
	.options = options,
	.examples = examples,
	.no_json = true,
	.run = run_agent,
};
