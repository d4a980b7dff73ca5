#include "agent/peer_auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/options.h"

#define SECRET_MIN 32u
#define SEEN_MAX 4096u
#define REQUEST_HEAD "pitot-request-1\n"
#define ANSWER_HEAD "pitot-answer-1\n"

/* --- the secret --- */

static bool is_blank(uint8_t c)
{
	return c == '\n' || c == '\r' || c == ' ' || c == '\t';
}

static int read_secret(int fd, struct peer_secret *out)
{
	ssize_t n;

	while (out->length < sizeof(out->bytes) &&
	       (n = read(fd, out->bytes + out->length, sizeof(out->bytes) - out->length)) != 0) {
		if (n < 0)
			return -errno;
		out->length += (size_t)n;
	}
	while (out->length && is_blank(out->bytes[out->length - 1]))
		out->length--;
	return 0;
}

int peer_secret_read(const char *path, struct peer_secret *out, struct error *e)
{
	struct stat st;
	_cleanup_close_ int fd = io_open_file(path, &st);
	int rc = fd < 0 ? fd : 0;

	*out = (struct peer_secret){ .length = 0 };
	if (rc == 0 && st.st_mode & 077)
		return error_set(e, -EACCES,
				 "others may read the secret '%s': chmod 600 %s, and make a new "
				 "one if they have",
				 path, path);
	rc = rc < 0 ? rc : read_secret(fd, out);
	if (rc < 0)
		return error_set(e, rc, "cannot read the secret '%s': %s", path,
				 error_code_text(rc));
	if (out->length >= SECRET_MIN && out->length < sizeof(out->bytes))
		return 0;
	peer_secret_forget(out);
	return error_set(e, E_USAGE,
			 "the secret '%s' has to have 32 to 255 bytes: openssl rand -hex 32 > %s",
			 path, path);
}

void peer_secret_forget(struct peer_secret *s)
{
	explicit_bzero(s, sizeof(*s));
}

/* --- codes --- */

static void add_hex(const uint8_t *bytes, size_t length, char *out)
{
	for (size_t i = 0; i < length; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

int peer_nonce(char out[PEER_NONCE + 1], struct error *e)
{
	uint8_t bytes[PEER_NONCE / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return error_errno(e, errno, "no random number");
	add_hex(bytes, sizeof(bytes), out);
	return 0;
}

void peer_answer_begin(const struct peer_secret *s, const char *nonce, struct hmac *h)
{
	hmac_begin(h, s->bytes, s->length);
	hmac_add(h, ANSWER_HEAD, strlen(ANSWER_HEAD));
	hmac_add(h, nonce, PEER_NONCE);
}

void peer_code_end(struct hmac *h, char out[PEER_CODE + 1])
{
	uint8_t bytes[SHA256_BYTES];

	hmac_end(h, bytes);
	add_hex(bytes, sizeof(bytes), out);
}

static void request_code(const struct peer_secret *s, const char *host, const char *text,
			 size_t length, char out[PEER_CODE + 1])
{
	struct hmac h;

	hmac_begin(&h, s->bytes, s->length);
	hmac_add(&h, REQUEST_HEAD, strlen(REQUEST_HEAD));
	hmac_add(&h, host, strlen(host) + 1);
	hmac_add(&h, text, length);
	peer_code_end(&h, out);
}

void peer_sign(const struct peer_secret *s, const char *host, uint64_t now_s, const char *nonce,
	       struct strbuf *text)
{
	char code[PEER_CODE + 1];

	strbuf_addf(text, "&time=%" PRIu64 "&nonce=%s", now_s, nonce);
	request_code(s, host, strbuf_text(text), text->length, code);
	strbuf_addf(text, "&code=%s", code);
}

/* --- checks --- */

static bool is_own_address(const char *host)
{
	struct ifaddrs *list = NULL;
	struct in6_addr v6;
	struct in_addr v4;
	bool is_v4 = inet_pton(AF_INET, host, &v4) == 1, found = false;

	if ((!is_v4 && inet_pton(AF_INET6, host, &v6) != 1) || getifaddrs(&list) < 0)
		return false;
	for (const struct ifaddrs *a = list; a && !found; a = a->ifa_next) {
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && is_v4)
			found = ((const struct sockaddr_in *)(const void *)a->ifa_addr)
					->sin_addr.s_addr == v4.s_addr;
		else if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6 && !is_v4)
			found = !memcmp(&((const struct sockaddr_in6 *)(const void *)a->ifa_addr)
						 ->sin6_addr,
					&v6, sizeof(v6));
	}
	freeifaddrs(list);
	return found;
}

/* node1 is also node1.cluster.example, and the other way round. */
static bool is_own_name(const char *host)
{
	struct utsname names;
	size_t length = strcspn(host, ".");

	return uname(&names) == 0 && length && strcspn(names.nodename, ".") == length &&
	       !strncasecmp(host, names.nodename, length);
}

static bool is_own_host(const char *text, uint16_t port)
{
	const char *colon = strrchr(text, ':');
	uint64_t number;
	char host[256];
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (!length || length >= sizeof(host) || parse_u64(colon + 1, &number) < 0 ||
	    number != port)
		return false;
	if (*text == '[' && text[length - 1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)length - 2, text + 1);
	else
		snprintf(host, sizeof(host), "%.*s", (int)length, text);
	return is_own_address(host) || is_own_name(host);
}

/* Whether a request is new; it is not from then on. */
static bool is_new(struct peer_seen *seen, const char *nonce, uint64_t time_s, uint64_t now_s)
{
	struct peer_seen_nonce one = { .time_s = time_s };
	size_t kept = 0;

	for (size_t i = 0; i < seen->nonces.count; i++) {
		const struct peer_seen_nonce *old = &seen->nonces.data[i];

		if (!strcmp(old->nonce, nonce))
			return false;
		if (old->time_s + PEER_SKEW_S >= now_s)
			seen->nonces.data[kept++] = *old;
	}
	seen->nonces.count = kept;
	memcpy(one.nonce, nonce, sizeof(one.nonce));
	return kept < SEEN_MAX && vec_push(&seen->nonces, one) == 0;
}

unsigned peer_check(const struct peer_secret *s, struct peer_seen *seen, const char *host,
		    uint16_t port, const char *path, const char *query, uint64_t now_s,
		    char nonce[PEER_NONCE + 1])
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *code = strstr(query, "&code="), *time = strstr(query, "&time=");
	char want[PEER_CODE + 1];
	uint64_t time_s;
	int end = 0;

	if (!code || !time || strlen(code) != strlen("&code=") + PEER_CODE)
		return 403;
	strbuf_addf(&text, "%s?", path);
	strbuf_add(&text, query, (size_t)(code - query));
	if (text.failed)
		return 503;
	request_code(s, host, strbuf_text(&text), text.length, want);
	if (!equal_secret(want, code + strlen("&code="), PEER_CODE))
		return 403;
	if (sscanf(time, "&time=%" SCNu64 "&nonce=%32[0-9a-f]%n", &time_s, nonce, &end) != 2 ||
	    time + end != code || strlen(nonce) != PEER_NONCE)
		return 400;
	if (!is_own_host(host, port) || time_s > now_s + PEER_SKEW_S ||
	    time_s + PEER_SKEW_S < now_s)
		return 403;
	return is_new(seen, nonce, time_s, now_s) ? 0 : 403;
}

void peer_seen_release(struct peer_seen *seen)
{
	vec_release(&seen->nonces);
}
