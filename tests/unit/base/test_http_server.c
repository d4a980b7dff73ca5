/* The server with clients in this process: nothing here takes time, so nothing runs out. */
#include "base/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/cmocka_tests.h"

#define REQUEST "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"

static struct http_server server;
static uint64_t asked; /* the last connection */

static void on_request(void *user, uint64_t connection, const struct http_request *r)
{
	(void)user;
	assert_string_equal(r->path, "/x");
	asked = connection;
}

static int set_up(void **state)
{
	(void)state;
	server = (struct http_server){ .option = "--port", .handle = on_request };
	asked = 0;
	return http_server_open(&server, "127.0.0.1:0", NULL);
}

static int tear_down(void **state)
{
	(void)state;
	http_server_close(&server);
	return 0;
}

static int begin(const char *text)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(server.port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void who_is_slowest_makes_room(void **state)
{
	int fds[HTTP_CONNECTIONS + 2];
	char byte;

	(void)state;
	for (unsigned i = 0; i < HTTP_CONNECTIONS + 2; i++) {
		fds[i] = begin(i == 0 ? REQUEST : "GET");
		http_server_serve(&server);
	}
	assert_int_equal(asked, 1); /* it is complete, and waits for its answer */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(recv(fds[i], &byte, 1, MSG_DONTWAIT), i == 1 || i == 2 ? 0 : -1);
	for (unsigned i = 0; i < HTTP_CONNECTIONS + 2; i++)
		close(fds[i]);
}

static void no_room_but_for_answers(void **state)
{
	struct pollfd polled[HTTP_DESCRIPTORS];
	int fds[HTTP_CONNECTIONS];

	(void)state;
	for (unsigned i = 0; i < HTTP_CONNECTIONS; i++) {
		fds[i] = begin(REQUEST);
		http_server_serve(&server);
	}
	assert_int_equal(http_server_poll(&server, polled), 0); /* all wait */
	http_answer(&server, 1, &(struct http_answer){ .status = 200, .type = "a", .body = "" });
	assert_int_equal(http_server_poll(&server, polled), 1);
	assert_int_equal(polled[0].events, POLLOUT);
	http_server_serve(&server);
	assert_int_equal(http_server_poll(&server, polled), 1);
	assert_int_equal(polled[0].fd, server.fd);
	for (unsigned i = 0; i < HTTP_CONNECTIONS; i++)
		close(fds[i]);
}

/* Its time for a request is over, but it was there. */
static void an_answer_has_its_own_time(void **state)
{
	static char body[1 << 23], bytes[1 << 16];
	int fd = begin(REQUEST);
	size_t length = 0;
	ssize_t n;

	(void)state;
	memset(body, 'x', sizeof(body));
	http_server_serve(&server);
	assert_int_equal(asked, 1);
	server.connections[0].end_ns = 1;
	http_server_serve(&server);
	assert_true(server.connections[0].fd >= 0);
	http_answer(&server, asked + 1, &(struct http_answer){ .status = 500, .type = "a" });
	http_answer(&server, asked,
		    &(struct http_answer){ .status = 200,
					   .type = "a",
					   .headers = "B: c\r\n",
					   .body = body,
					   .length = sizeof(body) });
	http_server_serve(&server);
	assert_true(server.connections[0].fd >= 0); /* more than a socket takes at once */
	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) != 0) {
		if (n > 0 && !length)
			assert_non_null(memmem(bytes, (size_t)n, "\r\nB: c\r\n\r\nxx", 12));
		length += n > 0 ? (size_t)n : 0;
		http_server_serve(&server);
	}
	assert_in_range(length, sizeof(body) + 100, sizeof(body) + 400);
	close(fd);
}

static void who_takes_too_long_is_left(void **state)
{
	int fd = begin("GET /x HTTP/1.1\r\n");
	char byte;

	(void)state;
	http_server_serve(&server);
	assert_true(server.connections[0].fd >= 0);
	server.connections[0].end_ns = 1;
	http_server_serve(&server);
	assert_int_equal(server.connections[0].fd, -1);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

/* A page of another host whose name leads to this machine is refused. */
static void only_names_of_this_machine(void **state)
{
	static const struct {
		const char *host;
		bool served;
	} hosts[] = {
		{ "localhost", true },          { "LOCALHOST:8080", true },
		{ "127.0.0.1:1", true },        { "[::1]:65000", true },
		{ "localhost:80.evil", false }, { "localhost.evil", false },
		{ "127.0.0.1.evil", false },    { "evil", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		char text[128];
		int fd;

		asked = 0;
		snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i].host);
		fd = begin(text);
		http_server_serve(&server);
		assert_int_equal(asked > 0, hosts[i].served);
		close(fd);
	}
}

/* As after an option that is wrong: nobody's descriptor is closed. */
static void one_that_is_not_open_is_closed(void **state)
{
	struct http_server not_open = { .fd = -1 };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(dup2(null, STDIN_FILENO), STDIN_FILENO);
	http_server_close(&not_open);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), 0);
	close(null);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(who_is_slowest_makes_room),  TEST(no_room_but_for_answers),
		TEST(an_answer_has_its_own_time), TEST(who_takes_too_long_is_left),
		TEST(only_names_of_this_machine), TEST(one_that_is_not_open_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
