// sbt_format.hpp: TraceSmith's SBT files, by pitot/read.h.
#ifndef TRACESMITH_FORMAT_SBT_FORMAT_HPP
#define TRACESMITH_FORMAT_SBT_FORMAT_HPP

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>

#include <pitot/read.h>
#include <tracesmith/common/types.hpp>

namespace tracesmith {

struct SBTResult {
	bool success = true;
	std::string error_message;
	explicit operator bool() const { return success; }
};

namespace detail {

inline std::string text(pitot_sbt_text t) { return std::string(t.bytes, t.length); }
inline pitot_sbt_text text(const std::string &s) { return { s.data(), s.size() }; }

inline SBTResult result(int code, const pitot_read_error &error)
{
	return code < 0 ? SBTResult{ false, error.text } : SBTResult{};
}

inline TraceEvent event_of(const pitot_sbt_event &v)
{
	TraceEvent e;
	e.type = static_cast<EventType>(v.type);
	e.timestamp = v.time_ns;
	e.duration = v.duration_ns;
	e.device_id = v.device;
	e.stream_id = v.stream;
	e.correlation_id = v.correlation;
	e.name = text(v.name);
	e.thread_id = v.thread;
	const uint32_t *k = v.kernel;
	if (v.has & PITOT_SBT_KERNEL)
		e.kernel_params = KernelParams{ k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7] };
	if (v.has & PITOT_SBT_MEMORY)
		e.memory_params = MemoryParams{ v.memory[0], v.memory[1], v.memory[2] };
	if (v.has & PITOT_SBT_STACK && v.frame_count) {
		e.call_stack.emplace();
		e.call_stack->thread_id = v.thread;
		for (size_t i = 0; i < v.frame_count; i++) {
			const pitot_sbt_frame &f = v.frames[i];
			e.call_stack->frames.push_back({ f.address, text(f.function), text(f.file),
							 static_cast<uint32_t>(f.line) });
		}
	}
	return e;
}

// `frames` has those of the event until the next one.
inline pitot_sbt_event event_of(const TraceEvent &e, std::vector<pitot_sbt_frame> &frames)
{
	pitot_sbt_event v = {};
	v.type = static_cast<uint32_t>(e.type);
	v.time_ns = e.timestamp;
	v.duration_ns = e.duration;
	v.device = e.device_id;
	v.stream = e.stream_id;
	v.correlation = e.correlation_id;
	v.name = text(e.name);
	v.thread = e.thread_id;
	v.has = e.duration ? PITOT_SBT_DURATION : 0;
	if (e.kernel_params) {
		const KernelParams &k = *e.kernel_params;
		const uint32_t sizes[] = { k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y,
					   k.block_z, k.shared_mem_bytes, k.registers_per_thread };
		std::copy(std::begin(sizes), std::end(sizes), v.kernel);
		v.has |= PITOT_SBT_KERNEL;
	}
	if (e.memory_params) {
		v.memory[0] = e.memory_params->src_address;
		v.memory[1] = e.memory_params->dst_address;
		v.memory[2] = e.memory_params->size_bytes;
		v.has |= PITOT_SBT_MEMORY;
	}
	frames.clear();
	if (e.call_stack)
		for (const StackFrame &f : e.call_stack->frames)
			frames.push_back({ f.address, f.line_number, text(f.function_name),
					   text(f.file_name) });
	if (!v.thread && e.call_stack)
		v.thread = static_cast<uint32_t>(e.call_stack->thread_id);
	if (v.thread || !frames.empty())
		v.has |= PITOT_SBT_STACK;
	v.frames = frames.data();
	v.frame_count = frames.size();
	return v;
}

// No exception passes through the library, which is C.
template <class Function> int caught(Function function)
{
	try {
		return function();
	} catch (...) {
		return -ENOMEM;
	}
}

inline SBTResult read_sbt(const std::string &path, TraceRecord &record, std::string &broken)
{
	struct Reading {
		TraceRecord &record;
		std::string &broken;
	} reading{ record, broken };
	pitot_read_error error = {};
	int code = pitot_sbt_read(
		path.c_str(),
		[](void *user, const pitot_sbt_event *v) {
			return caught([&] {
				static_cast<Reading *>(user)->record.addEvent(event_of(*v));
				return 0;
			});
		},
		[](void *user, const pitot_sbt_info *info) {
			caught([&] {
				auto *r = static_cast<Reading *>(user);
				r->broken = info->broken;
				r->record.metadata() = { text(info->application), text(info->command),
							 info->start_ns, info->end_ns, text(info->host),
							 static_cast<uint32_t>(info->pid) };
				return 0;
			});
		},
		&reading, &error);
	return result(code, error);
}

} // namespace detail

// The file appears when it is finalized, with its events in order of time.
class SBTWriter {
public:
	explicit SBTWriter(const std::string &filename) : filename_(filename) {}
	~SBTWriter()
	{
		finalize();
	}
	SBTWriter(const SBTWriter &) = delete;
	SBTWriter &operator=(const SBTWriter &) = delete;

	bool isOpen() const { return !finalized_; }
	uint64_t eventCount() const { return events_.size(); }

	SBTResult writeMetadata(const TraceMetadata &metadata)
	{
		metadata_ = metadata;
		return open();
	}
	SBTResult writeEvent(const TraceEvent &event)
	{
		return writeEvents({ event });
	}
	SBTResult writeEvents(const std::vector<TraceEvent> &events)
	{
		if (!finalized_)
			events_.insert(events_.end(), events.begin(), events.end());
		return open();
	}
	SBTResult finalize()
	{
		if (finalized_)
			return result_;
		finalized_ = true;
		std::stable_sort(events_.begin(), events_.end(), [](const auto &a, const auto &b) {
			return a.timestamp < b.timestamp;
		});
		struct Writing {
			const std::vector<TraceEvent> &events;
			size_t next;
			std::vector<pitot_sbt_frame> frames;
		} writing{ events_, 0, {} };
		const TraceMetadata &m = metadata_;
		pitot_sbt_info info = { detail::text(m.application_name), detail::text(m.command_line),
					detail::text(m.hostname), m.start_time, m.end_time, m.process_id,
					"" };
		pitot_read_error error = {};
		int code = pitot_sbt_write(
			filename_.c_str(), &info,
			[](void *user, pitot_sbt_event *out) {
				auto *w = static_cast<Writing *>(user);
				if (w->next == w->events.size())
					return 0;
				return detail::caught([&] {
					*out = detail::event_of(w->events[w->next++], w->frames);
					return 1;
				});
			},
			&writing, &error);
		return result_ = detail::result(code, error);
	}

private:
	SBTResult open() const
	{
		return finalized_ ? SBTResult{ false, "the file has been finalized" } : SBTResult{};
	}

	std::string filename_;
	TraceMetadata metadata_;
	std::vector<TraceEvent> events_;
	bool finalized_ = false;
	SBTResult result_;
};

// Reads the whole file at once; one that was cut or never completed, as far as it goes.
class SBTReader {
public:
	explicit SBTReader(const std::string &filename)
	{
		result_ = detail::read_sbt(filename, record_, broken_);
	}
	bool isOpen() const { return result_.success; }
	bool isValid() const { return result_.success && broken_.empty(); }
	const std::string &broken() const { return broken_; } // why it is not valid
	uint64_t eventCount() const { return record_.size(); }

	SBTResult readAll(TraceRecord &record)
	{
		record = record_;
		return result_;
	}
	SBTResult readMetadata(TraceMetadata &metadata)
	{
		metadata = record_.metadata();
		return result_;
	}
	SBTResult readEvents(std::vector<TraceEvent> &events, size_t offset = 0, size_t count = 0)
	{
		size_t first = std::min(offset, record_.size()), left = record_.size() - first;
		auto begin = record_.events().begin() + static_cast<std::ptrdiff_t>(first);
		size_t n = count ? std::min(count, left) : left;
		events.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
		return result_;
	}

private:
	TraceRecord record_;
	std::string broken_;
	SBTResult result_;
};

} // namespace tracesmith

#endif
