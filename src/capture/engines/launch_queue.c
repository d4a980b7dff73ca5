#include "capture/engines/launch_queue.h"

#include <pthread.h>
#include <stdlib.h>

#define QUEUE_BYTES ((size_t)64 << 20)

static struct {
	pthread_mutex_t lock; /* held briefly */
	struct measured *oldest, **end;
	size_t bytes;
} self = { .lock = PTHREAD_MUTEX_INITIALIZER, .end = &self.oldest };

bool launch_queue_push(struct measured *m, size_t bytes)
{
	bool has_room;

	m->next = NULL;
	m->bytes = bytes;
	pthread_mutex_lock(&self.lock);
	has_room = bytes <= QUEUE_BYTES - self.bytes;
	if (has_room) {
		*self.end = m;
		self.end = &m->next;
		self.bytes += bytes;
	}
	pthread_mutex_unlock(&self.lock);
	if (!has_room)
		free(m);
	return has_room;
}

struct measured *launch_queue_take(void)
{
	struct measured *m;

	pthread_mutex_lock(&self.lock);
	m = self.oldest;
	if (m) {
		self.oldest = m->next;
		self.bytes -= m->bytes;
		if (!self.oldest)
			self.end = &self.oldest;
	}
	pthread_mutex_unlock(&self.lock);
	return m;
}

void launch_queue_clear(void)
{
	for (struct measured *m; (m = launch_queue_take());)
		free(m);
}

void launch_queue_after_fork(void)
{
	pthread_mutex_init(&self.lock, NULL);
	self.oldest = NULL;
	self.end = &self.oldest;
	self.bytes = 0;
}
