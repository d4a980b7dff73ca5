"""bench/python_package.py: finds the package of a build or of copied programs, or says what is missing and how to name it."""
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def find(source, environment):
    code = "import sys; from python_package import find_package; print(*find_package(sys.argv[1]), sep='\\n')"

    def run(build, **more):
        done = subprocess.run([sys.executable, "-c", code, build], capture_output=True, text=True, cwd=source / "bench", env={**environment, **more})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_of_a_build(find, folder, plain, tmp_path):
    assert find(plain) == [str(folder.resolve()), "None"]
    assert find(tmp_path, PITOT_PYTHON=str(folder)) == [str(folder.resolve()), "None"]


def test_of_copied_programs(find, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    assert find(tmp_path) == [str(tmp_path / "python"), "None"]
    for module in (tmp_path / "python/pitot").glob("_record.*"):
        module.unlink()
    none, reason = find(tmp_path)
    assert none == "None" and f"cannot import pitot from '{tmp_path / 'python'}': " in reason and "_record" in reason and "PITOT_PYTHON=FOLDER" in reason


def test_of_nothing(find, tmp_path):
    none, reason = find(tmp_path)
    assert none == "None" and f"there is no '{tmp_path / 'python/pitot'}'" in reason and "--target python_package" in reason
