/*
 * kafka.c: librdkafka's interface is declared here as far as it is used, so that neither its header
 * nor the library is needed at build time. It is the same from version 1.0 on.
 */
#include "agent/kafka.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "upload/http.h"

#define MESSAGE_BYTES ((size_t)256 << 10) /* of lines; brokers accept 1 MB by default */
#define FILE_BYTES_MAX ((size_t)64 << 20)
#define PENDING_BYTES ((size_t)8 << 20) /* no other file is begun while more is on its way */
#define PATIENCE_NS (5 * NS_PER_S)
#define QUEUE_KIB "98304"
#define CONFIG_BYTES_MAX ((size_t)64 << 10)
#define PRODUCER 0

/* --- librdkafka --- */

struct delivered {
	int err; /* 0: it is there */
	void *topic;
	int32_t partition;
	void *payload;
	size_t length;
	void *key;
	size_t key_length;
	int64_t offset;
	void *user;
};

enum { ARG_END, ARG_TOPIC, ARG_VALUE = 4, ARG_KEY, ARG_USER, ARG_FLAGS, ARG_HEADER = 9 };
#define FLAG_COPY 2

typedef void on_delivered(void *producer, const struct delivered *message, void *user);
typedef void on_error(void *producer, int err, const char *reason, void *user);
typedef void on_log(const void *producer, int level, const char *facility, const char *text);

#define FUNCTIONS(F)                                                                               \
	F(void *, conf_new, (void))                                                                \
	F(void, conf_destroy, (void *conf))                                                        \
	F(int, conf_set, (void *conf, const char *name, const char *value, char *, size_t))        \
	F(void, conf_set_opaque, (void *conf, void *user))                                         \
	F(void, conf_set_dr_msg_cb, (void *conf, on_delivered *))                                  \
	F(void, conf_set_error_cb, (void *conf, on_error *))                                       \
	F(void, conf_set_log_cb, (void *conf, on_log *))                                           \
	F(void *, new, (int type, void *conf, char *, size_t))                                     \
	F(int, producev, (void *producer, ...))                                                    \
	F(int, poll, (void *producer, int timeout_ms))                                             \
	F(int, purge, (void *producer, int flags))                                                 \
	F(void, destroy, (void *producer))                                                         \
	F(const char *, err2str, (int err))

/* A file that is on its way. */
struct pending {
	char *id;
	size_t messages; /* without a report */
	size_t bytes;
	uint64_t begun_ns; /* CLOCK_MONOTONIC */
	int err; /* of a message that could not be delivered */
};

struct kafka {
	void *producer;
	const char *topic, *brokers;
	VEC(struct pending *) pending;
	char problem[256]; /* the last one of librdkafka, or "" */
#define MEMBER(type, name, arguments) type(*name) arguments;
	FUNCTIONS(MEMBER)
};

/* The library stays: its threads may be ending. */
static int load(struct kafka *k, struct error *e)
{
	void *library = dlopen("librdkafka.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!library)
		return error_set(e, E_UNSUPPORTED,
				 "cannot load librdkafka.so.1: install it with apt-get install "
				 "librdkafka1 or dnf install librdkafka");
#define FIND(type, name, arguments)                                                                \
	*(void **)&k->name = dlsym(library, "rd_kafka_" #name);                                    \
	if (!k->name)                                                                              \
		return error_set(e, E_UNSUPPORTED, "librdkafka.so.1 has no rd_kafka_" #name);
	FUNCTIONS(FIND)
	return 0;
}

static void delivered(void *producer, const struct delivered *message, void *user)
{
	struct kafka *k = user;
	struct pending *p = message->user;

	(void)producer;
	p->messages--;
	if (message->err)
		p->err = message->err;
	else
		*k->problem = '\0';
}

static void set_problem(struct kafka *k, const char *text)
{
	snprintf(k->problem, sizeof(k->problem), "%s", text);
	http_make_printable(k->problem);
}

static void failed(void *producer, int err, const char *reason, void *user)
{
	(void)producer;
	(void)err;
	set_problem(user, reason);
}

static void ignore(const void *producer, int level, const char *facility, const char *text)
{
	(void)producer;
	(void)level;
	(void)facility;
	(void)text;
}

/* --- opening --- */

static int set(struct kafka *k, void *conf, const char *name, const char *value, struct error *e)
{
	char why[256] = "";

	if (k->conf_set(conf, name, value, why, sizeof(why)) == 0)
		return 0;
	/* Its text may have the value, which may be a password. */
	return error_set(e, E_USAGE, "librdkafka does not accept the property '%s' or its value",
			 name);
}

/* Lines NAME=VALUE; '#' begins a comment. */
static int set_file(struct kafka *k, void *conf, const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = io_read_file(path, CONFIG_BYTES_MAX, &text);
	char *line = text.data;

	if (rc < 0)
		return error_set(e, rc, "cannot read '%s': %s", path, error_code_text(rc));
	for (unsigned number = 1; line && *line && rc == 0; number++) {
		char *end = line + strcspn(line, "\r\n"),
		     *value = memchr(line, '=', (size_t)(end - line));
		bool is_last = !*end;

		*end = '\0';
		line += strspn(line, " \t");
		if (*line && *line != '#') {
			if (!value)
				return error_set(e, E_USAGE, "'%s', line %u: not NAME=VALUE", path,
						 number);
			*value = '\0';
			rc = set(k, conf, line, value + 1, e);
		}
		line = is_last ? end : end + 1;
	}
	if (text.data)
		explicit_bzero(text.data, text.length);
	return rc < 0 ? error_prefix(e, "'%s'", path) : 0;
}

static int configure(struct kafka *k, void *conf, const struct kafka_options *o, struct error *e)
{
	static const char *const properties[][2] = {
		{ "client.id", "pitot" },
		{ "enable.idempotence", "true" },
		{ "compression.codec", "zstd" },
		{ "linger.ms", "50" },
		{ "message.timeout.ms", "0" }, /* the spool decides what is dropped */
		{ "queue.buffering.max.kbytes", QUEUE_KIB },
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(properties) && rc == 0; i++)
		rc = set(k, conf, properties[i][0], properties[i][1], e);
	if (rc == 0 && o->config)
		rc = set_file(k, conf, o->config, e);
	if (rc == 0)
		rc = set(k, conf, "bootstrap.servers", o->brokers, e);
	k->conf_set_opaque(conf, k);
	k->conf_set_dr_msg_cb(conf, delivered);
	k->conf_set_error_cb(conf, failed);
	k->conf_set_log_cb(conf, ignore);
	return rc;
}

int kafka_open(struct kafka **out, const struct kafka_options *o, struct error *e)
{
	struct kafka *k = calloc(1, sizeof(*k));
	void *conf = NULL;
	char why[256] = "";
	int rc;

	if (!k)
		return error_set(e, -ENOMEM, "out of memory");
	k->topic = o->topic;
	k->brokers = o->brokers;
	rc = load(k, e);
	if (rc == 0 && !(conf = k->conf_new()))
		rc = error_set(e, -ENOMEM, "out of memory");
	rc = rc < 0 ? rc : configure(k, conf, o, e);
	if (rc == 0) {
		k->producer = k->new (PRODUCER, conf, why, sizeof(why));
		if (k->producer)
			conf = NULL; /* it is the producer's */
		else
			rc = error_set(e, E_USAGE, "librdkafka refuses its configuration: %s", why);
	}
	if (conf)
		k->conf_destroy(conf);
	if (rc < 0)
		kafka_free(k);
	else
		*out = k;
	return rc;
}

static void remove_pending(struct kafka *k, size_t i)
{
	free(k->pending.data[i]->id);
	free(k->pending.data[i]);
	k->pending.data[i] = k->pending.data[--k->pending.count];
}

#define PURGE_QUEUED 1 /* waits until that is done, not for brokers */
#define PURGE_ALL 7 /* what waits and what is on its way, without waiting for it */

void kafka_take_back(struct kafka *k)
{
	k->poll(k->producer, 0);
	k->purge(k->producer, PURGE_QUEUED);
	k->poll(k->producer, 0);
	for (size_t i = k->pending.count; i-- > 0;)
		if (!k->pending.data[i]->messages && k->pending.data[i]->err)
			remove_pending(k, i);
}

void kafka_free(struct kafka *k)
{
	if (!k)
		return;
	if (k->producer) {
		k->purge(k->producer, PURGE_ALL);
		k->poll(k->producer, 0);
		k->destroy(k->producer);
	}
	while (k->pending.count)
		remove_pending(k, k->pending.count - 1);
	vec_release(&k->pending);
	free(k);
}

/* --- sending --- */

static struct pending *find(struct kafka *k, const char *id, size_t *index)
{
	for (size_t i = 0; i < k->pending.count; i++)
		if (!strcmp(k->pending.data[i]->id, id)) {
			*index = i;
			return k->pending.data[i];
		}
	return NULL;
}

/* Whole lines, at least one, and at most MESSAGE_BYTES if possible. */
static size_t part_length(const char *text, size_t length)
{
	size_t end = MIN(length, MESSAGE_BYTES);
	const char *newline = memrchr(text, '\n', end);

	if (!newline)
		newline = memchr(text, '\n', length);
	return newline ? (size_t)(newline - text) + 1 : length;
}

static int produce(struct kafka *k, struct pending *p, const char *table, const char *key,
		   const struct strbuf *text)
{
	char topic[256], part[24];

	snprintf(topic, sizeof(topic), "%s.%s", k->topic, table);
	for (size_t at = 0, number = 0; at < text->length; number++) {
		size_t length = part_length(text->data + at, text->length - at);
		int err;

		snprintf(part, sizeof(part), "%zu", number);
		err = k->producev(k->producer, ARG_TOPIC, topic, ARG_VALUE, text->data + at, length,
				  ARG_KEY, key, strlen(key), ARG_FLAGS, FLAG_COPY, ARG_USER, p,
				  ARG_HEADER, "pitot-object", p->id, (ssize_t)-1, ARG_HEADER,
				  "pitot-part", part, (ssize_t)-1, ARG_END);
		if (err)
			return err;
		p->messages++;
		at += length;
	}
	return 0;
}

static int begin(struct kafka *k, int file, const char *table, const char *key, const char *id,
		 struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct pending *p = calloc(1, sizeof(*p));
	int rc = p ? io_read_to_end(file, FILE_BYTES_MAX, &text) : -ENOMEM;

	if (rc == 0 && (!(p->id = strdup(id)) || vec_push(&k->pending, p) < 0))
		rc = -ENOMEM;
	if (rc < 0) {
		if (p)
			free(p->id);
		free(p);
		return error_set(e, rc, "cannot read '%s': %s", id, error_code_text(rc));
	}
	p->bytes = text.length;
	p->begun_ns = clock_monotonic_ns();
	p->err = produce(k, p, table, key, &text);
	return 1;
}

int kafka_send(struct kafka *k, int file, const char *table, const char *key, const char *id,
	       struct error *e)
{
	size_t index, bytes = 0;
	struct pending *p;
	int err;

	k->poll(k->producer, 0);
	p = find(k, id, &index);
	if (!p) {
		for (size_t i = 0; i < k->pending.count; i++)
			bytes += k->pending.data[i]->messages ? k->pending.data[i]->bytes : 0;
		return bytes > PENDING_BYTES ? 1 : begin(k, file, table, key, id, e);
	}
	if (p->messages) {
		/* A problem that lasts is said, while librdkafka tries again. */
		return *k->problem && clock_monotonic_ns() - p->begun_ns > PATIENCE_NS
			       ? error_set(e, -EINPROGRESS, "cannot send to Kafka at '%s': %s",
					   k->brokers, k->problem)
			       : 1;
	}
	err = p->err;
	remove_pending(k, index);
	return err ? error_set(e, -EAGAIN, "cannot send '%s' to Kafka at '%s': %s", id, k->brokers,
			       k->err2str(err))
		   : 0;
}
