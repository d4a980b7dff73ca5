// perfetto_exporter.hpp: events as JSON for ui.perfetto.dev. `pitot export` writes it from a
// recording, with calls, counters and stacks.
#ifndef TRACESMITH_STATE_PERFETTO_EXPORTER_HPP
#define TRACESMITH_STATE_PERFETTO_EXPORTER_HPP

#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>

#include <tracesmith/common/types.hpp>

namespace tracesmith {

// Devices are processes, streams are threads; times keep their nanoseconds.
class PerfettoExporter {
public:
	void setEnableGPUTracks(bool enable) { gpu_tracks_ = enable; }
	void setEnableFlowEvents(bool enable) { flows_ = enable; }
	void setEnableCounterTracks(bool enable) { counters_ = enable; }

	bool exportToFile(const std::vector<TraceEvent> &events, const std::string &output_file)
	{
		return exportToFile(events, {}, output_file);
	}
	bool exportToFile(const std::vector<TraceEvent> &events,
			  const std::vector<CounterEvent> &counters, const std::string &output_file)
	{
		std::ofstream out(output_file, std::ios::binary);
		write(out, events, counters);
		return bool(out.flush());
	}
	std::string exportToString(const std::vector<TraceEvent> &events,
				   const std::vector<CounterEvent> &counters = {})
	{
		std::ostringstream out;
		write(out, events, counters);
		return out.str();
	}

private:
	// Bytes that are no ASCII are passed on: names are UTF-8.
	static std::string quoted(const std::string &text)
	{
		std::string out = "\"";
		char code[8];
		for (char c : text) {
			auto byte = static_cast<unsigned char>(c);
			if (byte < 0x20 || byte == 0x7f || c == '"' || c == '\\') {
				std::snprintf(code, sizeof(code), "\\u%04x", byte);
				out += code;
			} else {
				out += c;
			}
		}
		return out + '"';
	}
	static std::string microseconds(Timestamp ns)
	{
		std::string rest = std::to_string(ns % 1000);
		return std::to_string(ns / 1000) + '.' + std::string(3 - rest.size(), '0') + rest;
	}
	std::ostream &begin(std::ostream &out, const char *phase, const std::string &name)
	{
		out << (first_ ? "" : ",\n") << "{\"ph\":\"" << phase << "\",\"name\":" << quoted(name);
		first_ = false;
		return out;
	}
	void name(std::ostream &out, const char *what, const std::string &place, const std::string &text)
	{
		begin(out, "M", what) << place << ",\"args\":{\"name\":" << quoted(text) << "}}";
	}
	static std::string place(const TraceEvent &e)
	{
		return ",\"pid\":" + std::to_string(e.device_id) + ",\"tid\":" + std::to_string(e.stream_id);
	}

	void event(std::ostream &out, const TraceEvent &e)
	{
		bool lasts = e.duration || isWork(e.type);
		begin(out, lasts ? "X" : "i", e.name.empty() ? eventTypeToString(e.type) : e.name)
			<< ",\"cat\":\"" << eventTypeToString(e.type) << "\"" << place(e)
			<< ",\"ts\":" << microseconds(e.timestamp);
		if (lasts)
			out << ",\"dur\":" << microseconds(e.duration);
		else
			out << ",\"s\":\"t\"";
		out << ",\"args\":{\"correlation_id\":" << e.correlation_id
		    << ",\"thread_id\":" << e.thread_id;
		if (e.kernel_params) {
			const KernelParams &k = *e.kernel_params;
			out << ",\"grid_dim\":[" << k.grid_x << ',' << k.grid_y << ',' << k.grid_z
			    << "],\"block_dim\":[" << k.block_x << ',' << k.block_y << ',' << k.block_z
			    << "],\"shared_memory_bytes\":" << k.shared_mem_bytes
			    << ",\"registers_per_thread\":" << k.registers_per_thread;
		}
		if (e.memory_params)
			out << ",\"size_bytes\":" << e.memory_params->size_bytes;
		for (const auto &[key, value] : e.metadata)
			out << ',' << quoted(key) << ':' << quoted(value);
		out << "}}";
	}
	void flow(std::ostream &out, const char *phase, const TraceEvent &e)
	{
		begin(out, phase, "Dependency")
			<< ",\"cat\":\"flow\",\"bp\":\"e\",\"id\":" << e.correlation_id << place(e)
			<< ",\"ts\":" << microseconds(e.timestamp) << '}';
	}

	void write(std::ostream &out, const std::vector<TraceEvent> &events,
		   const std::vector<CounterEvent> &counters)
	{
		std::set<std::pair<uint32_t, uint32_t>> streams;
		std::map<uint64_t, const TraceEvent *> before; // by correlation id
		first_ = true;
		out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
		for (const TraceEvent &e : events) {
			event(out, e);
			streams.emplace(e.device_id, e.stream_id);
			const TraceEvent *&last = before[e.correlation_id];
			if (flows_ && e.correlation_id && last) {
				flow(out, "s", *last);
				flow(out, "f", e);
			}
			last = &e;
		}
		for (const CounterEvent &c : counters)
			if (counters_)
				begin(out, "C", c.counter_name)
					<< ",\"pid\":9999,\"ts\":" << microseconds(c.timestamp)
					<< ",\"args\":{\"value\":" << number(c.value) << "}}";
		for (auto [device, stream] : streams) {
			std::string pid = ",\"pid\":" + std::to_string(device);
			if (!gpu_tracks_)
				continue;
			name(out, "process_name", pid, "GPU Device " + std::to_string(device));
			name(out, "thread_name", pid + ",\"tid\":" + std::to_string(stream),
			     "Stream " + std::to_string(stream));
		}
		out << "\n]}\n";
	}
	// JSON has no infinities.
	static std::string number(double value)
	{
		char text[32];
		std::snprintf(text, sizeof(text), "%.17g", value);
		return value - value == 0 ? text : "null";
	}

	bool gpu_tracks_ = true, flows_ = true, counters_ = true, first_ = true;
};

} // namespace tracesmith

#endif
