/* s3_credentials.h: the credentials of object storage, from the environment or from a file. */
#ifndef PITOT_AGENT_S3_CREDENTIALS_H
#define PITOT_AGENT_S3_CREDENTIALS_H

#include "base/error.h"

#define S3_TOKEN_MAX 4096u

struct s3_credentials {
	char key[129], secret[257];
	char token[S3_TOKEN_MAX]; /* of temporary ones, or "" */
};

/*
 * Reads a file in the format of ~/.aws/credentials (the section of AWS_PROFILE, or [default]).
 * NULL: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; without them the file of
 * AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials. Returns 0 or a negative code; errors have no
 * secrets.
 */
int s3_credentials_read(const char *path, struct s3_credentials *out, struct error *e) MUST_USE;

#endif
