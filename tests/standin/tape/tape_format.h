/*
 * tape_format.h: the format of a tape, shared by libpitot-tape.so, which writes it, and the player.
 *
 * A file is TAPE_MAGIC, then chunks until the end. A chunk is a struct tape_chunk, then
 * packed_bytes of one zstd frame that decompresses to raw_bytes of complete records. The checksum
 * covers the frame. Chunks before the first truncated or damaged one are usable.
 *
 * A record is
 *	type	u8, enum tape_type
 *	thread	varint; 0 when the record belongs to no thread
 *	time	zigzag varint: CLOCK_MONOTONIC, ns since the previous record (of any thread)
 *	length	varint
 *	payload	`length` bytes
 * Records are in the order in which they took the writer's lock: a callback or a delivered buffer
 * before anything that the recorder did in response. Readers skip unknown types, and unknown bytes
 * at the end of a payload. Pointers and handles have their numbers from the recorded process.
 *
 * Payloads; n is a varint, z a zigzag varint, s a varint length and as many bytes:
 *	HELLO		n pairs; pairs times: s key, s value. Numbers in decimal. There may be
 *			several: one when the tape begins, one when CUPTI has been found
 *	THREAD		n tid, s name; again when the name has changed
 *	STRING		n id, n pointer, s text. Ids count up from 1. A known id has no text:
 *			its text has appeared at another pointer. A pointer may later refer to
 *			another id
 *	RESULT		n function (enum tape_function), z result, n duration_ns, n count,
 *			count times n argument, s output
 *	CALLBACK	n domain, n cbid, then by domain
 *	  API		n site, n function name id, n symbol name id, n context, n context uid,
 *			n correlation, n 1 if a return value follows, z return value, n count,
 *			count times n word of the parameters (tape_parameters)
 *	  RESOURCE	n context, n stream, n enum tape_descriptor, what it has
 *	  SYNCHRONIZE	n context, n stream
 *	  STATE		z result, n message id
 *	BUFFER_REQUEST	n size (0: the recorder gave none), n most records
 *	BUFFER_COMPLETE	n context, n stream id, n size, z result of GetNextRecord after the last,
 *			n runs; runs times: n record size, n count; s bytes
 *	NVTX		n module, n id, n domain, n range, n 1 if there is a text, s text,
 *			n category, n color, n payload kind, n payload
 *	NCCL		n interface, n enum tape_nccl_call, n communicator (in order of init), then
 *	  INIT		n hash, s name, n nodes, n ranks, n rank
 *	  START		n type of event, n handle, n parent's handle, s descriptor from
 *			TAPE_NCCL_AT on, n texts; texts times: n offset of the pointer to it, s text
 *	  STOP		n handle
 *	  STATE		n handle, n state
 *	  FINALIZE	nothing
 *	END		n 1, n records and strings that were lost
 */
#ifndef PITOT_TESTS_STANDIN_TAPE_FORMAT_H
#define PITOT_TESTS_STANDIN_TAPE_FORMAT_H

#include <stdbool.h>
#include <string.h>

#include <cupti.h>

#include "base/compiler.h"
#include "base/map.h"
#include "base/strbuf.h"

#define TAPE_MAGIC "PITOTTAP1\r\n\n"
#define TAPE_MAGIC_BYTES 12
#define TAPE_CHUNK_MAGIC UINT32_C(0x4b484354) /* "TCHK" */

struct tape_chunk {
	uint32_t magic;
	uint32_t raw_bytes, packed_bytes;
	uint32_t crc; /* crc32c of the packed bytes */
};

_Static_assert(sizeof(struct tape_chunk) == 16, "written as it is");

#define TAPE_RAW_MAX (64u << 20) /* of a chunk, and so of a record */
#define TAPE_TEXT_MAX (1u << 20) /* longer texts are truncated */
#define TAPE_CUBIN_MAX (256u << 10)
#define TAPE_ARGUMENTS_MAX 4

enum tape_type {
	TAPE_HELLO = 1,
	TAPE_THREAD = 2,
	TAPE_STRING = 3,
	TAPE_RESULT = 4,
	TAPE_CALLBACK = 5,
	TAPE_BUFFER_REQUEST = 6,
	TAPE_BUFFER_COMPLETE = 7,
	TAPE_NVTX = 8,
	TAPE_END = 9,
	TAPE_NCCL = 10,
	TAPE_TYPE_LIMIT,
};

/* A call of NCCL into its profiler plug-in. Handles count up from 1; 0: none. */
enum tape_nccl_call {
	TAPE_NCCL_INIT = 1,
	TAPE_NCCL_START = 2,
	TAPE_NCCL_STOP = 3,
	TAPE_NCCL_STATE = 4,
	TAPE_NCCL_FINALIZE = 5,
};

/* Where the descriptor of an event begins that is kept: behind type and parent's handle. */
#define TAPE_NCCL_AT 16
#define TAPE_NCCL_TEXTS 4

/*
 * Functions of the driver whose parameters are kept, as 64-bit words: what streams wait for. Also
 * with suffixes such as _ptsz.
 */
static const struct {
	const char *name;
	unsigned words;
} tape_parameters[] = {
	{ "cuEventRecord", 2 },        /* event, stream */
	{ "cuEventRecordWithFlags", 3 }, /* event, stream, flags */
	{ "cuEventSynchronize", 1 },   /* event */
	{ "cuEventQuery", 1 },         /* event */
	{ "cuStreamQuery", 1 },        /* stream */
	{ "cuStreamWaitEvent", 3 },    /* stream, event, flags */
	{ "cuStreamSynchronize", 1 },  /* stream */
	{ "cuLaunchHostFunc", 1 },     /* stream */
	{ "cuStreamWaitValue32", 3 },  /* stream, address, value and flags */
	{ "cuStreamWriteValue32", 3 }, /* likewise */
	{ "cuStreamWaitValue64", 4 },  /* stream, address, value, flags */
	{ "cuStreamWriteValue64", 4 }, /* likewise */
};
#define TAPE_PARAMETERS_MAX 4

/* Returns how many words of the parameters of a function of the driver are kept. */
static inline unsigned tape_parameter_words(const char *function)
{
	for (size_t i = 0; function && i < ARRAY_SIZE(tape_parameters); i++) {
		size_t length = strlen(tape_parameters[i].name);

		if (!strncmp(function, tape_parameters[i].name, length) &&
		    (!function[length] || function[length] == '_'))
			return tape_parameters[i].words;
	}
	return 0;
}

enum tape_descriptor {
	TAPE_DESCRIPTOR_NONE = 0,
	TAPE_DESCRIPTOR_MODULE =
		1, /* n module id, n cubin size; s cubin, if it is at most TAPE_CUBIN_MAX */
	TAPE_DESCRIPTOR_GRAPH =
		2, /* n graph, original graph, node, original node, node type, dependency, exec */
	TAPE_DESCRIPTOR_STREAM_ATTRIBUTE = 3, /* n stream, n attribute */
};

/* Numbers on disk: never change one. F(number, table's name). */
#define TAPE_CUPTI_FUNCTIONS(F)                                                                    \
	F(1, GetVersion)                                                                           \
	F(2, GetTimestamp)                                                                         \
	F(3, GetResultString)                                                                      \
	F(4, Subscribe)                                                                            \
	F(5, Subscribe_v2)                                                                         \
	F(6, Unsubscribe)                                                                          \
	F(7, EnableCallback)                                                                       \
	F(8, EnableDomain)                                                                         \
	F(9, GetCallbackName)                                                                      \
	F(10, ActivityRegisterCallbacks)                                                           \
	F(11, ActivityEnable)                                                                      \
	F(12, ActivityDisable)                                                                     \
	F(13, ActivityFlushAll)                                                                    \
	F(14, ActivityGetNumDroppedRecords)                                                        \
	F(15, ActivitySetAttribute)                                                                \
	F(16, SetThreadIdType)                                                                     \
	F(17, GetContextId)                                                                        \
	F(18, GetStreamIdEx)                                                                       \
	F(19, GetGraphId)                                                                          \
	F(20, GetGraphNodeId)

#define TAPE_DRIVER_FUNCTIONS(F)                                                                   \
	F(64, DriverGetVersion)                                                                    \
	F(65, DeviceGetCount)                                                                      \
	F(66, DeviceGet)                                                                           \
	F(67, DeviceGetName)                                                                       \
	F(68, DeviceGetUuid)                                                                       \
	F(69, DeviceGetAttribute)                                                                  \
	F(70, DeviceTotalMem)                                                                      \
	F(71, DeviceGetPCIBusId)

/* Arguments: hash_bytes() of the id for DeviceGetHandleByPciBusId_v2, else handles and numbers. */
#define TAPE_NVML_FUNCTIONS(F)                                                                     \
	F(96, Init_v2)                                                                             \
	F(97, DeviceGetHandleByPciBusId_v2)                                                        \
	F(98, DeviceGetUtilizationRates)                                                           \
	F(99, DeviceGetClockInfo)                                                                  \
	F(100, DeviceGetPowerUsage)                                                                \
	F(101, DeviceGetTemperature)                                                               \
	F(102, DeviceGetMemoryInfo)                                                                \
	F(103, DeviceGetTotalEnergyConsumption)                                                    \
	F(104, DeviceGetCurrentClocksThrottleReasons)

/*
 * What engines measure (--engine); only calls that succeed with data are on the tape. Arguments:
 * hash_bytes() of the cubin, of the name of a metric, or of the names, each with its 0 byte; the
 * context for readings. Outputs; e is a 64-bit number:
 *	GetCubinCrc		e checksum
 *	PCSamplingGetStallReasons	times n index, s name
 *	PCSamplingGetConfigurationAttribute	u32 period, as an exponent
 *	PCSamplingGetData	a reading: n samples, n dropped, n not of the program, n 1 if the
 *				GPU's buffer was full, n PCs; PCs times n checksum, n offset, n
 *				function index, s function, n reasons, reasons times n index, n
 *				samples. Also what CUPTI left in the client's buffer
 *	SassMetricsGetProperties	n id, s description
 *	SassMetricsFlushData	n records, n values of each; records times n checksum, n function
 *				index, n offset, s function, values times n metric id, n value
 *	SassMetricsDisable	e dropped records
 *	DeviceGetChipName	the name
 *	ProfilerHostConfigAddMetrics	nothing
 *	ProfilerHostGetNumOfPasses	e passes
 *	ProfilerHostGetMetricProperties	s description, s hardware unit, s unit, n type
 *	ProfilerHostEvaluateToGpuValues	doubles; of a sample if PmSamplingCounterDataGetSampleInfo
 *				comes before it
 *	PmSamplingCounterDataGetSampleInfo	e start, e end
 */
#define TAPE_ENGINE_FUNCTIONS(F)                                                                   \
	F(53, PCSamplingGetConfigurationAttribute)                                                 \
	F(55, PCSamplingGetStallReasons)                                                           \
	F(56, PCSamplingGetData)                                                                   \
	F(57, GetCubinCrc)                                                                         \
	F(110, DeviceGetChipName)                                                                  \
	F(114, ProfilerHostConfigAddMetrics)                                                       \
	F(115, ProfilerHostEvaluateToGpuValues)                                                    \
	F(135, PmSamplingCounterDataGetSampleInfo)                                                 \
	F(137, SassMetricsGetProperties)                                                           \
	F(140, SassMetricsDisable)                                                                 \
	F(142, SassMetricsFlushData)                                                               \
	F(146, ProfilerHostGetNumOfPasses)                                                         \
	F(147, ProfilerHostGetMetricProperties)

/* Returns the hash of names of metrics, an argument of the functions above. */
static inline uint64_t tape_hash_names(const char *const *names, size_t count)
{
	_cleanup_strbuf_ struct strbuf all = STRBUF_INIT;

	for (size_t i = 0; i < count; i++)
		strbuf_add(&all, names[i], strlen(names[i]) + 1);
	return hash_bytes(strbuf_text(&all), all.length);
}

enum tape_function {
#define F(number, name) TAPE_cupti##name = number,
	TAPE_CUPTI_FUNCTIONS(F)
#undef F
#define F(number, name) TAPE_cu##name = number,
		TAPE_DRIVER_FUNCTIONS(F)
#undef F
#define F(number, name) TAPE_nvml##name = number,
			TAPE_NVML_FUNCTIONS(F)
#undef F
#define F(number, name) TAPE_cupti##name = number,
				TAPE_ENGINE_FUNCTIONS(F)
#undef F
					TAPE_FUNCTION_LIMIT,
};

/*
 * Pointers in activity records. Families only grow at their end, so a record's size tells what it
 * has.
 */
struct tape_pointer {
	uint16_t kind, offset;
	bool text; /* to a C string; else to something not on the tape: NULL when played */
};

#define TAPE_STRING_AT(kind, offset)                                                               \
	{                                                                                          \
		CUPTI_ACTIVITY_KIND_##kind, offset, true                                           \
	}
#define TAPE_OPAQUE_AT(kind, offset)                                                               \
	{                                                                                          \
		CUPTI_ACTIVITY_KIND_##kind, offset, false                                          \
	}

static const struct tape_pointer tape_pointers[] = {
	TAPE_STRING_AT(KERNEL, 104),
	TAPE_OPAQUE_AT(KERNEL, 160),
	TAPE_STRING_AT(CONCURRENT_KERNEL, 104),
	TAPE_OPAQUE_AT(CONCURRENT_KERNEL, 160),
	TAPE_STRING_AT(CDP_KERNEL, 136),
	TAPE_STRING_AT(DEVICE, 136),
	TAPE_STRING_AT(NAME, 24),
	TAPE_STRING_AT(MARKER, 40),
	TAPE_STRING_AT(MARKER, 48),
	TAPE_STRING_AT(SOURCE_LOCATOR, 16),
	TAPE_STRING_AT(FUNCTION, 24),
	TAPE_OPAQUE_AT(MODULE, 16),
	TAPE_STRING_AT(MEMORY, 72),
	TAPE_STRING_AT(MEMORY2, 64),
	TAPE_STRING_AT(MEMORY2, 120),
	TAPE_STRING_AT(JIT, 56),
	TAPE_OPAQUE_AT(OVERHEAD, 48),
};

#endif
