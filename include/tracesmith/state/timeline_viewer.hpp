// timeline_viewer.hpp: a timeline as text, a row for each stream of each device.
#ifndef TRACESMITH_STATE_TIMELINE_VIEWER_HPP
#define TRACESMITH_STATE_TIMELINE_VIEWER_HPP

#include <sstream>

#include <tracesmith/state/timeline_builder.hpp>

namespace tracesmith {

class TimelineViewer {
public:
	struct ViewConfig {
		size_t width = 80, max_rows = 50;
		bool show_timestamps = true, show_duration = true;
		char fill_char = '#';
	};

	TimelineViewer() = default;
	explicit TimelineViewer(const ViewConfig &config) : config_(config) {}

	// A cell is filled if any work falls into it.
	std::string render(const Timeline &timeline) const
	{
		std::ostringstream out;
		std::map<std::pair<uint32_t, uint32_t>, std::string> rows;
		if (timeline.spans.empty())
			return "Empty timeline\n";
		Timestamp start = timeline.spans.front().start_time;
		for (const TimelineSpan &s : timeline.spans) {
			std::string &row = rows[{ s.device_id, s.stream_id }];
			row.resize(config_.width, ' ');
			for (size_t i = cell(s.start_time, start, timeline), last = cell(
				     std::max(s.start_time + 1, s.end_time) - 1, start, timeline);
			     i <= last && i < config_.width; i++)
				row[i] = config_.fill_char;
		}
		out << "Timeline View\n=============\n";
		if (config_.show_timestamps)
			out << "Start: " << start << " ns\nEnd:   " << start + timeline.total_duration
			    << " ns\n";
		if (config_.show_duration)
			out << "Duration: " << double(timeline.total_duration) / 1e6 << " ms\n";
		size_t shown = 0;
		for (const auto &[place, row] : rows) {
			if (shown++ == config_.max_rows) {
				out << "... (" << rows.size() - config_.max_rows << " more streams)\n";
				break;
			}
			out << "GPU " << place.first << " stream " << place.second << ": |" << row << "|\n";
		}
		return out.str();
	}

private:
	size_t cell(Timestamp time, Timestamp start, const Timeline &t) const
	{
		double share = double(time - start) / double(std::max<Timestamp>(t.total_duration, 1));
		return static_cast<size_t>(share * double(config_.width));
	}

	ViewConfig config_;
};

} // namespace tracesmith

#endif
