/*
 * tape.h: writes down what the vendor's libraries said to the recorder, so that it can be played back without a GPU.
 *
 * With PITOT_TAPE=FILE in the environment, tape_wrap() replaces the pointers of the function tables by functions that
 * call the original and note down arguments and results; the callbacks that the recorder hands to CUPTI (subscriber,
 * buffer request, buffer complete) are wrapped the same way. The rest of the recorder does not know. A child of a fork
 * that records too writes its own tape, FILE.<pid>.
 */
#ifndef PITOT_CAPTURE_TAPE_TAPE_H
#define PITOT_CAPTURE_TAPE_TAPE_H

#include <stdbool.h>

struct cupti;
struct driver;
struct nvml;

/* Starts a tape if the environment asks for one. Called once a session, before any other call through the tables. */
bool tape_wrap(struct cupti *cupti, struct driver *driver);

/* A call of NVTX's function `id` (position in the callback table `module`) with its arguments, as the NVTX source saw it. */
struct tape_nvtx {
	unsigned module, id;	/* NVTX_CB_MODULE_… and NVTX_CBID_… */
	unsigned domain;	/* the recorder's domain id, 0 default */
	unsigned long long range;
	const char *text;	/* message or name, or NULL */
	unsigned category, color;
	int payload_kind;	/* enum nvtx_payload */
	unsigned long long payload;
};

#ifndef PITOT_WITHOUT_CUDA
/* True while a tape is being written: sources that are not behind the tables (NVTX) then note their calls down. */
bool tape_running(void);
void tape_nvtx(const struct tape_nvtx *call);

/* As tape_wrap for the table of NVML, while a tape is being written. */
void tape_nvml(struct nvml *nvml);

/* Completes the tape. Called at the very end of a session. */
void tape_close(void);
#else
static inline bool tape_running(void)
{
	return false;
}
static inline void tape_nvtx(const struct tape_nvtx *call)
{
	(void)call;
}
static inline void tape_nvml(struct nvml *nvml)
{
	(void)nvml;
}
static inline void tape_close(void)
{
}
#endif

#endif
