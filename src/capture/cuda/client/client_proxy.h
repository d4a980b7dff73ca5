/*
 * client_proxy.h: --own-profiler: lets the program's own client of CUPTI (torch.profiler's Kineto,
 * Triton's Proton, …) work beside the recorder, although CUPTI accepts one subscriber only, which
 * is the recorder.
 *
 * Calls of other libraries into CUPTI are redirected here (import_redirect.h). CUPTI has everything
 * enabled that either of the two wants. The client's callback is called within the recorder's, and
 * its records are copied from the recorder's buffers (client_records.h). Its timestamp callback,
 * its attributes and its cuptiFinalize take effect here only; functions that are not redirected,
 * such as those for external correlation ids, still reach CUPTI.
 *
 * The recorder's own calls go through its table of functions (struct cupti), where
 * client_proxy_wrap() replaces the functions that both use by this module's. While the recorder
 * is not subscribed, the client's calls reach CUPTI: its state is handed over to CUPTI when the
 * recorder leaves, and taken back when it returns.
 */
#ifndef PITOT_CAPTURE_CUDA_CLIENT_CLIENT_PROXY_H
#define PITOT_CAPTURE_CUDA_CLIENT_CLIENT_PROXY_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "format/writer.h"
#include "schema/settings.h"

/*
 * Must be called before the recorder subscribes; effective for all later sessions. Has no effect if
 * this CUPTI cannot be shared. With keep, only the client's attempts to subscribe are noticed.
 */
void client_proxy_wrap(struct cupti *cupti, const struct settings *settings);

/* Copies the client's records. Collector's thread. */
void client_proxy_copy(uint8_t *bytes, size_t valid);

/* Redirects the calls of newly loaded libraries. Vendor thread. */
void client_proxy_update(void);

/* Whether CUPTI's timestamps come from the client's clock. */
bool client_proxy_clock_is_clients(void);

/*
 * Writes the row of `capability` on what happened, compared with what was requested. Collector's
 * thread, at the end.
 */
void client_proxy_end(struct writer *w, const char *requested);

void client_proxy_after_fork(void);

#endif
