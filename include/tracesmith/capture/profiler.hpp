// profiler.hpp: captures of this process, by pitot/pitot.h: recordings in temporary folders.
#ifndef TRACESMITH_CAPTURE_PROFILER_HPP
#define TRACESMITH_CAPTURE_PROFILER_HPP

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <system_error>

#include <pitot/pitot.h>
#include <tracesmith/format/sbt_format.hpp>

namespace tracesmith {

enum class PlatformType { Unknown, CUDA, ROCm, Metal, MACA };
enum class OverflowPolicy { DropOldest, DropNewest, Block };

// Selects what getEvents() returns. The newest events are kept, whatever the policy says.
struct ProfilerConfig {
	size_t buffer_size = 1024 * 1024;
	OverflowPolicy overflow_policy = OverflowPolicy::DropOldest;
	bool capture_callstacks = true;
	uint32_t callstack_depth = 32;
	bool capture_kernel_params = true, capture_memory_params = true, capture_kernels = true;
	bool capture_memcpy = true, capture_memset = true, capture_sync = true, capture_alloc = true;
};

class IPlatformProfiler {
public:
	virtual ~IPlatformProfiler() = default;
	virtual PlatformType platformType() const = 0;
	virtual bool isAvailable() const = 0;
	virtual bool initialize(const ProfilerConfig &config) = 0;
	virtual void finalize() = 0;
	virtual bool startCapture() = 0;
	virtual bool stopCapture() = 0;
	virtual bool isCapturing() const = 0;
	virtual size_t getEvents(std::vector<TraceEvent> &events, size_t max_count = 0) = 0;
	virtual uint64_t eventsCaptured() const = 0;
	virtual uint64_t eventsDropped() const = 0;
};

inline int getCUDADeviceCount()
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	auto init = driver ? reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit")) : nullptr;
	auto get = driver ? reinterpret_cast<int (*)(int *)>(dlsym(driver, "cuDeviceGetCount")) : nullptr;
	int count = 0;
	return init && get && init(0) == 0 && get(&count) == 0 ? count : 0;
}
inline bool isCUDAAvailable() { return getCUDADeviceCount() > 0; }
inline PlatformType detectPlatform()
{
	return isCUDAAvailable() ? PlatformType::CUDA : PlatformType::Unknown;
}

// A capture's events are there when it has been stopped.
class CUPTIProfiler : public IPlatformProfiler {
public:
	~CUPTIProfiler() override { finalize(); }
	PlatformType platformType() const override { return PlatformType::CUDA; }
	bool isAvailable() const override { return isCUDAAvailable(); }
	bool initialize(const ProfilerConfig &config) override
	{
		config_ = config;
		return true;
	}
	void finalize() override
	{
		stopCapture();
		clear();
	}
	bool startCapture() override
	{
		if (session_)
			return false;
		clear();
		const char *parent = std::getenv("TMPDIR");
		folder_ = std::string(parent && *parent ? parent : "/tmp") + "/pitot-XXXXXX";
		if (!mkdtemp(folder_.data())) {
			folder_.clear();
			return false;
		}
		std::string path = folder_ + "/capture.pitot";
		pitot_options options = {};
		options.size = sizeof(options);
		options.directory = path.c_str();
		options.stacks = config_.capture_callstacks ? PITOT_STACKS_ALL : PITOT_STACKS_NONE;
		options.sync = config_.capture_sync ? PITOT_ON : PITOT_OFF;
		options.memory = config_.capture_alloc ? PITOT_ON : PITOT_OFF;
		session_ = pitot_start(&options);
		return session_ != nullptr;
	}
	bool stopCapture() override
	{
		if (!session_)
			return false;
		std::string path = folder_ + "/capture.pitot", file = folder_ + "/capture.sbt", broken;
		pitot_stop(std::exchange(session_, nullptr));
		pitot_recording *recording = nullptr;
		struct pitot_read_export options = {};
		options.size = sizeof(options);
		TraceRecord record;
		uint64_t count = 0;
		if (pitot_read_open(path.c_str(), &recording, nullptr) == 0 &&
		    pitot_read_export(recording, file.c_str(), &options, &count, nullptr) == 0)
			detail::read_sbt(file, record, broken);
		pitot_read_close(recording);
		keep(std::move(record.events()));
		return true;
	}
	bool isCapturing() const override { return session_ != nullptr; }
	size_t getEvents(std::vector<TraceEvent> &events, size_t max_count = 0) override
	{
		size_t left = events_.size() - next_, n = max_count ? std::min(max_count, left) : left;
		auto begin = events_.begin() + static_cast<std::ptrdiff_t>(next_);
		events.assign(begin, begin + static_cast<std::ptrdiff_t>(n));
		next_ += n;
		return n;
	}
	uint64_t eventsCaptured() const override { return events_.size(); }
	uint64_t eventsDropped() const override { return dropped_; }

private:
	bool wants(const TraceEvent &e) const
	{
		switch (e.type) {
		case EventType::KernelLaunch: return config_.capture_kernels;
		case EventType::MemcpyH2D:
		case EventType::MemcpyD2H:
		case EventType::MemcpyD2D: return config_.capture_memcpy;
		case EventType::MemsetDevice: return config_.capture_memset;
		case EventType::StreamSync:
		case EventType::DeviceSync:
		case EventType::EventSync: return config_.capture_sync;
		default: return true;
		}
	}
	void keep(std::vector<TraceEvent> events)
	{
		for (TraceEvent &e : events) {
			if (!wants(e))
				continue;
			if (!config_.capture_kernel_params)
				e.kernel_params.reset();
			if (!config_.capture_memory_params)
				e.memory_params.reset();
			if (e.call_stack && e.call_stack->frames.size() > config_.callstack_depth)
				e.call_stack->frames.resize(config_.callstack_depth);
			events_.push_back(std::move(e));
		}
		dropped_ = events_.size() - std::min(events_.size(), config_.buffer_size);
		events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(dropped_));
	}
	void clear()
	{
		std::error_code ignored;
		if (!folder_.empty())
			std::filesystem::remove_all(folder_, ignored);
		folder_.clear();
		events_.clear();
		next_ = dropped_ = 0;
	}

	ProfilerConfig config_;
	pitot_session *session_ = nullptr;
	std::string folder_;
	std::vector<TraceEvent> events_;
	size_t next_ = 0, dropped_ = 0; // next_: the first event that getEvents() has not returned
};

// Returns nullptr for platforms other than CUDA.
inline std::unique_ptr<IPlatformProfiler> createProfiler(PlatformType type = PlatformType::Unknown)
{
	if (type != PlatformType::CUDA && type != PlatformType::Unknown)
		return nullptr;
	return std::make_unique<CUPTIProfiler>();
}

} // namespace tracesmith

#endif
