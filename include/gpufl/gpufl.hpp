// gpufl.hpp: gpufl's C++ API on top of libpitot.so, for programs that use it (C++17; link with pitot instead of gpufl).
//
// A session is a recording of Pitot: NAME-DATE-TIME.pitot in the current folder, or that of `pitot record`; gpufl's logs are written in addition.
// An option counts if the program has set it; otherwise the environment, then the configuration file, then gpufl's default (docs/embed.md).
// Options without effect and unsupported features (deep scopes, AMD) are named once on standard error.
#ifndef GPUFL_GPUFL_HPP
#define GPUFL_GPUFL_HPP

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>
#include <string>
#include <strings.h>
#include <sys/stat.h>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <pitot/pitot.h>

namespace gpufl {

enum class BackendKind { Auto, Nvidia, Amd, None };

enum class ProfilingEngine { Monitor, Trace, PcSampling, SassMetrics, RangeProfiler, Deep, PmSampling, RangeProfilerKernelReplay };

// A choice that knows whether the program has set it, also to its default. Numbers and switches are plain: they count as set if they differ from it.
template <class T>
class Option {
public:
	constexpr Option(T v) : value(v), set(true) {}
	static constexpr Option unset(T v)
	{
		Option option(v);
		option.set = false;
		return option;
	}
	constexpr operator T() const
	{
		return value;
	}
	template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
	constexpr explicit operator Integer() const
	{
		return static_cast<Integer>(value);
	}
	constexpr bool is_set() const
	{
		return set;
	}

private:
	T value;
	bool set;
};

struct InitOptions {
	std::string app_name = "gpufl";
	std::string log_path = ""; // folder of gpufl's logs, in addition to the recording; "": PITOT_GPUFL, else app_name
	std::string backend_url = ""; // default of uploadLogs, like the next two
	std::string api_key = "";
	std::string api_path = "";
	bool remote_upload = false; // deprecated: call uploadLogs
	bool enable_stack_trace = false;
	bool enable_source_collection = true; // no effect: lines are resolved when the recording is read
	bool enable_external_correlation = true; // no effect: always on
	bool enable_synchronization = true; // no effect: waiting calls are always recorded
	bool enable_memory_tracking = true;
	bool enable_cuda_graphs_tracking = false; // one record per graph launch, instead of its kernels
	int system_sample_rate_ms = 0; // 0: no samples of GPUs and host
	int kernel_sample_rate_ms = 0; // no effect, as in gpufl 1.0.1
	bool continuous_system_sampling = false; // false: only in scopes, and from systemStart to systemStop
	Option<BackendKind> backend = Option<BackendKind>::unset(BackendKind::Auto); // None: scopes and counters only
	Option<ProfilingEngine> profiling_engine = Option<ProfilingEngine>::unset(ProfilingEngine::Monitor);
	std::string config_file = "";
	bool flush_logs_always = false; // no effect: everything is in the files after a quarter of a second
	bool enable_debug_output = false;
	bool enabled = true;
	int pm_sampling_interval_us = 100;
	int pm_sampling_max_samples = 4096; // no effect: all samples are recorded
	std::string pm_sampling_preset = "overview"; // no effect: pm_sampling_metrics counts, or Pitot's default
	std::vector<std::string> pm_sampling_metrics = {};
	bool pm_sampling_scope_only = true; // no effect: always sampled; scopes show which samples are theirs
	bool deep_window_only = false; // an engine beyond Trace is on only in deepWindow
};

namespace detail {

inline void log(void *debug, int level, const char *text)
{
	if (level != PITOT_LOG_INFO || debug)
		std::fprintf(stderr, "[gpufl] %s\n", text);
}

// Reports an unsupported feature, or an option without effect, once.
enum Missing {
	DEEP,
	AMD,
	REMOTE_UPLOAD,
	KERNEL_RATE,
	CORRELATION,
	SYNCHRONIZATION,
	FLUSH,
	PM_SAMPLES,
	PM_PRESET,
	MISSING_COUNT
};

inline void missing(Missing what)
{
	static std::atomic<bool> said[MISSING_COUNT];
	static const char *const texts[MISSING_COUNT] = {
		"deep scopes are not there yet",
		"AMD's GPUs are recorded only where pitot record starts the program",
		"remote_upload is deprecated and has no effect: call uploadLogs after shutdown",
		"kernel_sample_rate_ms is deprecated and has no effect: all kernels are recorded",
		"enable_external_correlation=false has no effect: external ids are always recorded",
		"enable_synchronization=false has no effect: waiting calls are always recorded",
		"flush_logs_always has no effect: rows are in the files after a quarter of a second",
		"pm_sampling_max_samples has no effect: all samples are recorded",
		"pm_sampling_preset has no effect: name metrics in pm_sampling_metrics",
	};

	if (!said[what].exchange(true))
		log(nullptr, PITOT_LOG_WARNING, texts[what]);
}

inline std::atomic<bool> &disabled()
{
	static std::atomic<bool> value;
	return value;
}

// The process that has a session; a forked child has none. 0: none.
inline std::atomic<pid_t> &owner()
{
	static std::atomic<pid_t> value;
	return value;
}

// Where the last session wrote gpufl's logs, and its options for uploads.
struct Backend {
	std::string log_path, url, api_key, api_path;
};

inline Backend &backend()
{
	static Backend *value = new Backend; // uploadLogs may be called at the very end
	return *value;
}

// A NUL-terminated text, without a copy.
struct Text {
	const char *text;
	Text(const char *t) : text(t) {}
	Text(const std::string &t) : text(t.c_str()) {}
};

inline pitot_engine engine(ProfilingEngine e)
{
	switch (e) {
	case ProfilingEngine::Monitor:
		return PITOT_ENGINE_MONITOR;
	case ProfilingEngine::Trace:
		return PITOT_ENGINE_TRACE;
	case ProfilingEngine::PcSampling:
		return PITOT_ENGINE_PC_SAMPLING;
	case ProfilingEngine::SassMetrics:
		return PITOT_ENGINE_SASS_METRICS;
	case ProfilingEngine::RangeProfiler:
	case ProfilingEngine::RangeProfilerKernelReplay:
		return PITOT_ENGINE_RANGE_PROFILER;
	case ProfilingEngine::PmSampling:
		return PITOT_ENGINE_PM_SAMPLING;
	case ProfilingEngine::Deep:
		break;
	}
	return PITOT_ENGINE_DEEP;
}

// What gpufl measures of each scope.
constexpr const char *range_metrics =
	"sm__throughput.avg.pct_of_peak_sustained_elapsed,l1tex__t_sector_hit_rate.pct,lts__t_sector_hit_rate.pct,"
	"dram__bytes_read.sum,dram__bytes_write.sum,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";

inline bool is_set(const char *variable, const char *other = nullptr)
{
	const char *value = std::getenv(variable);
	return (value && *value) || (other && is_set(other));
}

inline bool is_true(const std::string &value)
{
	for (const char *text : { "1", "true", "yes", "on" })
		if (strcasecmp(value.c_str(), text) == 0)
			return true;
	return false;
}

// Values of options that the program has not set. The recorder reads its settings from the same sources by itself.
class Sources {
public:
	explicit Sources(const std::string &config_file) : file(config_file) {}

	// A variable's value, else that of the file's key; "": neither has one.
	std::string find(const char *key, std::initializer_list<const char *> variables = {}) const
	{
		char text[4096];

		for (const char *variable : variables)
			if (is_set(variable))
				return std::getenv(variable);
		return pitot_config(file.empty() ? nullptr : file.c_str(), key, text, sizeof(text)) > 0 ? text : "";
	}
	void fill(std::string &value, const char *unset, const char *key, std::initializer_list<const char *> variables = {}) const
	{
		const std::string found = value == unset ? find(key, variables) : "";

		if (!found.empty())
			value = found;
	}
	void fill(bool &value, bool unset, const char *key, std::initializer_list<const char *> variables = {}) const
	{
		const std::string found = value == unset ? find(key, variables) : "";

		if (!found.empty())
			value = is_true(found);
	}
	void fill(int &value, int unset, const char *key) const
	{
		const std::string found = value == unset ? find(key) : "";

		if (!found.empty())
			value = std::atoi(found.c_str());
	}
	// `names`: in the order of the values. The recorder reports unknown ones.
	template <class T>
	void fill(Option<T> &value, const char *key, std::initializer_list<const char *> names, std::initializer_list<const char *> variables = {}) const
	{
		const std::string found = value.is_set() ? "" : find(key, variables);
		int choice = 0;

		for (const char *name : names) {
			if (is_word(found, name))
				value = Option<T>::unset(static_cast<T>(choice));
			choice++;
		}
	}

private:
	std::string file;

	// PcSampling equals pc-sampling and PC_SAMPLING.
	static bool is_word(std::string text, const char *name)
	{
		text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == '-' || c == '_'; }), text.end());
		return strcasecmp(text.c_str(), name) == 0;
	}
};

// Returns the options with the values of the environment and the file where the program has set none.
inline InitOptions complete(InitOptions o)
{
	const Sources from(o.config_file);
	const InitOptions unset;

	from.fill(o.app_name, "gpufl", "app_name", { "PITOT_APP_NAME", "GPUFL_APP_NAME" });
	if (!is_set("PITOT_GPUFL")) // the recorder reads this one
		from.fill(o.log_path, "", "log_path");
	if (!is_set("PITOT_BACKEND_URL", "GPUFL_BACKEND_URL")) // `pitot upload` reads these
		from.fill(o.backend_url, "", "backend_url");
	if (!is_set("PITOT_API_KEY", "GPUFL_API_KEY"))
		from.fill(o.api_key, "", "api_key");
	if (!is_set("PITOT_API_PATH", "GPUFL_API_PATH"))
		from.fill(o.api_path, "", "api_path");
	from.fill(o.remote_upload, false, "remote_upload", { "GPUFL_REMOTE_UPLOAD" });
	from.fill(o.enable_debug_output, false, "enable_debug_output", { "GPUFL_DEBUG" });
#define GPUFL_FILL(option) from.fill(o.option, unset.option, #option)
	GPUFL_FILL(system_sample_rate_ms);
	GPUFL_FILL(continuous_system_sampling);
	GPUFL_FILL(deep_window_only);
	GPUFL_FILL(kernel_sample_rate_ms);
	GPUFL_FILL(enable_external_correlation);
	GPUFL_FILL(enable_synchronization);
	GPUFL_FILL(flush_logs_always);
	GPUFL_FILL(pm_sampling_max_samples);
#undef GPUFL_FILL
	from.fill(o.pm_sampling_preset, "overview", "pm_sampling_preset");
	from.fill(o.backend, "backend", { "Auto", "Nvidia", "Amd", "None" });
	from.fill(o.profiling_engine, "profiling_engine",
		  { "Monitor", "Trace", "PcSampling", "SassMetrics", "RangeProfiler", "Deep", "PmSampling", "RangeProfilerKernelReplay" },
		  { "PITOT_ENGINE", "GPUFL_PROFILING_ENGINE" });
	return o;
}

// Names the options that have no effect, where this makes a difference.
inline void warn(const InitOptions &o)
{
	const bool traces = o.profiling_engine != ProfilingEngine::Monitor && o.backend != BackendKind::None;
	const struct {
		Missing what;
		bool is_wanted;
	} all[] = {
		{ AMD, o.backend == BackendKind::Amd },
		{ REMOTE_UPLOAD, o.remote_upload },
		{ KERNEL_RATE, o.kernel_sample_rate_ms != 0 },
		{ CORRELATION, traces && !o.enable_external_correlation },
		{ SYNCHRONIZATION, traces && !o.enable_synchronization },
		{ FLUSH, o.flush_logs_always },
		{ PM_SAMPLES, o.pm_sampling_max_samples != 4096 },
		{ PM_PRESET, o.pm_sampling_preset != "overview" },
	};

	for (const auto &one : all)
		if (one.is_wanted)
			missing(one.what);
}

inline std::string joined(const std::vector<std::string> &names)
{
	std::string all;

	for (const std::string &name : names)
		all += (all.empty() ? "" : ",") + name;
	return all;
}

// The engine of deep windows; 0: there are none, the session's engine is always on.
inline std::atomic<int> &window_engine()
{
	static std::atomic<int> value;
	return value;
}

// End of the window, in ns of the steady clock.
inline std::atomic<int64_t> &window_end()
{
	static std::atomic<int64_t> value;
	return value;
}

inline int64_t steady_ns()
{
	return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the folder of gpufl's logs; without log_path it has the program's name. "": PITOT_GPUFL names it, or a file of that name exists.
inline std::string log_path(const InitOptions &from)
{
	std::string path = from.log_path;
	struct stat file;

	if (path.size() > 4 && path.compare(path.size() - 4, 4, ".log") == 0)
		path.resize(path.size() - 4);
	if (!path.empty() || is_set("PITOT_GPUFL"))
		return path;
	path = from.app_name;
	std::replace(path.begin(), path.end(), '/', '_');
	if (stat(path.c_str(), &file) < 0 || S_ISDIR(file.st_mode))
		return path;
	log(nullptr, PITOT_LOG_WARNING, ("no logs: '" + path + "' is a file; set log_path").c_str());
	return "";
}

inline pitot_switch on_off(bool on)
{
	return on ? PITOT_ON : PITOT_OFF;
}

inline void translate_sampling(const InitOptions &from, pitot_options &code, pitot_options &defaults)
{
	if (from.system_sample_rate_ms > 0) {
		code.counters_ns = static_cast<uint64_t>(from.system_sample_rate_ms) * 1000000;
		defaults.system = PITOT_SYSTEM_ALL; // GPUs and host
	} else {
		defaults.counters_ns = PITOT_NONE;
	}
	(from.continuous_system_sampling ? code : defaults).counters_always = on_off(from.continuous_system_sampling);
}

inline void translate_engine(const InitOptions &given, const InitOptions &options, const std::string &metrics, pitot_options &code,
			     pitot_options &defaults)
{
	const ProfilingEngine chosen = options.profiling_engine;
	pitot_options &choice = given.profiling_engine.is_set() ? code : defaults;

	choice.engine = engine(chosen);
	if (options.deep_window_only && choice.engine > PITOT_ENGINE_TRACE)
		code.engine = PITOT_ENGINE_TRACE;
	if (chosen == ProfilingEngine::RangeProfiler) {
		choice.measure = PITOT_MEASURE_RANGE;
		defaults.metrics = range_metrics;
	}
	if (chosen != ProfilingEngine::PmSampling)
		return;
	(given.pm_sampling_interval_us == 100 ? defaults : code).pm_interval_ns =
		static_cast<uint64_t>(std::max(given.pm_sampling_interval_us, 1)) * 1000;
	if (!metrics.empty())
		code.metrics = metrics.c_str();
}

// What the program has given is code; the environment and the file override the rest. `options` has all of them.
inline void translate(const InitOptions &given, const InitOptions &options, const std::string &metrics, pitot_options &code, pitot_options &defaults)
{
	code.size = defaults.size = sizeof(pitot_options);
	code.defaults = &defaults;
	code.app_name = options.app_name.c_str();
	if (!given.config_file.empty())
		code.config_file = given.config_file.c_str();
	(given.enable_stack_trace ? code : defaults).stacks = given.enable_stack_trace ? PITOT_STACKS_ALL : PITOT_STACKS_NONE;
	(given.enable_memory_tracking ? defaults : code).memory = on_off(given.enable_memory_tracking);
	if (given.enable_cuda_graphs_tracking)
		code.graphs = PITOT_GRAPHS_LAUNCH;
	if (options.backend == BackendKind::None) {
		code.engine = PITOT_ENGINE_MONITOR;
		code.counters_ns = PITOT_NONE;
		return;
	}
	translate_engine(given, options, metrics, code, defaults);
	translate_sampling(given, code, defaults);
}

// Whether scopes open windows of samples.
inline std::atomic<bool> &windowed()
{
	static std::atomic<bool> value;
	return value;
}

struct Window {
	const bool open = windowed();
	Window()
	{
		if (open)
			pitot_system_start(nullptr);
	}
	~Window()
	{
		if (open)
			pitot_system_stop(nullptr);
	}
};

} // namespace detail

// Starts the session. Returns false if it is switched off, the backend is not supported, or it cannot be started (pitot_error() says why). A
// running session continues.
inline bool init(const InitOptions &given = {})
{
	const InitOptions options = detail::complete(given);
	pitot_options code = {}, defaults = {};
	std::string log_path, metrics = detail::joined(given.pm_sampling_metrics);
	const bool is_running = detail::owner() == getpid();
	int result;

	if (!is_running)
		detail::disabled() = !options.enabled;
	detail::warn(options);
	if (!options.enabled || options.backend == BackendKind::Amd)
		return false;
	detail::translate(given, options, metrics, code, defaults);
	if (!is_running)
		log_path = detail::log_path(options);
	if (!log_path.empty())
		code.log_path = log_path.c_str();
	code.log = detail::log;
	if (options.enable_debug_output)
		code.log_context = &code; // any value other than nullptr
	result = pitot_init(&code);
	if (!is_running)
		detail::disabled() = result == 0;
	if (result > 0 && detail::owner().exchange(getpid()) != getpid()) {
		detail::windowed() = (options.system_sample_rate_ms > 0 || detail::is_set("PITOT_COUNTERS")) && !options.continuous_system_sampling;
		detail::window_engine() = options.deep_window_only ? detail::engine(options.profiling_engine) : 0;
		detail::backend() = { log_path, options.backend_url, options.api_key, options.api_path };
	}
	return result > 0;
}

inline void shutdown()
{
	detail::window_end() = 0;
	detail::owner() = 0;
	detail::windowed() = false;
	pitot_shutdown();
}

// Writes the text report of the last session by running the program `pitot`; without a path, to standard output.
inline void generateReport(const std::string &output_path = "")
{
	if (detail::disabled())
		return;
	std::fflush(stdout);
	const int result = pitot_report(output_path.c_str());
	if (result < 0)
		detail::log(nullptr, PITOT_LOG_ERROR, result == -ENODATA ? "no report: nothing was recorded yet; call gpufl::init" : pitot_error());
}

// --- scopes ---

struct ScopeMeta {
	std::string tag = ""; // accepted and not recorded, as in gpufl
	int repeat = 1;
	int warmup = 0;

	ScopeMeta &setTag(std::string t)
	{
		tag = std::move(t);
		return *this;
	}
	ScopeMeta &setRepeat(int n)
	{
		repeat = n;
		return *this;
	}
	ScopeMeta &setWarmup(int n)
	{
		warmup = n;
		return *this;
	}
};

class ScopedMonitor {
public:
	explicit ScopedMonitor(detail::Text name, detail::Text = "", bool deep_profiling = false)
	{
		if (deep_profiling)
			detail::missing(detail::DEEP);
		pitot_scope_begin(name.text);
	}
	// A template, so that a text does not convert to bool.
	template <class Bool, class = std::enable_if_t<std::is_same_v<Bool, bool>>>
	ScopedMonitor(detail::Text name, Bool deep_profiling) : ScopedMonitor(name, "", deep_profiling)
	{
	}
	ScopedMonitor(detail::Text name, const ScopeMeta &meta)
	{
		pitot_scope_begin_runs(name.text, static_cast<uint32_t>(std::max(meta.repeat, 0)),
				       static_cast<uint32_t>(std::max(meta.warmup, 0)));
	}
	~ScopedMonitor()
	{
		pitot_scope_end();
	}

private:
	detail::Window window; // opens before the scope

public:
	ScopedMonitor(const ScopedMonitor &) = delete;
	ScopedMonitor &operator=(const ScopedMonitor &) = delete;
};

template <class Function>
decltype(auto) monitor(detail::Text name, Function &&function)
{
	ScopedMonitor scope(name);
	return std::forward<Function>(function)();
}

template <class Function>
decltype(auto) monitor(detail::Text name, detail::Text tag, Function &&function)
{
	ScopedMonitor scope(name, tag);
	return std::forward<Function>(function)();
}

namespace detail {

// GFL_BENCH("name", …) { body };
struct Bench {
	std::string name;
	ScopeMeta meta;

	template <class Function>
	void operator=(Function &&body)
	{
		if (meta.warmup > 0)
			run(name + "_warmup", meta.warmup, 0, body);
		run(name, meta.repeat, meta.warmup, body);
	}

private:
	template <class Function>
	static void run(const std::string &scope_name, int times, int warmup, Function &body)
	{
		ScopedMonitor scope(scope_name, ScopeMeta{ "", times, warmup });

		for (int i = 0; i < times; i++)
			body();
	}
};

} // namespace detail

// --- system samples ---

// Open and close a window of samples, unless sampling is continuous, and record marks.
inline void systemStart(const std::string &name = "system")
{
	pitot_system_start(name.c_str());
}

inline void systemStop(const std::string &name = "system")
{
	pitot_system_stop(name.c_str());
}

// --- counters ---

class Counter {
public:
	explicit Counter(const std::string &name) : id(is_name(name) ? pitot_counter(name.c_str(), nullptr, nullptr) : 0) {}
	// Values below 0 or above 2^40 are not added.
	void add(int64_t n = 1) const
	{
		if (n >= 0 && n <= INT64_C(1) << 40)
			pitot_counter_add(id, n);
	}

private:
	uint32_t id; // 0: not recorded

	static bool is_name(const std::string &name)
	{
		return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
						std::string::npos;
	}
};

inline Counter counter(const std::string &name)
{
	return Counter(name);
}

inline void tick(const std::string &name, int64_t n = 1)
{
	counter(name).add(n);
}

// --- external correlation ---

// Returns false if CUDA calls are not recorded, or too many ids are pushed.
inline bool pushExternalCorrelation(uint32_t kind, uint64_t id)
{
	return pitot_external_push(kind, id) > 0;
}

inline bool popExternalCorrelation(uint32_t kind, uint64_t *id = nullptr)
{
	return pitot_external_pop(kind, id) > 0;
}

// --- this machine ---

struct ProbeResult {
	bool available = false;
	std::string reason = "";
};

inline ProbeResult probeNvml()
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (!library)
		return { false, "libnvidia-ml.so.1 cannot be loaded: there is no NVIDIA driver" };
	auto start = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
	auto stop = reinterpret_cast<int (*)()>(dlsym(library, "nvmlShutdown"));
	auto text = reinterpret_cast<const char *(*)(int)>(dlsym(library, "nvmlErrorString"));
	ProbeResult result;

	if (!start || !stop || !text) {
		result.reason = "libnvidia-ml.so.1 has no nvmlInit_v2";
	} else if (int status = start()) {
		result.reason = std::string("nvmlInit_v2 failed: ") + text(status);
	} else {
		result.available = true;
		stop();
	}
	dlclose(library);
	return result;
}

inline ProbeResult probeRocm()
{
	return { false, "AMD's GPUs are recorded only where pitot record starts the program" };
}

// --- upload ---

struct UploadOptions {
	std::string log_path = "", backend_url = "", api_key = "", api_path = ""; // "": the value of init, then of the environment
	int total_timeout_ms = 300000, max_retries = 1;
	int connect_timeout_ms = 10000, read_timeout_ms = 30000, retry_delay_ms = 1000; // no effect: derived from the total
	std::string cursor_filename = ""; // file in log_path
	bool report_progress = false; // one line at the end
	std::string session_id = ""; // "": the latest one
	bool all_sessions = false, force = false;
};

struct UploadResult {
	bool success = false;
	uint64_t events_uploaded = 0;
	std::string error = "";
};

namespace detail {

// nullptr for "".
inline const char *text_or(const std::string &text, const std::string &otherwise)
{
	return !text.empty() ? text.c_str() : !otherwise.empty() ? otherwise.c_str() : nullptr;
}

inline uint64_t milliseconds(int ms)
{
	return static_cast<uint64_t>(std::max(ms, 1)) * 1000000;
}

} // namespace detail

// Sends gpufl's logs, or without log_path the recording, after the session has ended. Blocks until the end. If gpufl is switched off, there is
// nothing to upload, and the result is success.
inline UploadResult uploadLogs(const UploadOptions &options = {})
{
	const detail::Backend &backend = detail::backend();
	pitot_upload_options o = {};
	std::string cursor = options.cursor_filename;
	int64_t events;

	if (detail::disabled())
		return { true, 0, "" };
	o.size = sizeof(o);
	o.path = detail::text_or(options.log_path, backend.log_path);
	o.url = detail::text_or(options.backend_url, backend.url);
	if (!o.url && !detail::is_set("PITOT_BACKEND_URL", "GPUFL_BACKEND_URL"))
		return { false, 0, "no backend: give its host in backend_url, of uploadLogs or init, or in GPUFL_BACKEND_URL" };
	o.api_key = detail::text_or(options.api_key, backend.api_key);
	o.api_path = detail::text_or(options.api_path, backend.api_path);
	if (!cursor.empty() && cursor[0] != '/' && o.path)
		cursor = std::string(o.path) + "/" + cursor;
	o.cursor = detail::text_or(cursor, "");
	o.session = options.all_sessions ? nullptr : options.session_id.empty() ? "newest" : options.session_id.c_str();
	o.timeout_ns = detail::milliseconds(options.total_timeout_ms);
	o.retries = options.max_retries > 0 ? static_cast<uint64_t>(options.max_retries) : PITOT_NONE;
	o.force = options.force ? PITOT_ON : PITOT_OFF;
	events = pitot_upload(&o);
	if (events < 0)
		return { false, 0, pitot_error() };
	if (options.report_progress)
		std::fprintf(stderr, "[gpufl] %lld events uploaded\n", static_cast<long long>(events));
	return { true, static_cast<uint64_t>(events), "" };
}

// --- deep windows ---

struct DeepWindowSpec {
	int max_duration_ms = 0;
	uint64_t max_launches = 0; // no effect, like the next: only the time limits the window
	int cooldown_ms = 0;
};

// Returns false if no window opens: init had no deep_window_only with an engine beyond Trace, a window is open, or pitot_error() says why.
inline bool deepWindow(const DeepWindowSpec &spec)
{
	const int64_t ns = static_cast<int64_t>(std::max(spec.max_duration_ms, 0)) * 1000000;
	const int engine = detail::window_engine();

	if (engine <= PITOT_ENGINE_TRACE || pitot_engine_begin(nullptr, static_cast<pitot_engine>(engine), 0, static_cast<uint64_t>(ns)) < 0)
		return false;
	detail::window_end() = ns ? detail::steady_ns() + ns : INT64_MAX;
	return true;
}

inline bool deepWindow(int max_duration_ms, uint64_t max_launches = 0)
{
	return deepWindow(DeepWindowSpec{ max_duration_ms, max_launches, 0 });
}

inline bool deepWindowActive()
{
	return detail::steady_ns() < detail::window_end();
}

inline void deepWindowClose()
{
	if (detail::window_end().exchange(0))
		pitot_engine_end(nullptr);
}

// Always false: windows are not scheduled by the environment.
inline bool scheduleEnvDeepWindow()
{
	return false;
}

// --- presets ---

inline InitOptions injection_mode_default_options()
{
	InitOptions o;

	o.profiling_engine = ProfilingEngine::Deep;
	o.system_sample_rate_ms = 100;
	o.continuous_system_sampling = o.enable_stack_trace = o.enable_cuda_graphs_tracking = true;
	return o;
}

inline InitOptions light_mode_default_options()
{
	InitOptions o;

	o.profiling_engine = ProfilingEngine::PcSampling;
	o.system_sample_rate_ms = 500;
	o.continuous_system_sampling = o.enable_stack_trace = true;
	o.enable_source_collection = o.enable_memory_tracking = false;
	return o;
}

inline InitOptions monitoring_mode_default_options()
{
	InitOptions o;

	o.profiling_engine = ProfilingEngine::Monitor;
	o.system_sample_rate_ms = 250;
	o.continuous_system_sampling = true;
	o.enable_source_collection = o.enable_synchronization = o.enable_memory_tracking = o.enable_external_correlation = false;
	return o;
}

} // namespace gpufl

#define GFL_JOIN_(a, b) a##b
#define GFL_UNIQUE_(name, line) GFL_JOIN_(name, line)

// GFL_SCOPE("name") { … }; `break` and `return` leave it like any block, and an `else` after it belongs to an `if` before it.
#define GFL_SCOPE_(...) if (::gpufl::ScopedMonitor GFL_UNIQUE_(gfl_scope_, __LINE__){ __VA_ARGS__ }; false) {} else
#define GFL_SCOPE(name) GFL_SCOPE_(name)
#define GFL_SCOPE_TAGGED(name, tag, deep) GFL_SCOPE_(name, tag, deep)
// GFL_BENCH("name", .repeat = 10, .warmup = 2) { … }; the body runs in a scope name_warmup, then in a scope name.
#define GFL_BENCH(name, ...) ::gpufl::detail::Bench{ name, ::gpufl::ScopeMeta{ __VA_ARGS__ } } = [&]()

#define GFL_SYSTEM_START(...) ::gpufl::systemStart(__VA_ARGS__)
#define GFL_SYSTEM_STOP(...) ::gpufl::systemStop(__VA_ARGS__)

#endif
