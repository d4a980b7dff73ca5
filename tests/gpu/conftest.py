"""Fixtures of the tests on a GPU: compiled programs and a function that records."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench"))

from python_package import find_package  # noqa: E402

BUILD = pathlib.Path(os.environ.get("PITOT_BUILD", HERE.parent.parent / "build"))
PITOT = str(BUILD / "pitot")


def pytest_ignore_collect(collection_path, config):
    """Without a machine for them these tests are not collected by an ordinary `pytest tests`."""
    return "PITOT_BUILD" not in os.environ


class Recording:
    """What `pitot record` left behind, and how the command ended."""

    def __init__(self, path, done):
        self.path, self.done = path, done

    def json(self, *command):
        done = subprocess.run([PITOT, *command, "--json", str(self.path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rows(self, table, *options):
        """Rows of a table as dictionaries."""
        done = subprocess.run([PITOT, "view", str(self.path), table, "--json", "--limit", "100000000", *options],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def losses(self):
        return [(r["reason"], r["count"]) for r in self.rows("loss")]


@pytest.fixture(scope="session")
def package(torch_python):
    """The environment in which that interpreter has the Python package of the build."""
    folder, reason = find_package(BUILD, torch_python)
    if not folder:
        pytest.fail(reason, pytrace=False)
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.fixture
def record(tmp_path):
    def run(*command, options=(), env=None, timeout=300):
        path = tmp_path / f"r{len(list(tmp_path.iterdir()))}.pitot"
        done = subprocess.run([PITOT, "record", "-q", "-o", str(path), *options, "--", *map(str, command)],
                              capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
        return Recording(path, done)

    return run


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The compiled workloads by name."""
    folder = tmp_path_factory.mktemp("programs")
    sources = {"launch": HERE.parent.parent / "bench/workloads/launch.cu", "kinds": HERE / "kinds.cu",
               "endings": HERE / "endings.cu"}
    builds = [subprocess.Popen(["nvcc", "-arch=native", "-std=c++17", "-O2", "-o", folder / name, source])
              for name, source in sources.items()]
    assert [b.wait() for b in builds] == [0] * len(builds)
    return {name: folder / name for name in sources}


@pytest.fixture(scope="session")
def torch_python():
    """An interpreter that has PyTorch with CUDA."""
    check = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"])
    if check.returncode:
        pytest.skip("no PyTorch with CUDA")
    return sys.executable
