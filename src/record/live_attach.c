#include "record/live_attach.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "record/symbolize.h"

#define LEAVE_NS (PITOT_SLOWNESS * 3 * NS_PER_S)

/* The server's socket belongs to the network of the first process. */
static int open_server(struct live_attach *l, pid_t pid, struct error *e)
{
	_cleanup_close_ int folder = -1;
	struct folder_id id = { 0 };
	int network, err;

	if (l->folder)
		return 0;
	l->folder = symbolize_make_temporary(e);
	if (!l->folder)
		return e->code;
	folder = folder_open(l->folder, FOLDER_OWN);
	err = folder_identify(folder, &id);
	network = network_enter(pid);
	if (err >= 0)
		err = segment_server_open(&l->server, l->folder, &id);
	network_leave(network);
	l->server.ring.bytes = RING_BYTES / RING_PARTS;
	return err < 0 ? error_set(e, err, "cannot attach: %s", error_code_text(err)) : 0;
}

static void serve(void *server)
{
	segment_server_answer(server);
}

int live_attach_add(struct live_attach *l, pid_t pid, const char *options, struct error *e)
{
	_cleanup_free_ struct attach_request *request = calloc(1, sizeof(*request));
	_cleanup_strbuf_ struct strbuf launcher = STRBUF_INIT;
	struct attached a;
	int rc = request ? open_server(l, pid, e) : error_set(e, -ENOMEM, "out of memory");

	if (rc < 0)
		return rc;
	segment_server_text(&l->server, false, &launcher);
	rc = attach_request_fill(request, strbuf_text(&launcher), l->folder, options, e);
	if (rc >= 0)
		rc = attach_start(pid, request, l->server.fd, serve, &l->server, &a, &l->answer, e);
	if (rc < 0)
		return rc;
	if (vec_push(&l->attached, a) < 0) {
		close(a.fd);
		return error_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

void live_attach_serve(struct live_attach *l)
{
	if (!l->folder)
		return;
	segment_server_answer(&l->server);
	segment_ring_trim(&l->server.ring);
	segment_server_trim_memories(&l->server);
}

void live_attach_close(struct live_attach *l)
{
	uint64_t end_ns = clock_monotonic_ns() + LEAVE_NS;

	for (size_t i = 0; i < l->attached.count; i++)
		shutdown(l->attached.data[i].fd, SHUT_WR);
	for (size_t i = 0; i < l->attached.count; i++) {
		struct attach_answer answer;

		/* A process that does not answer leaves when its driver does. */
		(void)!attach_await(&l->attached.data[i], l->server.fd, serve, &l->server, end_ns,
				    &answer);
		close(l->attached.data[i].fd);
	}
	vec_release(&l->attached);
	segment_server_close(&l->server);
	symbolize_remove_temporary(l->folder);
	l->folder = NULL;
}
