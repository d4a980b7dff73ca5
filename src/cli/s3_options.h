/* s3_options.h: options of commands that read or write object storage. */
#ifndef PITOT_CLI_S3_OPTIONS_H
#define PITOT_CLI_S3_OPTIONS_H

#include "agent/s3.h"
#include "base/options.h"

/* Which of them the command line has. */
struct s3_given {
	bool endpoint, region, credentials;
};

/* `o` is a struct s3_options, `has` a struct s3_given. */
#define S3_OPTIONS(o, has)                                                                         \
	OPTION(STRING, "s3-endpoint", 0, (o).endpoint, "URL",                                      \
	       "server of s3://BUCKET (default: AWS_ENDPOINT_URL, or Amazon's of the region)",     \
	       .given = &(has).endpoint),                                                          \
		OPTION(STRING, "s3-region", 0, (o).region, "NAME",                                 \
		       "region of the bucket (default: AWS_REGION, or us-east-1)",                 \
		       .given = &(has).region),                                                    \
		OPTION(STRING, "s3-credentials", 0, (o).credentials, "FILE",                       \
		       "file with credentials, such as ~/.aws/credentials (default: those of the " \
		       "environment, then that file)",                                             \
		       .is_path = true, .given = &(has).credentials)

#endif
