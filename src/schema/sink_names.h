/*
 * sink_names.h: S(name, what follows its colon, for the help of --sinks): the kinds of sinks.
 * src/capture/sinks has a `struct sink_kind` for each.
 */
#ifndef PITOT_SCHEMA_SINK_NAMES_H
#define PITOT_SCHEMA_SINK_NAMES_H

#define SINKS(S)                                                                                   \
	S(recording, "DIR")                                                                        \
	S(gpufl, "DIR (gpufl's logs)")

#define SINK_HELP(name, where) "; " #name ":" where

#endif
