// timeline_builder.hpp: when the GPUs worked.
#ifndef TRACESMITH_STATE_TIMELINE_BUILDER_HPP
#define TRACESMITH_STATE_TIMELINE_BUILDER_HPP

#include <algorithm>

#include <tracesmith/common/types.hpp>

namespace tracesmith {

struct TimelineSpan {
	uint64_t correlation_id = 0;
	uint32_t device_id = 0, stream_id = 0;
	EventType type = EventType::Unknown;
	std::string name;
	Timestamp start_time = 0, end_time = 0;
};

struct Timeline {
	std::vector<TimelineSpan> spans; // in order of time
	Timestamp total_duration = 0;    // from the first to the last GPU work
	double gpu_utilization = 0;      // share of it in which a device had work, mean of the devices
	size_t max_concurrent_ops = 0;
};

// Of kernels, copies and memory sets. Overlapping work counts once.
class TimelineBuilder {
public:
	void addEvents(const std::vector<TraceEvent> &events)
	{
		for (const TraceEvent &e : events)
			addEvent(e);
	}
	void addEvent(const TraceEvent &e)
	{
		if (isWork(e.type))
			spans_.push_back({ e.correlation_id, e.device_id, e.stream_id, e.type, e.name,
					   e.timestamp, e.timestamp + e.duration });
	}
	void clear() { spans_.clear(); }

	Timeline build() const
	{
		Timeline t;
		t.spans = spans_;
		std::stable_sort(t.spans.begin(), t.spans.end(), [](const auto &a, const auto &b) {
			return a.start_time < b.start_time;
		});
		std::map<uint32_t, Timestamp> until; // by device: the end of its work so far
		std::vector<std::pair<Timestamp, int>> changes;
		Timestamp busy = 0, last = 0;
		for (const TimelineSpan &s : t.spans) {
			Timestamp &end = until[s.device_id];
			busy += s.end_time - std::min(s.end_time, std::max(s.start_time, end));
			end = std::max(end, s.end_time);
			last = std::max(last, s.end_time);
			if (s.end_time > s.start_time) {
				changes.emplace_back(s.start_time, 1);
				changes.emplace_back(s.end_time, -1);
			}
		}
		t.total_duration = t.spans.empty() ? 0 : last - t.spans.front().start_time;
		if (t.total_duration)
			t.gpu_utilization = double(busy) / double(t.total_duration) / double(until.size());
		std::sort(changes.begin(), changes.end());
		size_t running = 0;
		for (auto [time, change] : changes) {
			running += static_cast<size_t>(change);
			t.max_concurrent_ops = std::max(t.max_concurrent_ops, running);
		}
		return t;
	}

private:
	std::vector<TimelineSpan> spans_;
};

} // namespace tracesmith

#endif
