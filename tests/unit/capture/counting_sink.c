#include "unit/capture/counting_sink.h"

static struct counting_sink *sink_of(struct sink *s)
{
	return (struct counting_sink *)s;
}

static void epoch(struct sink *s)
{
	if (sink_of(s)->on_epoch)
		sink_of(s)->on_epoch(sink_of(s));
}

static void append(struct sink *s, enum table_id table, const void *row)
{
	atomic_fetch_add(&sink_of(s)->rows[table], 1);
	if (sink_of(s)->on_row)
		sink_of(s)->on_row(sink_of(s), table, row);
}

static int seal(struct sink *s)
{
	unsigned slow = atomic_load(&sink_of(s)->slow);

	if (slow)
		atomic_store(&sink_of(s)->slow, slow - 1);
	return slow > 0;
}

static int close_sink(struct sink *s)
{
	atomic_store(&sink_of(s)->closed, true);
	return 0;
}

static void abandon(struct sink *s)
{
	atomic_store(&sink_of(s)->abandoned, true);
}

void counting_sink_init(struct counting_sink *s)
{
	static const struct sink_ops ops = { .name = "counting",
					     .epoch = epoch,
					     .append = append,
					     .seal = seal,
					     .close = close_sink,
					     .abandon = abandon };

	s->sink.ops = &ops;
}
