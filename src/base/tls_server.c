#include "base/tls_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"

/* Constants and functions of OpenSSL 1.1.1 and 3, whose headers are not needed. */
#define SSL_FILETYPE_PEM 1
#define SSL_CTRL_SET_MIN_PROTO_VERSION 123
#define TLS1_2_VERSION 0x0303
#define SSL_ERROR_WANT_READ 2
#define CHECK_NS (10 * NS_PER_S) /* between looks at the files */
#define PIECE 16384

#define FUNCTIONS(F)                                                                               \
	F(const void *, TLS_server_method, (void))                                                 \
	F(void *, SSL_CTX_new, (const void *method))                                               \
	F(void, SSL_CTX_free, (void *context))                                                     \
	F(long, SSL_CTX_ctrl, (void *context, int command, long value, void *more))                \
	F(int, SSL_CTX_use_certificate_chain_file, (void *context, const char *path))              \
	F(int, SSL_CTX_use_PrivateKey_file, (void *context, const char *path, int type))           \
	F(void, SSL_CTX_set_default_passwd_cb,                                                     \
	  (void *context, int (*password)(char *, int, int, void *)))                              \
	F(void *, SSL_CTX_get0_certificate, (const void *context))                                 \
	F(void *, SSL_new, (void *context))                                                        \
	F(void, SSL_free, (void *session))                                                         \
	F(void, SSL_set_bio, (void *session, void *in, void *out))                                 \
	F(void, SSL_set_accept_state, (void *session))                                             \
	F(int, SSL_read, (void *session, void *to, int length))                                    \
	F(int, SSL_write, (void *session, const void *from, int length))                           \
	F(int, SSL_shutdown, (void *session))                                                      \
	F(int, SSL_get_error, (const void *session, int rc))                                       \
	F(const void *, BIO_s_mem, (void))                                                         \
	F(void *, BIO_new, (const void *method))                                                   \
	F(int, BIO_free, (void *bio))                                                              \
	F(int, BIO_read, (void *bio, void *to, int length))                                        \
	F(int, BIO_write, (void *bio, const void *from, int length))                               \
	F(const void *, X509_get0_notAfter, (const void *certificate))                             \
	F(int, X509_cmp_current_time, (const void *time))                                          \
	F(unsigned long, ERR_get_error, (void))                                                    \
	F(void, ERR_clear_error, (void))                                                           \
	F(const char *, ERR_reason_error_string, (unsigned long error))

struct tls_server {
#define MEMBER(type, name, arguments) type(*name) arguments;
	FUNCTIONS(MEMBER)
	void *context;
	const char *path, *key_path;
	struct timespec changed[2]; /* of the files */
	uint64_t check_ns; /* CLOCK_MONOTONIC: when they are looked at again */
};

struct tls_session {
	const struct tls_server *server;
	void *ssl, *in, *out; /* the session owns the buffers */
};

static int load(struct tls_server *t, struct error *e)
{
	static const char *const names[] = { "libssl.so.3", "libssl.so.1.1" };
	void *library = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library)
		return error_set(e, E_UNSUPPORTED,
				 "cannot load libssl.so.3 for TLS: install it with apt-get install "
				 "libssl3 or dnf install openssl-libs");
#define FIND(type, name, arguments)                                                                \
	*(void **)&t->name = dlsym(library, #name);                                                \
	if (!t->name)                                                                              \
		return error_set(e, E_UNSUPPORTED, "the machine's libssl has no " #name);
	FUNCTIONS(FIND)
	return 0;
}

/* --- certificates --- */

/* Nobody is there to type a password. */
static int no_password(char *to, int size, int writing, void *user)
{
	(void)to, (void)size, (void)writing, (void)user;
	return 0;
}

static int fail(const struct tls_server *t, const char *what, const char *path, struct error *e)
{
	const char *reason = t->ERR_reason_error_string(t->ERR_get_error());

	t->ERR_clear_error();
	return error_set(e, E_USAGE,
			 "cannot use '%s' as %s: %s; it takes a PEM file, a key without a password",
			 path, what, reason ? reason : "unknown error");
}

static void find_changes(const struct tls_server *t, struct timespec changed[2])
{
	const char *const paths[] = { t->path, t->key_path };

	for (size_t i = 0; i < 2; i++) {
		struct stat st = { 0 };

		(void)!stat(paths[i], &st);
		changed[i] = st.st_mtim;
	}
}

static int read_files(struct tls_server *t, struct error *e)
{
	struct timespec changed[2];
	void *context = t->SSL_CTX_new(t->TLS_server_method());
	int rc = 0;

	if (!context)
		return error_set(e, -ENOMEM, "out of memory");
	find_changes(t, changed);
	t->SSL_CTX_set_default_passwd_cb(context, no_password);
	t->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
	if (t->SSL_CTX_use_certificate_chain_file(context, t->path) != 1)
		rc = fail(t, "a certificate", t->path, e);
	/* This also checks that they belong together. */
	else if (t->SSL_CTX_use_PrivateKey_file(context, t->key_path, SSL_FILETYPE_PEM) != 1)
		rc = fail(t, "its key", t->key_path, e);
	if (rc < 0) {
		t->SSL_CTX_free(context);
		return rc;
	}
	if (t->context)
		t->SSL_CTX_free(t->context); /* sessions hold it as well */
	t->context = context;
	t->changed[0] = changed[0];
	t->changed[1] = changed[1];
	return 0;
}

int tls_server_open(struct tls_server **out, const char *path, const char *key_path, bool *expired,
		    struct error *e)
{
	struct tls_server *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return error_set(e, -ENOMEM, "out of memory");
	t->path = path;
	t->key_path = key_path ? key_path : path;
	rc = load(t, e);
	rc = rc < 0 ? rc : read_files(t, e);
	if (rc < 0) {
		tls_server_free(t);
		return rc;
	}
	*expired = t->X509_cmp_current_time(
			   t->X509_get0_notAfter(t->SSL_CTX_get0_certificate(t->context))) < 0;
	*out = t;
	return 0;
}

/* One that was replaced by something unusable stays. */
static void renew(struct tls_server *t)
{
	uint64_t now = clock_monotonic_ns();
	struct timespec changed[2];

	if (now < t->check_ns)
		return;
	t->check_ns = now + CHECK_NS;
	find_changes(t, changed);
	for (size_t i = 0; i < 2; i++)
		if (changed[i].tv_sec != t->changed[i].tv_sec ||
		    changed[i].tv_nsec != t->changed[i].tv_nsec) {
			(void)!read_files(t, NULL);
			return;
		}
}

void tls_server_free(struct tls_server *t)
{
	if (!t)
		return;
	if (t->context)
		t->SSL_CTX_free(t->context);
	free(t);
}

/* --- sessions --- */

struct tls_session *tls_session_new(struct tls_server *t)
{
	struct tls_session *s = calloc(1, sizeof(*s));

	renew(t);
	if (!s)
		return NULL;
	s->server = t;
	s->ssl = t->SSL_new(t->context);
	s->in = t->BIO_new(t->BIO_s_mem());
	s->out = t->BIO_new(t->BIO_s_mem());
	if (s->ssl && s->in && s->out) {
		t->SSL_set_bio(s->ssl, s->in, s->out);
		t->SSL_set_accept_state(s->ssl);
		return s;
	}
	t->BIO_free(s->in);
	t->BIO_free(s->out);
	if (s->ssl)
		t->SSL_free(s->ssl);
	free(s);
	return NULL;
}

static void drain(const struct tls_session *s, struct strbuf *out)
{
	char bytes[PIECE];
	int n;

	while ((n = s->server->BIO_read(s->out, bytes, sizeof(bytes))) > 0)
		strbuf_add(out, bytes, (size_t)n);
}

int tls_receive(struct tls_session *s, const void *bytes, size_t length, struct strbuf *plain,
		struct strbuf *out)
{
	const struct tls_server *t = s->server;
	char text[PIECE];
	int n, rc;

	t->ERR_clear_error();
	if (length > INT_MAX || t->BIO_write(s->in, bytes, (int)length) != (int)length)
		return -ENOMEM;
	while ((n = t->SSL_read(s->ssl, text, sizeof(text))) > 0)
		strbuf_add(plain, text, (size_t)n);
	rc = t->SSL_get_error(s->ssl, n) == SSL_ERROR_WANT_READ ? 0 : -EPROTO;
	t->ERR_clear_error();
	drain(s, out);
	return plain->failed || out->failed ? -ENOMEM : rc;
}

int tls_finish(struct tls_session *s, const struct strbuf *text, struct strbuf *out)
{
	const struct tls_server *t = s->server;
	size_t at = 0;
	int n = 1;

	t->ERR_clear_error();
	while (at < text->length && n > 0) {
		n = t->SSL_write(s->ssl, text->data + at, (int)MIN(text->length - at, PIECE));
		at += n > 0 ? (size_t)n : 0;
		drain(s, out);
	}
	(void)t->SSL_shutdown(s->ssl);
	t->ERR_clear_error();
	drain(s, out);
	return n <= 0 ? -EPROTO : out->failed ? -ENOMEM : 0;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	s->server->SSL_free(s->ssl);
	free(s);
}
