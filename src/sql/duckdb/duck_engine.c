#include "sql/duckdb/duck_engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the database ---- */

static int open_database(struct duck *d, struct error *e)
{
	char memory[32], *problem = NULL;
	const char *const settings[][2] = {
		{ "autoload_known_extensions", "false" },
		{ "autoinstall_known_extensions", "false" },
		{ "allow_community_extensions", "false" },
		{ "allow_unsigned_extensions", "false" },
		{ "memory_limit", memory },
	};
	void *config = NULL;
	int rc = duck_api.create_config(&config);

	snprintf(memory, sizeof(memory), "%lluB", (unsigned long long)d->sql->options.memory_bytes);
	for (size_t i = 0; i < ARRAY_SIZE(settings) && rc == 0; i++)
		if (settings[i][1] != memory || d->sql->options.memory_bytes)
			rc = duck_api.set_config(config, settings[i][0], settings[i][1]);
	if (rc == 0)
		rc = duck_api.open_ext(":memory:", &d->database, config, &problem);
	if (rc == 0)
		rc = duck_api.connect(d->database, &d->connection);
	if (rc != 0)
		rc = error_set(e, E_UNSUPPORTED, "cannot open a database of DuckDB %s: %s",
			       duck_api.library_version(), problem ?: "unknown error");
	if (problem)
		duck_api.free(problem);
	duck_api.destroy_config(&config);
	return rc;
}

/* After our functions are registered: what is set here cannot be changed any more. */
static int lock_database(struct duck *d, struct error *e)
{
	/* A scalar subquery with several rows has the first one, as in SQLite. */
	static const char *const settings[] = {
		"SET scalar_subquery_error_on_multiple_rows = false",
		"SET errors_as_json = true",
		"SET temp_directory = ''",
		"SET enable_external_access = false",
		"SET lock_configuration = true",
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(settings) && rc >= 0; i++)
		rc = duck_execute(d, settings[i], e);
	if (rc >= 0 && !duck_can_refuse(d))
		rc = error_set(e, E_UNSUPPORTED,
			       "DuckDB %s does not say which functions a statement calls, so it "
			       "cannot be confined: leave out --engine",
			       duck_api.library_version());
	return rc;
}

static int open_all(struct duck *d, struct error *e)
{
	sigset_t all, before;
	int rc = duck_api_load(e);

	if (rc < 0)
		return rc;
	if (duck_api.vector_size() != DUCK_CHUNK)
		return error_set(e, E_UNSUPPORTED,
				 "DuckDB %s was built with another size of vectors",
				 duck_api.library_version());
	/* Signals are for the thread that asks: those of DuckDB have them blocked. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = open_database(d, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc >= 0)
		rc = duck_tables_add(d, e);
	if (rc >= 0)
		rc = duck_functions_add(d, e);
	return rc < 0 ? rc : lock_database(d, e);
}

int duck_open(struct sql *s, struct duck **out, struct error *e)
{
	struct duck *d = calloc(1, sizeof(*d));
	pthread_rwlockattr_t fair;
	int rc;

	if (!d)
		return error_set(e, -ENOMEM, "out of memory");
	d->sql = s;
	pthread_rwlockattr_init(&fair);
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&d->loads, &fair);
	pthread_rwlockattr_destroy(&fair);
	pthread_mutex_init(&d->texts, NULL);
	rc = open_all(d, e);
	if (rc < 0)
		duck_close(d);
	else
		*out = d;
	return rc < 0 ? rc : 0;
}

void duck_interrupt(struct duck *d)
{
	duck_api.interrupt(d->connection);
}

void duck_close(struct duck *d)
{
	if (!d)
		return;
	if (d->connection)
		duck_api.disconnect(&d->connection);
	if (d->database)
		duck_api.close(&d->database);
	duck_tables_free(d);
	kernel_names_free(d->short_names);
	kernel_names_free(d->full_names);
	pthread_rwlock_destroy(&d->loads);
	pthread_mutex_destroy(&d->texts);
	free(d);
}
