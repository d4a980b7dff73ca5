// tracesmith.hpp: TraceSmith's C++ API on Pitot's recorder, for programs that use it (C++17; link
// with pitot and pitotread instead of tracesmith).
//
// A capture is a recording in a temporary folder, which is removed with its profiler. A kernel is
// one event, KernelLaunch, from its start on the GPU with its duration; times are nanoseconds since
// 1970. Calls that fail return false, or a result with the reason. docs/embed.md has what differs.
#ifndef TRACESMITH_TRACESMITH_HPP
#define TRACESMITH_TRACESMITH_HPP

#include <iostream> // which TraceSmith's own header brings along

#include <tracesmith/capture/profiler.hpp>
#include <tracesmith/common/types.hpp>
#include <tracesmith/format/sbt_format.hpp>
#include <tracesmith/state/perfetto_exporter.hpp>
#include <tracesmith/state/timeline_builder.hpp>
#include <tracesmith/state/timeline_viewer.hpp>

#endif
