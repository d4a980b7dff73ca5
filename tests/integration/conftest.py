"""What tests with tapes share."""
import json
import subprocess
from pathlib import Path

import pytest

from waiting import PATIENCE


@pytest.fixture
def record(build, source, environment, tmp_path):
    """Plays a tape into the recorder: record("train", "key=value;…", "--repeat", "3"). The folder of the recording.

    A tape is one of tests/data/tapes by its name, or a path.
    """
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")

    def play(tape, options, *arguments):
        folder = tmp_path / "recording.pitot"
        folder.mkdir()
        library = str(build / "libpitot.so")
        variables = {"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
                     "PITOT_RECORDING": str(folder), "PITOT_OPTIONS": options,
                     "LSAN_OPTIONS": f"suppressions={Path(__file__).parent}/leaks.txt:print_suppressions=0"}
        path = tape if isinstance(tape, Path) else source / "tests" / "data" / "tapes" / f"{tape}.tape"
        result = subprocess.run([player, *arguments, path], capture_output=True, text=True, timeout=PATIENCE,
                                env={**environment, **variables})
        assert result.returncode == 0 and result.stderr == "", result.stderr
        return folder

    return play


@pytest.fixture
def made_tape(build, tmp_path):
    """The tape that tape-make makes."""
    if not (build / "standin" / "tape-make").exists():
        pytest.skip("built without CUDA's headers")
    path = tmp_path / "made.tape"
    subprocess.run([build / "standin" / "tape-make", path], check=True)
    return path


@pytest.fixture
def rows(pitot):
    def read(recording, table, *options):
        text = pitot("view", recording, table, "--json", "--quiet", *options).stdout
        return [json.loads(line) for line in text.splitlines()]

    return read


@pytest.fixture(scope="session")
def library(source, build, cuda_headers, tmp_path_factory):
    """libpitot.so for programs without sanitizers."""
    built = build / "libpitot.so"
    if b"libasan" not in built.read_bytes() and b"libtsan" not in built.read_bytes():
        return built.resolve()
    folder = tmp_path_factory.mktemp("recorder")
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DPITOT_TESTS=OFF", "-DPITOT_CLI=OFF",
                    "-DCMAKE_BUILD_TYPE=Release", *cuda_headers], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True, stdout=subprocess.DEVNULL)
    return folder / "libpitot.so"
