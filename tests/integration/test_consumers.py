"""Programs in C, C++ and CUDA that use libpitot.so: through find_package, FetchContent and pkg-config."""
import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpufl_backend import Backend

LANGUAGES = ["c", "cpp", "cuda"]
SOURCES = {"c": "examples/embed-c/main.c", "cpp": "examples/embed-cpp/main.cpp", "cuda": "examples/embed-cuda/main.cu"}


def run(command, **options):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=600, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


def nvcc():
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    return shutil.which("nvcc") or shutil.which("nvcc", path=toolkit / "bin")


@pytest.fixture(scope="session")
def headers(build, plain):
    """A folder with CUDA's headers: a toolkit's, or one that a build downloaded; None without either."""
    for folder in (Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include",
                   *(folder / "cuda-headers/nvidia/cu13/include" for folder in (build, plain))):
        if (folder / "cuda_runtime_api.h").exists():
            return folder
    return None


@pytest.fixture(scope="session")
def installed(plain, tmp_path_factory):
    """Pitot installed into a folder of its own, from a build without sanitizers: consumers have none either."""
    folder = tmp_path_factory.mktemp("package") / "installed"
    run(["cmake", "--install", plain, "--prefix", folder])
    return folder


def fetch(folder, source, headers):
    """Configures a consumer, in the folder of its source."""
    run(["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DPITOT_SOURCE={source}", f"-DCUDA_INCLUDE={headers}",
         f"-DPITOT_CUDA_HEADERS={headers or 'auto'}"])


@pytest.fixture(scope="session")
def fetched(source, headers, shared_folder):
    """A folder of consumers that have fetched Pitot, by language. One follows the other in the same build folder, so that Pitot,
    which is the same for all, is compiled once."""

    def fill(folder):
        for language in LANGUAGES:
            if language == "cuda" and not nvcc() and not headers:
                continue
            shutil.copytree((source / SOURCES[language]).parent, folder, dirs_exist_ok=True)
            fetch(folder, source, headers)
            run(["cmake", "--build", folder / "build"])
            (folder / language).mkdir()
            (folder / "build/consumer").rename(folder / language / "consumer")
        shutil.copytree(source / "tests/integration/consumer-gpufl", folder, dirs_exist_ok=True)
        fetch(folder, source, headers)
        run(["cmake", "--build", folder / "build"])

    return shared_folder("fetched", fill)


def check(consumer, version, installed, tmp_path, environment):
    """The consumer runs, and records when it is asked to, or unless it is told not to."""
    libraries = {"LD_LIBRARY_PATH": str(next(installed.glob("lib*/libpitot.so")).parent)} if installed else {}
    folder = tmp_path / "runs"
    folder.mkdir()

    def consume(**variables):
        result = subprocess.run([consumer], env={**environment, **libraries, **variables}, cwd=folder, timeout=600, text=True,
                                capture_output=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert consume(PITOT_DISABLED="1") == f"{version} 0\n" and not list(folder.iterdir())
    assert consume() == f"{version} 1\n"
    [own] = folder.glob("consumer-*.pitot")
    assert json.loads((own / "recording.json").read_text())["state"] == "ended"
    recording = tmp_path / "consumer.pitot"
    recording.mkdir()
    assert consume(PITOT_RECORDING=str(recording)) == f"{version} 1\n"
    assert list(recording.glob("*.pit")) and list(folder.glob("consumer-*.pitot")) == [own]


@pytest.fixture
def version(pitot):
    return pitot("version").stdout.split()[1]


def skip_without_headers(language, headers):
    if language == "cuda" and not nvcc() and not headers:
        pytest.skip("neither nvcc nor CUDA's headers are here")


@pytest.mark.parametrize("language", LANGUAGES)
def test_find_package(headers, installed, language, source, version, tmp_path, environment):
    skip_without_headers(language, headers)
    run(["cmake", "-S", (source / SOURCES[language]).parent, "-B", tmp_path / "build", "-G", "Ninja",
         f"-DCMAKE_PREFIX_PATH={installed}", f"-DCUDA_INCLUDE={headers}"])
    run(["cmake", "--build", tmp_path / "build"])
    check(tmp_path / "build/consumer", version, None, tmp_path, environment)


@pytest.mark.parametrize("language", LANGUAGES)
def test_fetch_content(headers, fetched, language, source, version, tmp_path, environment):
    skip_without_headers(language, headers)
    # On its own it can be configured, too.
    shutil.copytree((source / SOURCES[language]).parent, tmp_path / "own")
    fetch(tmp_path / "own", source, headers)
    # Only the library: a consumer builds neither the program nor the tests.
    assert not list((fetched / "build").rglob("pitot"))
    check(fetched / language / "consumer", version, None, tmp_path, environment)


def test_target_gpufl(fetched, environment, tmp_path):
    """gpufl's target, fetched under its name, is enough to compile and link its example."""
    result = subprocess.run([fetched / "build/my_app", "off"], env=environment, cwd=tmp_path, timeout=600, capture_output=True, text=True)
    assert result.stdout.startswith("init 0\n"), result.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_pkg_config(headers, installed, language, source, version, tmp_path, environment):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not here")
    skip_without_headers(language, headers)
    folder = next(installed.glob("lib*/pkgconfig")) if list(installed.glob("lib*/pkgconfig")) else \
        next(installed.glob("lib/*/pkgconfig"))
    flags = run(["pkg-config", "--cflags", "--libs", "pitot"], env={**environment, "PKG_CONFIG_PATH": str(folder)})
    compiler = {"c": ["cc"], "cpp": ["c++"], "cuda": [nvcc()]}[language]
    if language == "cuda" and not nvcc():
        compiler = ["c++", "-x", "c++", "-isystem", headers]
    run([*compiler, source / SOURCES[language], "-o", tmp_path / "consumer",
         *flags.split()])
    check(tmp_path / "consumer", version, installed, tmp_path, environment)


def test_gpufl(installed, source, tmp_path, environment):
    """A program with gpufl's calls is compiled and linked as it is, and what it says of itself is in a recording."""
    library, header = next(installed.glob("lib*/libpitot.so")).parent, installed / "include"
    program = source / "tests/integration/consumer-gpufl/main.cpp"
    for compiler in ("c++", "clang++"):
        if shutil.which(compiler):
            run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-I", header, program, "-o",
                 tmp_path / "consumer", "-L", library, "-lpitot"])
    environment = {**environment, "LD_LIBRARY_PATH": str(library), "PITOT_COUNTERS": "2s", "PITOT_SYNC": "on"}
    with Backend() as backend:
        result = subprocess.run([tmp_path / "consumer"], cwd=tmp_path, capture_output=True, text=True, timeout=600, env={
            **environment, "GPUFL_BACKEND_URL": backend.url, "PITOT_API_KEY": "key", "NO_PROXY": "*"})
    driver = "nvml 1 1" in result.stdout  # available, and then without a reason
    assert result.stdout == ("init 1\ninit 1\ninit 0\nsum 42\nbench 15\ndeep 0 0\nupload 1 \n"
                             f"nvml {driver:d} {driver:d}\npresets 100 0 1\nwindow 1 0\n"), result.stderr
    # What is not there or deprecated is said once.
    said = result.stderr.splitlines()
    assert len(said) == len(set(said)) == 2 and all(line.startswith("[gpufl] ") for line in said), said

    [recording] = tmp_path.glob("theirs-*.pitot")
    assert "a name that is not short" in (tmp_path / "report.txt").read_text()

    def view(table, recording=recording):
        text = run([installed / "bin/pitot", "view", recording, table, "--json", "--limit", "0"], env=environment)
        return [json.loads(line) for line in text.splitlines()]

    [session] = [path for path in (tmp_path / "logs").iterdir() if path.is_dir()]
    assert backend.completed == [session.name] and backend.requests[0]["headers"]["Authorization"] == "Bearer key"
    assert len(backend.lines) == sum(gzip.decompress(path.read_bytes()).count(b"\n") for path in session.glob("*.log.gz")) > 4
    with gzip.open(session / "scope.1.log.gz", "rt") as log:
        batches = [json.loads(line) for line in log]
    scopes = [row for batch in batches if batch["type"] == "scope_event_batch" for row in batch["rows"]]
    assert [row[3] for row in scopes].count(0) == [row[3] for row in scopes].count(1) == 14
    rows = view("nvtx")
    begun = [row["message"] for row in rows if row["kind"] == "push"]
    assert begun == ["loop", "inner", "loop", "inner", "a name that is not short", "tagged", "deep", "all",
                     "a name that is not short runs", "a name that is not short", "returns", "bench_warmup", "bench", "plain"]
    assert len([row for row in rows if row["kind"] == "pop"]) == len(begun)
    assert [row["message"] for row in rows if row["kind"] == "mark"] == ["system start: phase", "system stop: phase",
                                                                         "system start: system"]
    runs = {row["message"]: row["payload"] for row in rows if row["payload_kind"] == "runs"}
    assert runs == {"a name that is not short runs": 2 << 32 | 4, "bench_warmup": 3, "bench": 3 << 32 | 10, "plain": 2}
    last = {row["counter"]: row["value"] for row in view("counter_sample") if row["counter"].startswith("app.")}
    assert last == {"app.steps": 42, "app.ticks": 7}
    # What was set in code counts; of what has gpufl's default, the environment.
    capabilities = {row["name"]: row for row in view("capability")}
    assert capabilities["settings"]["actual"] == ("engine=deep (code), stacks=none (program), sync=on (environment), "
                                               "memory=on (program), counters=50.0 ms (code), system=all (program)")

    # Without a log_path logs are in a folder of the program's name, unless there is a file.
    [session] = [path for path in (tmp_path / "windows").iterdir() if path.is_dir()]
    assert (session / "scope.1.log.gz").exists()

    [settings] = [row["actual"] for row in view("capability", *tmp_path.glob("windows-*.pitot")) if row["name"] == "settings"]
    assert settings == ("engine=trace (code), stacks=none (program), sync=on (environment), memory=on (program), counters=2.00 s (environment), "
                        "pm-interval=50.0 us (code), metrics=memory,sm__cycles_active.avg (code)")

    (tmp_path / "there").mkdir()
    (tmp_path / "there/windows").write_text("a program")
    result = subprocess.run([tmp_path / "consumer"], cwd=tmp_path / "there", env=environment, capture_output=True, text=True, timeout=600)
    assert "[gpufl] no logs: 'windows' is a file; set log_path\n" in result.stderr and list((tmp_path / "there").glob("windows-*.pitot"))

    off = tmp_path / "off"
    off.mkdir()
    result = subprocess.run([tmp_path / "consumer", "off"], cwd=off, env=environment, capture_output=True, text=True, timeout=600)
    assert result.stdout.startswith("init 0\ninit 0\ninit 0\n") and "upload 1 \n" in result.stdout and not list(off.iterdir())
    for value, is_told in ("1", True), ("Yes", True), ("0", False), ("false", False), ("", False):
        result = subprocess.run([tmp_path / "consumer", "off", "-"], cwd=off, env={**environment, "GPUFL_REMOTE_UPLOAD": value}, capture_output=True,
                                text=True, timeout=600)
        assert ("remote_upload is deprecated" in result.stderr) == is_told, value


def test_installed_program(installed, environment, tmp_path):
    """The installed program finds the installed library, and everything lies where it belongs."""
    program = installed / "bin/pitot"
    text = run([program, "record", "-o", "rec", "--", "sh", "-c", "echo $CUDA_INJECTION64_PATH"], cwd=tmp_path,
               env=environment)
    library = Path(text.splitlines()[0])
    assert library.is_relative_to(installed) and library.name.startswith("libpitot.so")
    for path in ("share/man/man1/pitot.1", "share/man/man1/pitot-record.1", "share/man/man1/pitot-profile.1",
                 "share/bash-completion/completions/pitot", "share/zsh/site-functions/_pitot",
                 "share/fish/vendor_completions.d/pitot.fish", "include/pitot/pitot.h", "include/gpufl/gpufl.hpp",
                 "include/tracesmith/tracesmith.hpp"):
        assert (installed / path).stat().st_size > 0, path


def test_the_library_shows_its_own_names_only(installed):
    library = next(installed.rglob("libpitot.so"))
    symbols = [line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    allowed = ("pitot_", "InitializeInjection", "ncclProfiler_v")
    assert symbols and all(name.startswith(allowed) for name in symbols), symbols


def test_the_library_needs_the_c_library_only(installed):
    needed = run(["readelf", "-d", next(installed.rglob("libpitot.so"))])
    names = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
    assert set(names) <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}, names


def test_cuda_headers_that_are_asked_for_and_not_there(source, tmp_path):
    """A choice is not overruled in silence."""
    configure = ["cmake", "-S", source, "-B", tmp_path, "-G", "Ninja", "-DPITOT_CUDA_HEADERS=/nonexistent"]
    result = subprocess.run(configure, capture_output=True, text=True, timeout=600)
    assert result.returncode != 0 and "-DPITOT_CUDA_HEADERS=/nonexistent" in " ".join(result.stderr.split())
