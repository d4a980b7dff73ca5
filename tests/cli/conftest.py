"""Fixtures of several files: recordings that are made, what flame says of them, a browser."""
import json
import os
import shutil

import pytest
from kineto_events import steps

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def sampled(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("sampled") / "r.pitot", "cpu_all")


@pytest.fixture(scope="session")
def flame_recordings(make_recording, tmp_path_factory):
    """small.pitot and other.pitot with call stacks, many.pitot with 2,000 of them, plain.pitot without; and
    recordings with CPU samples, as cpu_recording.c says."""
    folder = tmp_path_factory.mktemp("flame")
    for name, options in {
        "small": {"kernels": 60, "stacks": 6},
        "other": {"kernels": 80, "stacks": 9, "seed": 5},
        "many": {"kernels": 5000, "stacks": 2000, "pattern": "copies", "processes": 2},
        "plain": {"kernels": 500, "pattern": "streams"},
        "graph": {"kernels": 900, "stacks": 4, "pattern": "graph"},
    }.items():
        make_recording(folder / f"{name}.pitot", **options)
    for mode in ("all", "cpu", "inside", "none", "only", "deep"):
        make_recording(folder / f"cpu-{mode}.pitot", f"cpu_{mode}")
    make_recording(folder / "stalls.pitot", "stalls")
    return folder


@pytest.fixture
def flame(pitot, flame_recordings, tmp_path):
    """flame(name, options…) prints; flame(name, options…, to="x.svg") returns the file's path."""

    def run(name, *options, to=None, **keywords):
        command = ["flame", f"{name}.pitot", *options]
        if to is None:
            return pitot(*command, cwd=flame_recordings, **keywords)
        pitot(*command, "-o", tmp_path / to, "--force", cwd=flame_recordings, **keywords)
        return tmp_path / to

    return run


@pytest.fixture
def gpu_ns(pitot, flame_recordings):
    """The sum of the durations of all work that a recording has."""

    def total(name):
        ns = 0
        for table in ("kernel", "memcpy", "memset"):
            lines = pitot("view", f"{name}.pitot", table, "-c", "duration", "--json", cwd=flame_recordings).stdout
            ns += sum(json.loads(line)["duration"] for line in lines.splitlines())
        return ns

    return total


@pytest.fixture
def cpu_ns(pitot, flame_recordings):
    """The sum of the weights of all samples, or of the times off the CPU."""

    def total(name, table="cpu_sample", column="weight_ns"):
        lines = pitot("view", f"{name}.pitot", table, "-c", column, "--json", cwd=flame_recordings).stdout
        return sum(json.loads(line)[column] for line in lines.splitlines())

    return total


@pytest.fixture(scope="session")
def browser():
    for name in BROWSERS:
        if shutil.which(name):
            return shutil.which(name)
    message = "no chromium on this machine: pictures are not looked at (apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def imported_steps(pitot, tmp_path):
    """imported_steps("a", [("gemm", 40)]): a.pitot, whose steps launch these kernels, of so many microseconds."""

    def make(name, kernels, **options):
        (tmp_path / f"{name}.json").write_text(steps(kernels, **options))
        pitot("import", "-o", f"{name}.pitot", f"{name}.json")
        return f"{name}.pitot"

    return make
