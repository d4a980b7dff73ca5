"""Every option, variable and key of the configuration file of gpufl: what it does, in C++ and in Python, alone and below `pitot record`."""
import gzip
import ipaddress
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpufl_backend import Backend
from waiting import PATIENCE

PYTHON = """
import ctypes, os, sys, time, warnings
import pitot.gpufl as gfl

warnings.simplefilter("always")
warnings.showwarning = lambda text, *_, **__: print(text, file=sys.stderr)
until, options = "", {}
for argument in sys.argv[1:]:
    name, value = argument.split("=", 1)
    if name == "until":
        until = value
    elif name == "backend":
        options[name] = gfl.BackendKind[{"None": "None_"}.get(value, value)]
    elif name == "profiling_engine":
        options[name] = gfl.ProfilingEngine[value]
    elif name == "pm_sampling_metrics":
        options[name] = [value]
    else:
        options[name] = {"true": True, "false": False}.get(value, int(value) if value.isdecimal() else value)

def logs_have(text):
    return any(text in open(os.path.join(folder, "system.log")).read()
               for folder, _, files in os.walk(".") if "system.log" in files)

print("init", int(gfl.init(**options)), flush=True)
gfl.system_start("phase")
with gfl.Scope("work"):
    if "LAUNCHER" in os.environ:
        ctypes.CDLL(os.environ["LAUNCHER"]).launch()
    end = time.monotonic() + 60
    while until and not logs_have(until) and time.monotonic() < end:
        time.sleep(0.02)
gfl.system_stop("phase")
gfl.shutdown()
result = gfl.upload_logs()
print("upload", int(result.success), result.error, flush=True)
"""


class Effect:
    """What a session did: its logs by folder of log_path, the rows of its recording, what it said."""

    def __init__(self, folder, said, errors, pitot):
        self.folder, self.said, self.errors, self.pitot = folder, said, errors, pitot
        self.recordings = sorted(folder.glob("*.pitot"))

    def lines(self, channel="system", path="logs"):
        found = []
        for session in sorted((self.folder / path).iterdir()):
            for file in sorted(session.glob(f"{channel}.*.log.gz")):
                found += [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
        return found

    def of(self, kind, channel="system"):
        return [line for line in self.lines(channel) if line["type"] == kind]

    def start(self):
        return self.of("job_start")[0]

    def capability(self, name):
        """As the logs' own session has it: below `pitot record` the recording's settings are another session's."""
        return {row["feature"]: row for row in self.of("capture_capabilities")[0]["capabilities"]}.get(name)

    def rows(self, table):
        [recording] = self.recordings
        return [json.loads(line) for line in self.pitot("view", recording, table, "--json", "--limit", "0").stdout.splitlines()]

    def settings(self):
        return self.capability("settings")["message"]


@pytest.fixture(scope="session")
def programs(folder, plain, source, shared_folder):
    def fill(place):
        (place / "options.py").write_text(PYTHON)
        compiler = shutil.which("c++")
        if compiler:
            subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", source / "include",
                            source / "tests/integration/consumer-gpufl/options.cpp", "-o", place / "options", "-L", plain, "-lpitot",
                            f"-Wl,-rpath,{plain}"], check=True)

    place = shared_folder("gpufl-options", fill)
    return {"cpp": [place / "options"], "python": [sys.executable, place / "options.py"]}


# --- what each option does: checks of an Effect ---


def has_an_address(effect):
    address = effect.start()["ip_addr"]
    assert not address or ipaddress.ip_address(address)  # a machine without a network has none
    assert all(batch["ip_addr"] == address for batch in effect.of("host_metric_batch"))


def starts(key, value):
    """A member of job_start."""
    return lambda effect: check(effect.start()[key], value)


def check(found, expected):
    assert found == expected


def has_setting(text):
    return lambda effect: (effect.settings(), text)[1] in effect.settings() or pytest.fail(f"no {text} in {effect.settings()}")


def lacks_setting(text):
    return lambda effect: check(text in effect.settings(), False)


def warns(*words):
    def warned(effect):
        assert any(all(word in line for word in words) for line in effect.errors.splitlines()), effect.errors
    return warned


def names_the_app(name):
    def named(effect):
        assert {line["app"] for channel in ("device", "scope", "system", "sass") for line in effect.lines(channel) if "app" in line} == {name}
        [recording] = effect.recordings
        assert effect.pitot("report", recording).stdout.startswith(f"{name}: ") and f"{name}: " in effect.pitot("info", recording).stdout
        [process] = [process for process in effect.pitot("info", recording, "--json", json_output=True)["processes"] if process["recorded"]]
        assert process["name"] == name
        effect.pitot("export", recording, "-o", effect.folder / "exported.gpufl")
        assert {line["app"] for channel in ("device", "scope") for line in effect.lines(channel, "exported.gpufl") if "app" in line} == {name}
        reports = subprocess.run([sys.executable, "-c", "import sys, pitot.gpufl.report as r; print(*map(r.generate_report, sys.argv[1:]), sep='\\f')",
                                  recording, effect.folder / "logs"], env=effect.environment, capture_output=True, text=True).stdout.split("\f")
        assert len(reports) == 2 and all(re.search(rf"^Application: +{name}$", report, re.MULTILINE) for report in reports), reports
    return named


def has_host_rows(effect):
    batches = effect.of("host_metric_batch")
    rows = [dict(zip(batch["columns"], row)) for batch in batches for row in batch["rows"]]
    assert rows and all(row["ram_total_mib"] > 0 for row in rows)
    for kind in "system_start", "system_stop":
        [mark] = effect.of(kind)
        assert mark["name"] == "phase" and mark["host"]["ram_total_mib"] > 0 and mark["host"]["ram_used_mib"] > 0


def has_no_host_rows(effect):
    assert not effect.of("host_metric_batch")


def has_stacks(effect):
    calls = [row for row in effect.rows("api_call") if "Launch" in row["function"]]
    assert calls and all(row["stack"] is not None for row in calls)


def has_no_stacks(effect):
    calls = [row for row in effect.rows("api_call") if "Launch" in row["function"]]
    assert calls and all(row["stack"] is None for row in calls)


def has_scopes_only(effect):
    [batch] = [line for line in effect.lines("scope") if line["type"] == "scope_event_batch"]
    assert len(batch["rows"]) == 2 and effect.start()["profiling_engine"] == "nvidia.none"
    has_no_host_rows(effect)


def is_refused(effect):
    assert "init 0" in effect.said and not (effect.folder / "logs").exists()


def says_nothing(effect):
    assert "init 0" in effect.said and "upload 1" in effect.said and list(effect.folder.glob("logs*")) == [] and not effect.errors


def uploaded(effect):
    assert "upload 1" in effect.said
    [request] = [request for request in effect.backend.requests if request["path"].endswith("/session-complete")]
    assert request["path"] == "/theirs/events/session-complete" and request["headers"]["Authorization"] == "Bearer secret"


def is_in(folder):
    return lambda effect: check([path.is_dir() for path in (effect.folder / folder).iterdir()], [True])


RATE = {"system_sample_rate_ms": 20, "until": "host_metric_batch"}
UPLOAD = {"backend_url": "URL", "api_key": "secret", "api_path": "/theirs"}
TRACE = {"profiling_engine": "Trace"}
ENGINES = {"Monitor": "nvidia.none", "Trace": "nvidia.trace", "PcSampling": "nvidia.pc_sampling", "SassMetrics": "nvidia.sass_metrics",
           "RangeProfiler": "nvidia.range_profiler", "Deep": "nvidia.pc_sampling_with_sass", "PmSampling": "nvidia.pm_sampling",
           "RangeProfilerKernelReplay": "nvidia.range_profiler_kernel_replay"}

#: Options of the program, variables, keys of the file, and what follows. Without log_path logs are in "logs".
ROWS = {
    "app_name": ({**TRACE, "app_name": "trainer"}, {}, {}, names_the_app("trainer")),
    "GPUFL_APP_NAME": ({**TRACE}, {"GPUFL_APP_NAME": "outside"}, {}, names_the_app("outside")),
    "app_name in the file": ({**TRACE}, {}, {"app_name": "filed"}, names_the_app("filed")),
    "app_name before GPUFL_APP_NAME": ({"app_name": "code"}, {"GPUFL_APP_NAME": "outside"}, {"app_name": "filed"}, starts("app", "code")),
    "log_path": ({"log_path": "elsewhere/run.log"}, {}, {}, is_in("elsewhere/run")),
    "log_path in the file": ({"log_path": ""}, {}, {"log_path": "filed"}, is_in("filed")),
    "no log_path": ({"log_path": "", "app_name": "trainer"}, {}, {}, is_in("trainer")),
    "backend": ({**UPLOAD}, {}, {}, uploaded),
    "backend in variables": ({}, {"GPUFL_BACKEND_URL": "URL", "GPUFL_API_KEY": "secret", "GPUFL_API_PATH": "/theirs"}, {}, uploaded),
    "backend in the file": ({}, {}, UPLOAD, uploaded),
    "no backend": ({}, {}, {}, lambda effect: check("upload 0 no backend: give its host in backend_url" in effect.said, True)),
    "remote_upload": ({"remote_upload": True, **UPLOAD}, {}, {}, warns("remote_upload is deprecated")),
    "remote_upload in the file": ({**UPLOAD}, {}, {"remote_upload": True}, warns("remote_upload is deprecated")),
    "GPUFL_REMOTE_UPLOAD": ({**UPLOAD}, {"GPUFL_REMOTE_UPLOAD": "Yes"}, {}, warns("remote_upload is deprecated")),
    "enabled": ({"enabled": False}, {}, {}, says_nothing),
    "enabled in the file": ({}, {}, {"enabled": False}, says_nothing),
    "GPUFL_DISABLED": ({"enabled": True}, {"GPUFL_DISABLED": "YES"}, {}, says_nothing),
    "enable_stack_trace": ({**TRACE, "enable_stack_trace": True}, {}, {}, has_stacks),
    "enable_stack_trace in the file": ({**TRACE}, {}, {"enable_stack_trace": True}, has_stacks),
    "no enable_stack_trace": ({**TRACE}, {}, {}, has_setting("stacks=none")),
    "enable_memory_tracking": ({**TRACE, "enable_memory_tracking": False}, {}, {}, has_setting("memory=off (code)")),
    "enable_memory_tracking in the file": ({**TRACE}, {}, {"enable_memory_tracking": False}, has_setting("memory=off (file)")),
    "enable_cuda_graphs_tracking": ({**TRACE, "enable_cuda_graphs_tracking": True}, {}, {}, has_setting("graphs=launch (code)")),
    "enable_cuda_graphs_tracking in the file": ({**TRACE}, {}, {"enable_cuda_graphs_tracking": True}, has_setting("graphs=launch (file)")),
    "enable_synchronization": ({**TRACE, "enable_synchronization": False}, {}, {}, warns("enable_synchronization", "has no effect")),
    "enable_synchronization in the file": ({**TRACE}, {}, {"enable_synchronization": False}, warns("enable_synchronization", "has no effect")),
    "enable_external_correlation": ({**TRACE, "enable_external_correlation": False}, {}, {}, warns("enable_external_correlation", "has no effect")),
    "enable_source_collection": ({**TRACE, "enable_source_collection": False}, {}, {}, lambda effect: check(effect.of("source_file_content", "sass"), [])),
    "system_sample_rate_ms": ({**RATE, "continuous_system_sampling": True}, {}, {}, has_host_rows),
    "system_sample_rate_ms in scopes": ({**RATE}, {}, {}, has_host_rows),
    "system_sample_rate_ms in the file": ({"until": "host_metric_batch"}, {}, {"system_sample_rate_ms": 20}, has_host_rows),
    "the address of the machine": ({**RATE}, {}, {}, has_an_address),
    "no system_sample_rate_ms": ({}, {}, {}, has_no_host_rows),
    "continuous_system_sampling": ({**RATE, "continuous_system_sampling": True}, {}, {}, lacks_setting("counters-always")),
    "continuous_system_sampling in the file": ({**RATE}, {}, {"continuous_system_sampling": True}, has_host_rows),
    "kernel_sample_rate_ms": ({"kernel_sample_rate_ms": 5}, {}, {}, warns("kernel_sample_rate_ms", "has no effect")),
    "kernel_sample_rate_ms in the file": ({}, {}, {"kernel_sample_rate_ms": 5}, warns("kernel_sample_rate_ms", "has no effect")),
    "flush_logs_always": ({"flush_logs_always": True}, {}, {}, warns("flush_logs_always has no effect")),
    "flush_logs_always in the file": ({}, {}, {"flush_logs_always": True}, warns("flush_logs_always has no effect")),
    "enable_debug_output": ({"enable_debug_output": True}, {}, {}, warns("recording into")),
    "enable_debug_output in the file": ({}, {}, {"enable_debug_output": True}, warns("recording into")),
    "pm_sampling_max_samples": ({"pm_sampling_max_samples": 5}, {}, {}, warns("pm_sampling_max_samples has no effect")),
    "pm_sampling_preset": ({"pm_sampling_preset": "other"}, {}, {}, warns("pm_sampling_preset has no effect")),
    "pm_sampling": ({"profiling_engine": "PmSampling", "pm_sampling_interval_us": 50, "pm_sampling_metrics": "memory"}, {}, {},
                    has_setting("pm-interval=50.0 us (code), metrics=memory (code)")),
    "pm_sampling in the file": ({}, {}, {"profiling_engine": "PmSampling", "pm_sampling_interval_us": 50, "pm_sampling_metrics": ["memory", "compute"]},
                                has_setting("pm-interval=50.0 us (file), metrics=memory,compute (file)")),
    "deep_window_only": ({"profiling_engine": "PmSampling", "deep_window_only": True}, {}, {}, starts("profiling_engine", "nvidia.trace")),
    "deep_window_only in the file": ({}, {"GPUFL_PROFILING_ENGINE": "PmSampling"}, {"deep_window_only": True}, starts("profiling_engine", "nvidia.trace")),
    "backend Auto": ({"backend": "Auto"}, {}, {}, starts("session_kind", "monitor")),
    "backend Nvidia": ({"backend": "Nvidia", **TRACE}, {}, {}, starts("profiling_engine", "nvidia.trace")),
    "backend Amd": ({"backend": "Amd"}, {}, {}, lambda effect: (is_refused(effect), warns("AMD's GPUs are recorded only")(effect))),
    "backend None": ({"backend": "None", **TRACE}, {}, {}, has_scopes_only),
    "backend None in the file": ({**TRACE}, {}, {"backend": "None"}, has_scopes_only),
    "explicit Monitor": ({"profiling_engine": "Monitor"}, {"GPUFL_PROFILING_ENGINE": "Trace"}, {}, starts("profiling_engine", "nvidia.none")),
    "an unknown GPUFL_PROFILING_ENGINE": ({}, {"GPUFL_PROFILING_ENGINE": "Bogus"}, {},
                                          warns("GPUFL_PROFILING_ENGINE takes Monitor, Trace, PcSampling,", "not 'Bogus'")),
    "an unknown key": ({}, {}, {"log_pth": "x"}, warns("unknown key 'log_pth'")),
    **{f"profiling_engine {name}": ({"profiling_engine": name}, {}, {}, starts("profiling_engine", wire)) for name, wire in ENGINES.items()},
    **{f"GPUFL_PROFILING_ENGINE {name}": ({}, {"GPUFL_PROFILING_ENGINE": name}, {}, starts("profiling_engine", wire)) for name, wire in ENGINES.items()},
    **{f"profiling_engine {name} in the file": ({}, {}, {"profiling_engine": name}, starts("profiling_engine", wire)) for name, wire in ENGINES.items()},
}

#: What needs a session without `pitot record`: there is no folder of its own to name.
ALONE = "enable_debug_output", "enable_debug_output in the file"
WITH_LAUNCHES = "app_name", "GPUFL_APP_NAME", "app_name in the file", "enable_stack_trace", "enable_stack_trace in the file"


@pytest.mark.parametrize("below", [False, True], ids=["alone", "below record"])
@pytest.mark.parametrize("language", ["cpp", "python"])
@pytest.mark.parametrize("name", ROWS)
def test_each_option(name, language, below, programs, folder, plain, pitot, environment, tmp_path, request):
    options, variables, config, holds = ROWS[name]
    if not Path(programs[language][-1]).exists():
        pytest.skip("no C++ compiler")
    environment = {**environment, "PYTHONPATH": str(folder), "PATH": f"{plain}:{environment['PATH']}", "NO_PROXY": "*"}
    if name in WITH_LAUNCHES:
        environment.update(request.getfixturevalue("launcher"))
    with Backend() as backend:
        texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in {"log_path": "logs", **options}.items()}
        if "log_path" in config or "enabled" in config:
            texts.pop("log_path" if "log_path" in config else "", None)
        if config:
            (tmp_path / "gpufl.json").write_text(json.dumps({key: backend.url if value == "URL" else value for key, value in config.items()}))
            texts["config_file"] = "gpufl.json"
        words = [f"{key}={backend.url if value == 'URL' else value}" for key, value in texts.items() if value != ""]
        environment.update({key: backend.url if value == "URL" else value for key, value in variables.items()})
        record = [plain / "pitot", "record", "--quiet", "--no-cpu", "-o", tmp_path / "outer.pitot", "--"] if below else []
        result = subprocess.run([*map(str, record), *map(str, programs[language]), *words], cwd=tmp_path, env=environment, capture_output=True,
                                text=True, timeout=PATIENCE)
    assert result.returncode == (2 if below and name == "an unknown GPUFL_PROFILING_ENGINE" else 0), result.stderr
    effect = Effect(tmp_path, result.stdout, result.stderr, pitot)
    effect.backend, effect.environment = backend, environment
    if below and name in ALONE:
        return
    holds(effect)
