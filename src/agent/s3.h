/*
 * s3.h: objects in a bucket of object storage that speaks Amazon's S3. Requests are signed by
 * libcurl (Signature Version 4); bodies are not hashed, so another endpoint than this machine needs
 * HTTPS. Single-threaded; prints nothing.
 *
 * Credentials are read before each request, so that they may be replaced while it runs: from a file
 * in the format of ~/.aws/credentials, or from the environment. They are in no error and no URL.
 */
#ifndef PITOT_AGENT_S3_H
#define PITOT_AGENT_S3_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

#define S3_SCHEME "s3://"
#define S3_KEY_MAX 1024u
#define S3_STALL_NS ((4 + PITOT_SLOWNESS) * NS_PER_S) /* longest time without a byte: 5 s */

struct s3_options {
	/* NULL: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the region */
	const char *endpoint;
	const char *region; /* NULL: AWS_REGION, AWS_DEFAULT_REGION, or us-east-1 */
	const char *credentials; /* a file; NULL: the environment, or ~/.aws/credentials */
};

struct s3;

/* `url` is s3://BUCKET or s3://BUCKET/PREFIX. Sends nothing. Returns 0 or a negative code. */
int s3_open(struct s3 **out, const char *url, const struct s3_options *options,
	    struct error *e) MUST_USE;
void s3_free(struct s3 *s); /* may be NULL */

/* The address of the prefix, as engines read it: ENDPOINT/BUCKET/PREFIX. */
const char *s3_address(const struct s3 *s);

/*
 * Keys are those below the prefix. What a moment may change (5xx, 429, no connection) is tried
 * again a few times, for about a second. Then it is -EAGAIN; -EACCES and -ENOENT (bucket or key)
 * are not tried again.
 */

/*
 * Sends a file. Without `replace`, an object of that key stays as it is, and the result is 1; that
 * is also the result if the object was made by an attempt whose answer was lost.
 */
int s3_put(struct s3 *s, int file, const char *key, bool replace, struct error *e) MUST_USE;
/* Writes an object, from its beginning, into a file. */
int s3_get(struct s3 *s, const char *key, int file, struct error *e) MUST_USE;
/* Replaces a text by an object; E_LIMIT if that has more than `max` bytes. */
int s3_read(struct s3 *s, const char *key, size_t max, struct strbuf *out,
	    struct error *e) MUST_USE;
/* Removes an object, which may not exist. */
int s3_remove(struct s3 *s, const char *key, struct error *e) MUST_USE;
/* Calls visit for each key that begins with a prefix, until it returns a negative code. */
typedef int s3_visit(void *user, const char *key, uint64_t bytes);
int s3_list(struct s3 *s, const char *prefix, s3_visit *visit, void *user,
	    struct error *e) MUST_USE;

#endif
