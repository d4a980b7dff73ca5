// What gpufl's reference says of its C++ API, used as it says. Prints what the test looks at.
#include <gpufl/gpufl.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>

static int sum(int from)
{
	return gpufl::monitor("returns", "tag", [&]() { return from + 1; });
}

static void scopes()
{
	const std::string name = "a name that is not short";

	for (int i = 0; i < 3; i++) {
		GFL_SCOPE("loop") {
			GFL_SCOPE_TAGGED("inner", "tag", false) {
				if (i == 1)
					break; // of the loop
			}
		}
	}
	{
		gpufl::ScopedMonitor first(name), second("tagged", "tag"), third("deep", true), fourth("all", "tag", false);
		gpufl::ScopedMonitor runs(name + " runs", gpufl::ScopeMeta{}.setTag("t").setRepeat(4).setWarmup(2));
	}
	try {
		gpufl::monitor(name, []() { throw std::runtime_error("out of a scope"); });
	} catch (const std::runtime_error &) {
	}
	std::printf("sum %d\n", sum(41));
}

static int bench()
{
	int calls = 0;

	GFL_BENCH("bench", "tag", 10, 3) {
		calls++;
	};
	GFL_BENCH("plain", gpufl::ScopeMeta{}.setRepeat(2)) {
		calls++;
	};
	return calls;
}

// An engine that is on in windows only; without a GPU none opens.
static void windows(bool enabled)
{
	gpufl::InitOptions options;

	options.app_name = "windows";
	options.enabled = enabled;
	options.profiling_engine = gpufl::ProfilingEngine::PmSampling;
	options.pm_sampling_interval_us = 50;
	options.pm_sampling_metrics = { "memory", "sm__cycles_active.avg" };
	options.deep_window_only = true;
	gpufl::init(options);
	const bool open = gpufl::deepWindow(60000);
	std::printf("window %d", open == gpufl::deepWindowActive());
	gpufl::deepWindowClose();
	std::printf(" %d\n", gpufl::deepWindowActive());
	gpufl::shutdown();
}

int main(int argc, char **argv)
{
	gpufl::InitOptions options, second;
	gpufl::Counter counter = gpufl::counter("app.steps");

	options.app_name = "theirs";
	options.log_path = "./logs";
	options.remote_upload = argc < 3;
	options.profiling_engine = gpufl::ProfilingEngine::Deep;
	options.backend = gpufl::BackendKind::Auto;
	options.system_sample_rate_ms = 50;
	options.enabled = argc < 2 || std::string(argv[1]) != "off";
	std::printf("init %d\n", gpufl::init(options));
	second.enabled = options.enabled;
	std::printf("init %d\n", gpufl::init(second)); // the session goes on as it is
	second.enabled = false;
	std::printf("init %d\n", gpufl::init(second)); // and is not disabled
	gpufl::systemStart("phase");
	scopes();
	std::printf("bench %d\n", bench());
	GFL_SYSTEM_STOP("phase");
	GFL_SYSTEM_START();
	counter.add();
	counter.add(41);
	counter.add(-1);
	gpufl::tick("app.ticks", 7);
	gpufl::tick("no name!", 7);
	gpufl::popExternalCorrelation(4);
	std::printf("deep %d %d\n", gpufl::deepWindow(100), gpufl::deepWindowActive());
	gpufl::shutdown();
	gpufl::shutdown();
	gpufl::generateReport("report.txt");
	gpufl::UploadResult upload = gpufl::uploadLogs({});
	std::printf("upload %d %s\n", upload.success, upload.error.c_str());
	gpufl::ProbeResult nvml = gpufl::probeNvml();
	std::printf("nvml %d %d\n", nvml.available, nvml.reason.empty());
	std::printf("presets %d %d %d\n", gpufl::injection_mode_default_options().system_sample_rate_ms,
		    gpufl::light_mode_default_options().enable_memory_tracking,
		    gpufl::monitoring_mode_default_options().profiling_engine == gpufl::ProfilingEngine::Monitor);
	windows(options.enabled);
	return 0;
}
