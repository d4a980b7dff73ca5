/*
 * A C program that records itself: two phases, each a recording of its own. CMakeLists.txt builds
 * it with find_package or FetchContent; with pkg-config:
 *
 *	cc main.c -o program $(pkg-config --cflags --libs pitot)
 */
#include <pitot/pitot.h>

#include <stdio.h>

static void log_message(void *context, int level, const char *text)
{
	(void)context;
	fprintf(stderr, "pitot, level %d: %s\n", level, text);
}

static void phase(const char *directory)
{
	struct pitot_options options = {
		.size = sizeof(options),
		.directory = directory,
		.log = log_message,
		.graphs = PITOT_GRAPHS_LAUNCH,
		.counters_ns = 100000000,
	};
	struct pitot_session *session = pitot_start(&options);

	if (!session)
		fprintf(stderr, "not recorded: %s\n", pitot_error());
	/* … what is to be recorded … */
	pitot_stop(session);
}

int main(void)
{
	/* The recording of `pitot record`, or one of its own. */
	int recording = pitot_init(NULL);

	phase("first.pitot");
	phase("second.pitot");
	printf("%s %d\n", pitot_version(), recording);
	pitot_shutdown();
	return 0;
}
