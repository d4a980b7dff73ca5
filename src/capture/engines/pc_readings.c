#include "capture/engines/pc_readings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/map.h"

#define TEXTS_BYTES (16u << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* only held briefly */
static struct pc_reading *oldest, **end = &oldest;
static size_t bytes;
static atomic_uint_fast64_t lost;

static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct interner texts;

const char *pc_text(const char *text)
{
	const char *kept = NULL;
	int64_t id;

	pthread_mutex_lock(&texts_lock);
	id = interner_find(&texts, text, strlen(text));
	if (id < 0 && texts.bytes < TEXTS_BYTES)
		id = interner_add(&texts, text, strlen(text), NULL);
	if (id >= 0)
		kept = texts.items[id].text;
	pthread_mutex_unlock(&texts_lock);
	return kept;
}

static uint64_t sum_of(const struct pc_sample *samples, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += samples[i].samples;
	return sum;
}

/* A reading without samples always fits: there are few. */
static bool reserve(size_t size, size_t count)
{
	bool fits;

	pthread_mutex_lock(&lock);
	fits = !count || bytes + size <= PC_READINGS_BYTES;
	if (fits)
		bytes += size;
	pthread_mutex_unlock(&lock);
	return fits;
}

static size_t size_of(size_t count)
{
	return sizeof(struct pc_reading) + count * sizeof(struct pc_sample);
}

static struct pc_reading *new_reading(size_t count)
{
	struct pc_reading *r = NULL;

	if (reserve(size_of(count), count)) {
		r = calloc(1, size_of(count));
		if (!r) {
			pthread_mutex_lock(&lock);
			bytes -= size_of(count);
			pthread_mutex_unlock(&lock);
		}
	}
	return r;
}

void pc_readings_push(const struct pc_reading *reading, const struct pc_sample *samples,
		      size_t count)
{
	uint64_t sum = sum_of(samples, count);
	struct pc_reading *r = new_reading(count);

	if (!r) {
		atomic_fetch_add(&lost, sum);
		count = 0;
		r = new_reading(0);
		if (!r)
			return;
	}
	*r = *reading;
	r->next = NULL;
	r->count = count;
	if (count)
		memcpy(r->samples, samples, count * sizeof(*samples));
	r->total = MAX(r->total, sum + r->dropped);
	r->other = r->total - r->dropped - (count ? sum : 0);
	pthread_mutex_lock(&lock);
	*end = r;
	end = &r->next;
	pthread_mutex_unlock(&lock);
}

struct pc_reading *pc_readings_take(void)
{
	struct pc_reading *r;

	pthread_mutex_lock(&lock);
	r = oldest;
	if (r) {
		oldest = r->next;
		if (!oldest)
			end = &oldest;
		bytes -= size_of(r->count);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

uint64_t pc_readings_lost(void)
{
	return atomic_load(&lost);
}

void pc_readings_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&texts_lock, NULL);
	interner_init(&texts);
	oldest = NULL;
	end = &oldest;
	bytes = 0;
	atomic_store(&lost, 0);
}
