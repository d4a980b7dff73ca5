// A session with options of gpufl from the command line, as FIELD=VALUE. `until=TEXT` stays in the scope until the logs contain that text.
#include <gpufl/gpufl.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

static void set(std::string &field, const std::string &value)
{
	field = value;
}

static void set(bool &field, const std::string &value)
{
	field = value == "true";
}

static void set(int &field, const std::string &value)
{
	field = std::stoi(value);
}

static void set(std::vector<std::string> &field, const std::string &value)
{
	field.push_back(value);
}

static void set(gpufl::Option<gpufl::BackendKind> &field, const std::string &value)
{
	field = std::map<std::string, gpufl::BackendKind>{ { "Auto", gpufl::BackendKind::Auto },
							   { "Nvidia", gpufl::BackendKind::Nvidia },
							   { "Amd", gpufl::BackendKind::Amd },
							   { "None", gpufl::BackendKind::None } }
			.at(value);
}

static void set(gpufl::Option<gpufl::ProfilingEngine> &field, const std::string &value)
{
	using Engine = gpufl::ProfilingEngine;
	field = std::map<std::string, Engine>{ { "Monitor", Engine::Monitor },
					       { "Trace", Engine::Trace },
					       { "PcSampling", Engine::PcSampling },
					       { "SassMetrics", Engine::SassMetrics },
					       { "RangeProfiler", Engine::RangeProfiler },
					       { "Deep", Engine::Deep },
					       { "PmSampling", Engine::PmSampling },
					       { "RangeProfilerKernelReplay", Engine::RangeProfilerKernelReplay } }
			.at(value);
}

static void assign(gpufl::InitOptions &o, const std::string &name, const std::string &value)
{
#define FIELD(field)                                                                                                   \
	if (name == #field)                                                                                            \
		return set(o.field, value);
	FIELD(app_name)
	FIELD(log_path)
	FIELD(backend_url)
	FIELD(api_key)
	FIELD(api_path)
	FIELD(remote_upload)
	FIELD(enable_stack_trace)
	FIELD(enable_source_collection)
	FIELD(enable_external_correlation)
	FIELD(enable_synchronization)
	FIELD(enable_memory_tracking)
	FIELD(enable_cuda_graphs_tracking)
	FIELD(system_sample_rate_ms)
	FIELD(kernel_sample_rate_ms)
	FIELD(continuous_system_sampling)
	FIELD(backend)
	FIELD(profiling_engine)
	FIELD(config_file)
	FIELD(flush_logs_always)
	FIELD(enable_debug_output)
	FIELD(enabled)
	FIELD(pm_sampling_interval_us)
	FIELD(pm_sampling_max_samples)
	FIELD(pm_sampling_preset)
	FIELD(pm_sampling_metrics)
	FIELD(pm_sampling_scope_only)
	FIELD(deep_window_only)
#undef FIELD
	std::fprintf(stderr, "no option %s\n", name.c_str());
	std::exit(2);
}

static bool logs_have(const std::string &text)
{
	for (const auto &file : std::filesystem::recursive_directory_iterator(".")) {
		std::stringstream all;

		if (file.path().filename() == "system.log" && all << std::ifstream(file.path()).rdbuf() &&
		    all.str().find(text) != std::string::npos)
			return true;
	}
	return false;
}

// A kernel of the stand-in, if there is one.
static void launch()
{
	const char *path = std::getenv("LAUNCHER");
	void *library = path ? dlopen(path, RTLD_NOW) : nullptr;

	if (library)
		reinterpret_cast<void (*)()>(dlsym(library, "launch"))();
}

int main(int argc, char **argv)
{
	gpufl::InitOptions options;
	std::string until;

	for (int i = 1; i < argc; i++) {
		const std::string argument = argv[i];
		const size_t equals = argument.find('=');
		const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);

		if (name == "until")
			until = value;
		else
			assign(options, name, value);
	}
	std::printf("init %d\n", gpufl::init(options));
	gpufl::systemStart("phase");
	{
		gpufl::ScopedMonitor scope("work");
		launch();
		const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);

		while (!until.empty() && !logs_have(until) && std::chrono::steady_clock::now() < end)
			std::this_thread::sleep_for(std::chrono::milliseconds(20));
	}
	gpufl::systemStop("phase");
	gpufl::shutdown();
	const gpufl::UploadResult result = gpufl::uploadLogs();
	std::printf("upload %d %s\n", result.success, result.error.c_str());
}
