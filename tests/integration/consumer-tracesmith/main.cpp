// A program with TraceSmith's calls, on Pitot: a capture of itself, or a file that is named.
#include <tracesmith/tracesmith.hpp>
#include <tracesmith/state/timeline_builder.hpp>
#include <tracesmith/state/timeline_viewer.hpp>
#include <tracesmith/state/perfetto_exporter.hpp>

#include <pitot/scope.h>

using namespace tracesmith;

static std::vector<TraceEvent> captureEvents()
{
	auto profiler = createProfiler(PlatformType::CUDA);
	ProfilerConfig config;
	config.buffer_size = 1000000;
	profiler->initialize(config);
	profiler->startCapture();
	std::cout << "capturing " << profiler->isCapturing() << profiler->startCapture() << "\n";
	pitot_scope_begin("inside");
	pitot_scope_end();
	profiler->stopCapture();
	std::vector<TraceEvent> events, rest;
	profiler->getEvents(events, 1);
	std::cout << "first " << events.size() << "\n";
	profiler->getEvents(rest);
	events.insert(events.end(), rest.begin(), rest.end());
	std::cout << "captured " << profiler->eventsCaptured() << " " << profiler->eventsDropped() << "\n";
	return events;
}

int main(int argc, char **argv)
{
	std::vector<TraceEvent> events;
	if (argc > 1) {
		SBTReader reader(argv[1]);
		TraceRecord record;
		SBTResult read = reader.readAll(record);
		if (!read)
			std::cout << "error " << read.error_message << "\n";
		std::cout << "valid " << reader.isValid() << " " << reader.broken() << "\n";
		events = record.events();
	} else {
		events = captureEvents();
	}
	for (const TraceEvent &e : events)
		std::cout << "event " << eventTypeToString(e.type) << " " << e.timestamp << " " << e.duration << " "
			  << e.device_id << " " << e.stream_id << " " << e.correlation_id << " " << e.thread_id << " "
			  << (e.kernel_params ? e.kernel_params->block_x : 0) << " "
			  << (e.memory_params ? e.memory_params->size_bytes : 0) << " "
			  << (e.call_stack ? e.call_stack->depth() : 0) << " " << e.name << "\n";

	SBTWriter writer("trace.sbt");
	writer.writeEvents(events);
	SBTResult written = writer.finalize();
	std::cout << "written " << written.success << writer.isOpen() << writer.writeEvents(events).success << " "
		  << written.error_message << "\n";

	TimelineBuilder builder;
	builder.addEvents(events);
	Timeline timeline = builder.build();
	TimelineViewer viewer;
	std::cout << viewer.render(timeline);
	PerfettoExporter exporter;
	exporter.setEnableGPUTracks(true);
	exporter.setEnableFlowEvents(true);
	std::cout << "exported " << exporter.exportToFile(events, { CounterEvent("a \"name\"", 1.5, 1001) }, "trace.json") << "\n";
	std::cout << "utilization " << timeline.gpu_utilization << " " << timeline.total_duration << " "
		  << timeline.max_concurrent_ops << "\n";
	return createProfiler(PlatformType::Metal) != nullptr;
}
