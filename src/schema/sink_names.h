/* sink_names.h: the kinds of sinks. src/capture/sinks has a `struct sink_kind` for each. */
#ifndef PITOT_SCHEMA_SINK_NAMES_H
#define PITOT_SCHEMA_SINK_NAMES_H

#define SINKS(S)                                                                                   \
	S(recording)                                                                               \
	S(gpufl)

#endif
