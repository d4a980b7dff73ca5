"""Stacks of real programs, stopped anywhere, against libunwind's, frame by frame. PyTorch is in bench/stack_agreement.py."""
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "agreement"))
import agreement as agree  # noqa: E402

SHARE = 0.999


@pytest.fixture
def compare(shared_folder, environment):
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    library = shared_folder("agreement", agree.build) / agree.LIBRARY

    def run(*command):
        found, said = agree.compare(library, command, environment)
        if not found:
            pytest.skip("no libunwind on this machine (apt-get install libunwind8)")
        print(found)
        print(*found.differences, sep="\n")
        return found, said

    return run


def check(found, stacks, complete=0.97):
    """Enough was compared, the frames are the same, and where they are not libunwind or nobody is right."""
    assert found.total("stacks") > stacks and found.total("frames") > 10 * stacks
    assert found.figures["interrupted", "stacks"] > 50
    assert found.share() >= SHARE, found.differences
    assert found.total("with_them") <= (1 - SHARE) * found.total("frames"), found.differences
    assert found.total("complete") >= complete * found.total("stacks")
    assert found.total("partial") <= 0.001 * found.total("stacks")


def test_cplusplus(compare, tmp_path):
    """-O3 without frame pointers: exceptions, virtual calls, the standard library, signal handlers on two stacks."""
    if not shutil.which("c++"):
        pytest.skip("no C++ compiler")
    found, said = compare(agree.build_cpp(tmp_path), 2)
    assert said.strip() == "1"
    check(found, 500)
    assert found.frames_in("agreed_cpp") > 1000 and found.frames_in("libstdc") > 100


def test_rust(compare, tmp_path):
    program = agree.build_rust(tmp_path)
    if not program:
        pytest.skip("no rustc that works")
    found, said = compare(program, 2)
    assert said.strip() == "1"
    check(found, 500)
    assert found.frames_in("agreed_rust") > 1000


def test_python(compare):
    found, said = compare(os.path.realpath(sys.executable), agree.HERE / "agreed_work.py", 3)
    check(found, 300, complete=0.95)  # OpenBLAS has kernels without rules, by the processor other ones
    assert found.frames_in("python") > 1000
    if said.strip() == "numpy":
        assert found.innermost_in("openblas|blas|lapack|_multiarray_umath") > 10, found.modules
