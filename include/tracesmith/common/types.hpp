// types.hpp: TraceSmith's events.
#ifndef TRACESMITH_COMMON_TYPES_HPP
#define TRACESMITH_COMMON_TYPES_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tracesmith {

using Timestamp = uint64_t;

// F(name, number)
#define TRACESMITH_EVENT_TYPES(F) \
	F(Unknown, 0) F(KernelLaunch, 1) F(KernelComplete, 2) \
	F(MemcpyH2D, 3) F(MemcpyD2H, 4) F(MemcpyD2D, 5) \
	F(MemsetDevice, 6) F(StreamSync, 7) F(DeviceSync, 8) \
	F(EventRecord, 9) F(EventSync, 10) F(StreamCreate, 11) \
	F(StreamDestroy, 12) F(ContextCreate, 13) F(ContextDestroy, 14) \
	F(MemAlloc, 15) F(MemFree, 16) F(Marker, 17) \
	F(RangeStart, 18) F(RangeEnd, 19) F(NCCLStart, 20) \
	F(NCCLComplete, 21) \
	F(Custom, 255)

#define TRACESMITH_EVENT_TYPE(name, number) name = number,
enum class EventType : uint8_t { TRACESMITH_EVENT_TYPES(TRACESMITH_EVENT_TYPE) };

#define TRACESMITH_EVENT_NAME(name, number)                                                        \
	if (type == EventType::name)                                                               \
		return #name;
inline const char *eventTypeToString(EventType type)
{
	TRACESMITH_EVENT_TYPES(TRACESMITH_EVENT_NAME)
	return "Unknown";
}

// GPU work: what a timeline consists of.
inline bool isWork(EventType type)
{
	return type >= EventType::KernelLaunch && type <= EventType::MemsetDevice;
}

struct StackFrame {
	uint64_t address = 0;
	std::string function_name, file_name;
	uint32_t line_number = 0;
};

struct CallStack {
	std::vector<StackFrame> frames; // the innermost one first
	uint64_t thread_id = 0;
	bool empty() const { return frames.empty(); }
	size_t depth() const { return frames.size(); }
};

struct KernelParams {
	uint32_t grid_x = 0, grid_y = 0, grid_z = 0, block_x = 0, block_y = 0, block_z = 0;
	uint32_t shared_mem_bytes = 0, registers_per_thread = 0;
};

struct MemoryParams {
	uint64_t src_address = 0, dst_address = 0, size_bytes = 0;
};

inline Timestamp getCurrentTimestamp()
{
	auto now = std::chrono::system_clock::now().time_since_epoch();
	return static_cast<Timestamp>(std::chrono::nanoseconds(now).count());
}

struct TraceEvent {
	EventType type = EventType::Unknown;
	Timestamp timestamp = 0, duration = 0;
	uint32_t device_id = 0, stream_id = 0;
	uint64_t correlation_id = 0;
	std::string name;
	uint32_t thread_id = 0;
	std::map<std::string, std::string> metadata; // not in files
	std::optional<KernelParams> kernel_params;
	std::optional<MemoryParams> memory_params;
	std::optional<CallStack> call_stack;

	TraceEvent() = default;
	TraceEvent(EventType t, Timestamp ts = 0) : type(t), timestamp(ts ? ts : getCurrentTimestamp())
	{
	}
};

struct CounterEvent {
	Timestamp timestamp = 0;
	uint32_t device_id = 0, track_id = 0;
	std::string counter_name;
	double value = 0;
	std::string unit;

	CounterEvent() = default;
	CounterEvent(const std::string &name, double val, Timestamp ts = 0, const std::string &u = "")
		: timestamp(ts ? ts : getCurrentTimestamp()), counter_name(name), value(val), unit(u)
	{
	}
};

struct TraceMetadata {
	std::string application_name, command_line;
	Timestamp start_time = 0, end_time = 0;
	std::string hostname;
	uint32_t process_id = 0;
};

class TraceRecord {
public:
	const std::vector<TraceEvent> &events() const { return events_; }
	std::vector<TraceEvent> &events() { return events_; }
	const TraceMetadata &metadata() const { return metadata_; }
	TraceMetadata &metadata() { return metadata_; }
	void addEvent(TraceEvent event) { events_.push_back(std::move(event)); }
	size_t size() const { return events_.size(); }
	bool empty() const { return events_.empty(); }

private:
	TraceMetadata metadata_;
	std::vector<TraceEvent> events_;
};

} // namespace tracesmith

#endif
