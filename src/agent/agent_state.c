#include "agent/agent_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_read.h"

#define VERSION 1

/* --- writing --- */

static void render_step(const struct step_range *s, struct json *j)
{
	json_object(j);
	json_key_string(j, "name", s->name);
	json_key_u64(j, "start_ns", s->start_ns);
	json_key_known(j, "end_ns", s->is_closed, s->end_ns);
	json_key_u64(j, "key", s->key);
	json_key_u64(j, "thread", s->thread);
	json_key_u64(j, "domain", s->domain);
	json_key_u64(j, "work", s->work);
	json_key_u64(j, "work_ns", s->work_ns);
	json_end(j);
}

static void render_source(const struct source *s, struct json *j)
{
	const struct source_identity *id = &s->identity;

	json_object(j);
	json_key_u64(j, "session", s->session);
	json_key_u64(j, "owner", s->owner);
	json_key_u64(j, "pid", s->pid);
	json_key_u64(j, "number", s->number);
	json_key_u64(j, "block", s->block);
	json_key_u64(j, "lost_segments", s->lost_segments);
	json_key_u64(j, "unreadable", s->unreadable);
	json_key_u64(j, "forgotten", s->steps.forgotten);
	if (id->host) {
		json_key_string(j, "job", id->job);
		json_key_string(j, "host", id->host);
		json_key_known(j, "rank", id->rank != TRACE_NO_RANK, id->rank);
		json_key_i64(j, "offset_ns", id->offset_ns);
		json_key_u64(j, "newest_ns", s->steps.newest_ns);
		json_key_array(j, "steps");
		for (size_t i = 0; i < s->steps.items.count; i++)
			render_step(&s->steps.items.data[i], j);
		json_end(j);
	}
	json_end(j);
}

void agent_state_render(const struct spool *spool, const struct sources *sources,
			struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	json_key_u64(&j, "version", VERSION);
	json_key_u64(&j, "agent", spool->agent);
	json_key_u64(&j, "batch", spool->batch + 1);
	json_key_array(&j, "folders");
	for (size_t i = 0; i < sources->folders.count; i++)
		json_string(&j, sources->folders.data[i].path);
	json_end(&j);
	json_key_array(&j, "sources");
	for (size_t i = 0; i < sources->all.count; i++)
		render_source(sources->all.data[i], &j);
	json_finish(&j);
}

/* --- reading --- */

/* Numbers of an object by their keys; texts go elsewhere. */
struct number {
	const char *key;
	uint64_t *value;
	bool *known; /* may be NULL */
};

static void set_number(const struct number *numbers, size_t count, const struct json_members *m)
{
	for (size_t i = 0; i < count; i++) {
		if (m->kind != JSON_NUMBER || strcmp(strbuf_text(&m->key), numbers[i].key) != 0)
			continue;
		*numbers[i].value = *strbuf_text(&m->text) == '-'
					    ? (uint64_t)strtoll(strbuf_text(&m->text), NULL, 10)
					    : strtoull(strbuf_text(&m->text), NULL, 10);
		if (numbers[i].known)
			*numbers[i].known = true;
	}
}

static int read_step(struct source *source, const char *bytes, size_t length, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(bytes, length);
	struct step_range s = { .end_ns = UINT64_MAX };
	uint64_t thread = 0, domain = 0;
	const struct number numbers[] = {
		{ "start_ns", &s.start_ns, NULL }, { "end_ns", &s.end_ns, &s.is_closed },
		{ "key", &s.key, NULL },           { "thread", &thread, NULL },
		{ "domain", &domain, NULL },       { "work", &s.work, NULL },
		{ "work_ns", &s.work_ns, NULL }
	};
	int rc;

	while ((rc = json_members_next(&m, e)) > 0) {
		set_number(numbers, ARRAY_SIZE(numbers), &m);
		if (!strcmp(strbuf_text(&m.key), "name"))
			snprintf(s.name, sizeof(s.name), "%s", strbuf_text(&m.text));
	}
	s.thread = (uint32_t)thread;
	s.domain = (uint32_t)domain;
	if (rc == 0 && vec_push(&source->steps.items, s) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc;
}

static int read_steps(struct source *source, const struct json_members *array, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_ITEMS(array->value, array->value_length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0 &&
	       (rc = read_step(source, m.value, m.value_length, e)) >= 0)
		;
	return rc;
}

/* Everything but the steps, which need the source. */
static int read_members(struct source *s, const char *bytes, size_t length, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(bytes, length);
	uint64_t owner = 0, pid = 0, number = 0, rank = TRACE_NO_RANK, offset_ns = 0;
	const struct number numbers[] = { { "session", &s->session, NULL },
					  { "owner", &owner, NULL },
					  { "pid", &pid, NULL },
					  { "number", &number, NULL },
					  { "block", &s->block, NULL },
					  { "lost_segments", &s->lost_segments, NULL },
					  { "unreadable", &s->unreadable, NULL },
					  { "forgotten", &s->steps.forgotten, NULL },
					  { "rank", &rank, NULL },
					  { "offset_ns", &offset_ns, NULL },
					  { "newest_ns", &s->steps.newest_ns, NULL } };
	int rc;

	while ((rc = json_members_next(&m, e)) > 0) {
		char **text = !strcmp(strbuf_text(&m.key), "job")    ? &s->identity.job
			      : !strcmp(strbuf_text(&m.key), "host") ? &s->identity.host
								     : NULL;

		set_number(numbers, ARRAY_SIZE(numbers), &m);
		if (text && !*text)
			*text = strdup(strbuf_text(&m.text));
		if (!strcmp(strbuf_text(&m.key), "steps") && (rc = read_steps(s, &m, e)) < 0)
			return rc;
	}
	s->owner = (uid_t)owner;
	s->pid = (uint32_t)pid;
	s->number = (uint32_t)number;
	s->identity.rank = (uint32_t)rank;
	s->identity.offset_ns = (int64_t)offset_ns;
	return rc;
}

static int read_source(struct sources *sources, const char *bytes, size_t length, struct error *e)
{
	struct source *s = calloc(1, sizeof(*s));
	int rc = s ? read_members(s, bytes, length, e) : error_set(e, -ENOMEM, "out of memory");

	if (rc == 0 && vec_push(&sources->all, s) == 0)
		return 0;
	source_free(s);
	return rc < 0 ? rc : error_set(e, -ENOMEM, "out of memory");
}

static int read_list(struct sources *sources, const struct json_members *array, bool is_folders,
		     struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_ITEMS(array->value, array->value_length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0) {
		if (is_folders)
			sources_watch(sources, strbuf_text(&m.text));
		else if ((rc = read_source(sources, m.value, m.value_length, e)) < 0)
			return rc;
	}
	return rc;
}

int agent_state_read(const struct strbuf *text, struct spool *spool, struct sources *sources,
		     struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(strbuf_text(text), text->length);
	uint64_t version = 0;
	const struct number numbers[] = { { "version", &version, NULL },
					  { "agent", &spool->agent, NULL },
					  { "batch", &spool->batch, NULL } };
	int rc;

	while ((rc = json_members_next(&m, e)) > 0) {
		const char *key = strbuf_text(&m.key);

		set_number(numbers, ARRAY_SIZE(numbers), &m);
		if (!strcmp(key, "folders") || !strcmp(key, "sources"))
			rc = read_list(sources, &m, *key == 'f', e);
		if (rc < 0)
			break;
	}
	if (rc == 0 && version != VERSION)
		rc = error_set(e, E_VERSION, "it is of version %llu", (unsigned long long)version);
	return rc < 0 ? error_prefix(e,
				     "cannot read 'state.json' in the spool '%s'; without that "
				     "file, recordings that are still there are shipped again",
				     spool->path)
		      : 0;
}
