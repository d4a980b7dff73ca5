#include "cli/tls_options.h"

#include "cli/ui.h"

int tls_options_open(const struct context *c, const struct tls_options *o, struct tls_server **out,
		     struct error *e)
{
	bool expired = false;
	int rc;

	*out = NULL;
	if (!o->certificate)
		return o->key ? error_set(e, E_USAGE, "--tls-key needs --tls") : 0;
	rc = tls_server_open(out, o->certificate, o->key, &expired, e);
	if (expired)
		cli_warn(c,
			 "the certificate '%s' has expired, so clients will refuse it: replace the "
			 "file, which is read again",
			 o->certificate);
	return rc;
}
