#include "perfetto/producer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "perfetto/producer_state.h"

#define QUEUE_BYTES_MIN ((size_t)128 << 10)
#define QUEUE_BYTES ((size_t)4 << 20)
#define QUEUE_BYTES_MAX ((size_t)1 << 30)
#define ANSWERS_RESERVED ((size_t)4 << 10) /* queue bytes reserved for answers */
#define ENDS_SHARE 32 /* one part in 32 of the queue is reserved for ends of slices */
#define STACK_BYTES (256u << 10)
#define TICK_MS 100 /* while packets arrive */
#define PROGRAM_CHECK_MS 1000 /* interval of checks whether the program has ended */
#define PAUSE_FIRST_MS 100
#define PAUSE_LAST_MS 10000
#define DRAIN_LIMIT_NS (3 * NS_PER_S)
#define DRAIN_PATIENCE_NS (500 * NS_PER_MS) /* without progress by the service */
#define STOP_LIMIT_NS (950 * NS_PER_MS) /* until draining begins, in case a handler is running */
#define DESCRIPTORS_MAX 253 /* Linux's limit per message */
/* Memory shared with the service, which the producer does not use: as small as allowed. */
#define SHARED_PAGE_BYTES 4096
#define SHARED_BYTES (16u << 10)

/* Wakes the thread. */
static void wake(struct producer *p)
{
	if (own_fd_valid(&p->wake[1]))
		send(p->wake[1].fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* --- connection --- */

static void set_path(struct producer *p, const char *path, size_t length)
{
	memcpy(p->address.sun_path, path, length);
	if (path[0] == '@')
		p->address.sun_path[0] = '\0'; /* abstract socket */
	p->address.sun_family = AF_UNIX;
	p->address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static int choose_address(struct producer *p, const char *given, struct error *e)
{
	const char *path = given ? given : secure_getenv("PERFETTO_PRODUCER_SOCK_NAME");
	size_t length = path ? strlen(path) : 0;

	if (!length)
		return 0;
	if (length >= sizeof(p->address.sun_path))
		return error_set(e, -ENAMETOOLONG, "path of socket '%s' is longer than %zu bytes",
				 path, sizeof(p->address.sun_path) - 1);
	if (path[0] != '@' && strchr(path, ':'))
		return error_set(e, E_UNSUPPORTED, "socket '%s' is not a path: give a Unix socket",
				 path);
	set_path(p, path, length);
	return 0;
}

#define SYSTEM_FOLDER "/run/perfetto/"

/* Whether the service that listens on the socket may know and command what is recorded. */
static bool is_trusted(struct producer *p, bool of_system, const char *path)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct stat folder;

	if (getsockopt(p->socket.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid() ||
	    (of_system && stat(SYSTEM_FOLDER, &folder) == 0 && folder.st_uid == peer.uid))
		return true;
	if (p->handler.refused && !p->has_refused)
		p->handler.refused(p->handler.user, path, peer.uid);
	p->has_refused = true;
	return false;
}

static int socket_connect(struct producer *p)
{
	int err = own_fd_set(&p->socket,
			     socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	struct sockaddr_un standard = { .sun_family = AF_UNIX };
	bool chosen = p->address_length, of_system;
	const struct sockaddr_un *address = chosen ? &p->address : &standard;

	if (err < 0)
		return err;
	of_system = !chosen && access(SYSTEM_FOLDER, X_OK) == 0;
	snprintf(standard.sun_path, sizeof(standard.sun_path), "%s",
		 of_system ? SYSTEM_FOLDER "traced-producer.sock" : "/tmp/perfetto-producer");
	if (connect(p->socket.fd, (const struct sockaddr *)address,
		    chosen ? p->address_length : sizeof(standard)) == 0 &&
	    is_trusted(p, of_system, address->sun_path + !address->sun_path[0]))
		return 0;
	own_fd_close(&p->socket);
	return -ECONNREFUSED;
}

static bool connection_begin(struct producer *p)
{
	if (socket_connect(p) < 0)
		return false;
	p->broken = p->bound = p->may_commit = p->out.failed = false;
	p->in_length = 0;
	p->requests = 1;
	ipc_bind(&p->out, p->requests);
	return true;
}

static void connection_end(struct producer *p)
{
	own_fd_close(&p->socket);
	producer_close_instances(p);
	if (p->bound && !atomic_load(&p->stopping))
		p->handler.lost(p->handler.user);
}

struct ipc_call producer_call(struct producer *p, enum ipc_method method, bool expect_reply)
{
	return ipc_call_open(&p->out, &p->methods, ++p->requests, method, expect_reply);
}

void producer_call_end(struct producer *p, const struct ipc_call *call)
{
	ipc_call_close(&p->out, call);
	p->broken |= p->out.failed;
	if (p->out.length <= OUTPUT_BYTES)
		return;
	p->out.length = call->start;
	p->broken = true;
}

/* --- frames from the service --- */

static void register_source(struct producer *p, size_t source)
{
	struct ipc_call call = producer_call(p, IPC_REGISTER_SOURCE, false);
	size_t descriptor = proto_open(&p->out, 1);

	proto_string(&p->out, 1, p->sources[source]);
	proto_uint(&p->out, 2, true); /* will_notify_on_stop */
	proto_uint(&p->out, 3, true); /* will_notify_on_start */
	proto_uint(&p->out, 4, true); /* handles_incremental_state_clear */
	if (p->handler.describe)
		p->handler.describe(p->handler.user, source, &p->out);
	proto_close(&p->out, descriptor);
	producer_call_end(p, &call);
}

static void introduce(struct producer *p)
{
	struct ipc_call call = producer_call(p, IPC_INITIALIZE, true);

	p->initialize_request = p->requests;
	proto_uint(&p->out, 1, SHARED_PAGE_BYTES);
	proto_uint(&p->out, 2, SHARED_BYTES);
	proto_string(&p->out, 3, p->name);
	proto_uint(&p->out, 4, 2); /* smb_scraping_mode: disabled */
	proto_string(&p->out, 8, "pitot " PITOT_VERSION);
	producer_call_end(p, &call);
	call = producer_call(p, IPC_COMMANDS, true);
	p->commands_request = p->requests;
	producer_call_end(p, &call);
	for (size_t i = 0; i < p->source_count; i++)
		register_source(p, i);
}

/* Returns false if the connection must be closed. */
static bool handle_frame(struct producer *p, const uint8_t *bytes, size_t length)
{
	struct ipc_command command;
	struct ipc_frame frame;

	if (!ipc_frame_read(&frame, bytes, length) || frame.kind == IPC_REQUEST_ERROR)
		return false;
	if (frame.kind == IPC_BIND_REPLY && !p->bound) {
		if (!ipc_methods_read(&p->methods, frame.reply))
			return false;
		p->bound = true;
		introduce(p);
	}
	if (frame.kind != IPC_INVOKE_REPLY || !p->bound)
		return true;
	if (frame.request == p->initialize_request)
		return frame.success;
	if (frame.request != p->commands_request)
		return true;
	if (!frame.success || !frame.has_more || !ipc_command_read(&command, frame.reply))
		return false;
	producer_command(p, &command);
	return true;
}

static void handle_frames(struct producer *p)
{
	size_t at = 0;

	while (!p->broken && p->in_length - at >= IPC_LENGTH_BYTES) {
		uint32_t length = load_u32(p->in + at);

		if (length > IPC_FRAME_MAX) {
			p->broken = true;
			return;
		}
		if (p->in_length - at - IPC_LENGTH_BYTES < length)
			break;
		at += IPC_LENGTH_BYTES;
		p->broken |= !handle_frame(p, p->in + at, length);
		at += length;
	}
	memmove(p->in, p->in + at, p->in_length - at);
	p->in_length -= at;
}

/* Closes descriptors received with a message, as no memory is shared. */
static void close_received(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++)
			close((int)load_u32(CMSG_DATA(c) + i * sizeof(int)));
	}
}

static void receive(struct producer *p)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
	} control;
	struct iovec io = { p->in + p->in_length, INPUT_BYTES - p->in_length };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(p->socket.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n > 0) {
		close_received(&message);
		p->in_length += (size_t)n;
		handle_frames(p);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		p->broken = true;
	}
}

static bool output_is_sent(const struct producer *p)
{
	return p->sent == p->out.length;
}

static void send_output(struct producer *p)
{
	ssize_t n = 0;

	while (!output_is_sent(p) && n >= 0) {
		n = send(p->socket.fd, p->out.data + p->sent, p->out.length - p->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		p->sent += n > 0 ? (size_t)n : 0;
		p->moved_ns = n > 0 ? clock_machine_ns() : p->moved_ns;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		p->broken = true;
	if (output_is_sent(p) || p->out.length > OUTPUT_CHUNKS) {
		p->out.length -= p->sent;
		memmove(p->out.data, p->out.data + p->sent, p->out.length);
		p->sent = 0;
	}
}

/* --- thread --- */

static bool descriptors_valid(const struct producer *p)
{
	return own_fd_valid(&p->wake[0]) && own_fd_valid(&p->wake[1]) &&
	       (!p->socket.fd || own_fd_valid(&p->socket));
}

/*
 * A process whose main() ended by pthread_exit() ends with its last thread, so the producer's
 * thread must not be the last.
 */
static void check_program(struct producer *p)
{
	uint64_t now = clock_machine_ns();

	if (!p->handler.program_ended || now - p->program_seen_ns < PROGRAM_CHECK_MS * NS_PER_MS)
		return;
	p->program_seen_ns = now;
	if (p->handler.program_ended(p->handler.user))
		atomic_store(&p->stopping, true);
}

/* Sleeps until the connection, if any, is ready or until wake(). */
static void wait_for_work(struct producer *p, int timeout_ms)
{
	struct pollfd fds[] = {
		{ .fd = p->wake[0].fd, .events = POLLIN },
		{ .fd = p->socket.fd,
		  .events = (short)(POLLIN | (output_is_sent(p) ? 0 : POLLOUT)) },
	};
	char waking[64];

	if (p->handler.program_ended && (timeout_ms < 0 || timeout_ms > PROGRAM_CHECK_MS))
		timeout_ms = PROGRAM_CHECK_MS;
	poll(fds, p->socket.fd ? 2 : 1, timeout_ms);
	check_program(p);
	if (descriptors_valid(p) && fds[0].revents & POLLIN)
		recv(p->wake[0].fd, waking, sizeof(waking), MSG_DONTWAIT);
}

static bool is_sent(const struct producer *p)
{
	return producer_drained(p) && output_is_sent(p);
}

/* Returns the time until there is work other than poll()'s events; -1: forever. */
static int timeout_ms(const struct producer *p, bool stopping)
{
	if (output_is_sent(p) && p->may_commit && !producer_drained(p))
		return 0;
	return stopping ? 10 : p->instances_open ? TICK_MS : -1;
}

/*
 * Whether the service's time is over and a send was tried after it, as this thread may not have run
 * for long.
 */
static bool drain_timed_out(const struct producer *p, uint64_t tried_ns)
{
	return tried_ns > p->drain_ns + DRAIN_LIMIT_NS ||
	       tried_ns > p->moved_ns + DRAIN_PATIENCE_NS;
}

/* Runs until the connection ends or the producer stops. */
static void serve(struct producer *p)
{
	while (!p->broken) {
		bool stopping = atomic_load(&p->stopping);
		uint64_t now = clock_machine_ns();

		if (stopping && !atomic_exchange(&p->draining, true))
			p->drain_ns = p->moved_ns = now;
		if (stopping && (is_sent(p) || !p->may_commit))
			return;
		wait_for_work(p, timeout_ms(p, stopping));
		if (!descriptors_valid(p))
			return;
		receive(p);
		producer_drain(p);
		send_output(p);
		if (stopping && drain_timed_out(p, now))
			return;
	}
}

/* Waits without a connection; queued packets are discarded. */
static void pause_between(struct producer *p, int pause_ms)
{
	uint64_t end_ns = clock_machine_ns() + (uint64_t)pause_ms * NS_PER_MS, now;

	p->out.length = p->sent = 0;
	p->broken = false;
	producer_drain(p);
	while (!atomic_load(&p->stopping) && descriptors_valid(p) &&
	       (now = clock_machine_ns()) < end_ns)
		wait_for_work(p, (int)((end_ns - now) / NS_PER_MS) + 1);
}

static void *run(void *user)
{
	struct producer *p = user;
	int pause_ms = PAUSE_FIRST_MS;

	while (!atomic_load(&p->stopping) && descriptors_valid(p)) {
		uint64_t since_ns = clock_machine_ns();

		if (connection_begin(p)) {
			serve(p);
			connection_end(p);
		}
		if (clock_machine_ns() - since_ns > PAUSE_LAST_MS * NS_PER_MS)
			pause_ms = PAUSE_FIRST_MS;
		pause_between(p, pause_ms);
		pause_ms = MIN(2 * pause_ms, PAUSE_LAST_MS);
	}
	pthread_mutex_lock(&p->end_lock);
	p->ended = true;
	pthread_cond_signal(&p->end_changed);
	pthread_mutex_unlock(&p->end_lock);
	return NULL;
}

/* --- start and end --- */

static void release(struct producer *p)
{
	own_fd_close(&p->wake[0]);
	own_fd_close(&p->wake[1]);
	packet_queue_release(&p->queue);
	pthread_cond_destroy(&p->end_changed);
	pthread_mutex_destroy(&p->end_lock);
	strbuf_release(&p->out);
	free(p->in);
	free(p);
}

static int copy_options(struct producer *p, const struct producer_options *o, struct error *e)
{
	if (o->source_count > PRODUCER_SOURCES_MAX)
		return error_set(e, E_USAGE, "more than %d data sources", PRODUCER_SOURCES_MAX);
	p->handler = o->handler;
	snprintf(p->name, sizeof(p->name), "%s", o->name);
	for (size_t i = 0; i < o->source_count; i++)
		if (snprintf(p->sources[i], PRODUCER_NAME_MAX, "%s", o->sources[i]) >=
		    PRODUCER_NAME_MAX)
			return error_set(e, E_USAGE, "name of data source '%s' is too long",
					 o->sources[i]);
	p->source_count = o->source_count;
	return choose_address(p, o->socket, e);
}

static size_t queue_size(size_t requested)
{
	size_t size = QUEUE_BYTES_MIN;

	requested = requested ? MIN(requested, QUEUE_BYTES_MAX) : QUEUE_BYTES;
	while (size < requested)
		size *= 2;
	return size;
}

static int allocate(struct producer *p, const struct producer_options *o)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&p->end_changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&p->end_lock, NULL);
	p->in = malloc(INPUT_BYTES);
	p->owner = getpid();
	if (packet_queue_init(&p->queue, queue_size(o->queue_bytes)) < 0 || !p->in ||
	    !raw_reserve(&p->out, OUTPUT_BYTES))
		return -ENOMEM;
	return 0;
}

static int start_thread(struct producer *p)
{
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	err = own_fd_set(&p->wake[0], pair[0]);
	if (own_fd_set(&p->wake[1], pair[1]) < 0 || err < 0)
		return -EMFILE;
	return helper_thread_start(run, p, STACK_BYTES);
}

struct producer *producer_start(const struct producer_options *options, struct error *e)
{
	struct producer *p = calloc(1, sizeof(*p));
	int err = p ? allocate(p, options) : -ENOMEM;

	if (err < 0)
		error_set(e, err, "out of memory");
	else if ((err = copy_options(p, options, e)) == 0 && (err = start_thread(p)) < 0)
		error_errno(e, -err, "cannot start the thread of the Perfetto producer");
	if (err == 0)
		return p;
	if (p)
		release(p);
	return NULL;
}

/* The caller holds end_lock. */
static void wait_for_end(struct producer *p, uint64_t end_ns)
{
	struct timespec end = { (time_t)(end_ns / NS_PER_S), (long)(end_ns % NS_PER_S) };
	int err = 0;

	while (!p->ended && !err)
		err = pthread_cond_timedwait(&p->end_changed, &p->end_lock, &end);
}

void producer_stop(struct producer *p)
{
	uint64_t end_ns = clock_machine_ns() + STOP_LIMIT_NS;

	if (!p || p->owner != getpid())
		return;
	atomic_store(&p->stopping, true);
	wake(p);
	pthread_mutex_lock(&p->end_lock);
	wait_for_end(p, end_ns);
	if (atomic_load(&p->draining))
		wait_for_end(p, end_ns + DRAIN_LIMIT_NS);
	pthread_mutex_unlock(&p->end_lock);
}

void producer_after_fork(struct producer *p)
{
	if (!p)
		return;
	atomic_store(&p->forgotten, true);
	own_fd_close(&p->socket);
	own_fd_close(&p->wake[0]);
	own_fd_close(&p->wake[1]);
}

/* --- from any thread --- */

static bool bit_get(const uint64_t *bits, uint32_t n)
{
	return bits[n / 64] >> n % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t n, bool value)
{
	bits[n / 64] = (bits[n / 64] & ~(UINT64_C(1) << n % 64)) | (uint64_t)value << n % 64;
}

/* Encodes the fields that the producer adds to a packet; returns their length. */
static uint32_t packet_end(const struct instance *s, uint32_t n, uint8_t end[8])
{
	static const uint8_t first_packet_on_sequence[] = { 0xb8, 0x05, 1 };
	static const uint8_t previous_packet_dropped[] = { 0xd0, 0x02, 1 };
	uint32_t length = 0;

	if (!bit_get(s->begun, n)) {
		memcpy(end, first_packet_on_sequence, sizeof(first_packet_on_sequence));
		length += sizeof(first_packet_on_sequence);
	}
	if (bit_get(s->dropped, n)) {
		memcpy(end + length, previous_packet_dropped, sizeof(previous_packet_dropped));
		length += sizeof(previous_packet_dropped);
	}
	return length;
}

/* The caller holds queue.lock. */
static bool add_packet(struct producer *p, struct instance *s, uint32_t sequence,
		       const void *packet, size_t length, bool is_end)
{
	size_t reserved = ANSWERS_RESERVED + (is_end ? 0 : p->queue.size / ENDS_SHARE);
	struct queued_packet head = { s->number, sequence, (uint32_t)length };
	uint32_t n = sequence - 1, end_length;
	uint8_t end[8];
	bool added;

	if (n >= PRODUCER_SEQUENCES_MAX)
		return false;
	end_length = packet_end(s, n, end);
	head.length += end_length;
	added = length <= PRODUCER_PACKET_MAX &&
		packet_queue_add(&p->queue, &head, packet, end, end_length, reserved);
	if (added)
		bit_set(s->begun, n, true);
	bit_set(s->dropped, n, !added);
	return added;
}

/* Returns an instance by number, NULL if its slot was reused. The caller holds queue.lock. */
static struct instance *instance_at(struct producer *p, uint32_t number)
{
	struct instance *s = &p->instances[number % PRODUCER_INSTANCES_MAX];

	return number && s->number == number ? s : NULL;
}

bool producer_write(struct producer *p, uint32_t instance, uint32_t sequence, const void *packet,
		    size_t length, bool is_end)
{
	struct instance *s;
	bool added;

	if (atomic_load_explicit(&p->forgotten, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&p->queue.lock);
	s = instance_at(p, instance);
	added = s && s->open && length && !atomic_load(&p->stopping) &&
		add_packet(p, s, sequence, packet, length, is_end);
	if (s && !added)
		s->lost++;
	pthread_mutex_unlock(&p->queue.lock);
	if (packet_queue_used(&p->queue) >= p->queue.size / 4 && !atomic_load(&p->woken) &&
	    !atomic_exchange(&p->woken, true))
		wake(p);
	return added;
}

void producer_done(struct producer *p, uint32_t instance)
{
	struct queued_packet answer = { .instance = instance };
	struct instance *s;
	bool added;

	if (atomic_load_explicit(&p->forgotten, memory_order_relaxed))
		return;
	pthread_mutex_lock(&p->queue.lock);
	s = instance_at(p, instance);
	added = s && s->open && packet_queue_add(&p->queue, &answer, NULL, NULL, 0, 0);
	pthread_mutex_unlock(&p->queue.lock);
	if (added)
		wake(p);
}

uint64_t producer_lost(const struct producer *p, uint32_t instance)
{
	struct producer *changed = (struct producer *)p; /* only locked */
	struct instance *s;
	uint64_t lost;

	pthread_mutex_lock(&changed->queue.lock);
	s = instance_at(changed, instance);
	lost = s ? s->lost : 0;
	pthread_mutex_unlock(&changed->queue.lock);
	return lost;
}
