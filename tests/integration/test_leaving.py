"""How long an end waits: as long as something goes on, but not for a GPU that hangs."""
import json
import re
import subprocess

import pytest

from waiting import PATIENCE, wait_until

KERNELS = 7000  # on the tape
PATIENCE_MS = 1000  # of an end without progress; where CUPTI hangs it is a fifth of that
SLOWNESS = 10  # of a build with sanitizers


@pytest.fixture
def play(build, source, environment, tmp_path):
    """Plays a tape into the recorder; the recording, and what the recorder logged."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")

    def run(*arguments, faults="", before_end=None, **variables):
        """before_end: called with the recording when all was played, until it is true; only then the program ends."""
        folder = tmp_path / "recording.pitot"
        folder.mkdir()
        log, end = tmp_path / "log", tmp_path / "end"
        (tmp_path / "faults").write_text(faults)
        library = str(build / "libpitot.so")
        process = subprocess.Popen(
            [player, "--faults", tmp_path / "faults", "--end-when", end, *arguments, source / "tests/data/tapes/launch.tape"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**environment, "CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library,
                 "PITOT_RECORDING": str(folder), "PITOT_LOG": str(log),
                 "LSAN_OPTIONS": f"suppressions={source}/tests/integration/leaks.txt:print_suppressions=0", **variables})
        try:
            if before_end:
                wait_until(lambda: before_end(folder), "what the end waits for", process)
            end.touch()
            output = process.communicate(timeout=PATIENCE)[0]
        finally:
            process.kill()
        assert process.returncode == 0 and output == "", output
        return folder, log.read_text()

    return run


def is_closed(pitot, recording):
    return json.loads(pitot("info", recording, "--json").stdout)["processes"][0]["closed"]


def rows(pitot, recording, table):
    """How many there are by now: 0 also before there is a segment."""
    info = pitot("info", recording, "--json", status=None)
    return json.loads(info.stdout)["tables"].get(table, {"rows": 0})["rows"] if info.returncode == 0 else 0


def waited_ms(log):
    """How long the end waited before it gave up; None: it did not."""
    found = re.search(r"gave up waiting for the collector after (\d+) ms", log)
    return int(found[1]) if found else None


def test_a_gpu_that_hangs_is_not_waited_for(play, pitot, build):
    def has_kernels(recording):
        return bool(rows(pitot, recording, "kernel"))

    recording, log = play("--hang-at-exit", "--realtime", before_end=has_kernels)
    sanitized = b"libasan" in (build / "libpitot.so").read_bytes()
    assert (waited_ms(log) or 0) < PATIENCE_MS * (SLOWNESS if sanitized else 1)
    assert has_kernels(recording)  # what was there before is not lost


def test_calls_of_cupti_that_take_long_are_waited_for(play, pitot):
    """Each of them is progress: together they take longer than one may."""
    recording, log = play(faults="delay cuptiActivityDisable 60ms\ndelay cuptiActivityFlushAll 100ms\n")
    assert waited_ms(log) is None and is_closed(pitot, recording)


@pytest.mark.parametrize("how", ["return", "exit", "quick-exit", "_exit", "fork-then-exit"])
def test_orderly_ends_lose_nothing(play, pitot, how):
    # A sanitizer's leak check cannot tell what a child that was forked beside other threads still has.
    variables = {"ASAN_OPTIONS": "detect_leaks=0"} if how == "fork-then-exit" else {}
    recording, _ = play("--exit", how, **variables)
    assert is_closed(pitot, recording) and rows(pitot, recording, "kernel") == KERNELS


def test_a_program_that_becomes_another_loses_nothing(play, pitot):
    recording, _ = play("--exit", "exec")
    assert rows(pitot, recording, "kernel") == KERNELS


def test_an_exit_turns_nothing_off(play, pitot, tmp_path):
    """CUPTI up to 13.0 may hang in that beside threads that launch: an exit flushes, and leaves everything as it is."""
    turned = ("cuptiUnsubscribe", "cuptiActivityDisable", "cuptiEnableCallback", "cuptiActivitySetAttribute")

    def begins(recording):
        if not rows(pitot, recording, "kernel"):
            return False
        (tmp_path / "hang").touch()
        return True

    recording, log = play(faults="".join(f"hang {function} when {tmp_path}/hang\n" for function in turned), before_end=begins)
    assert waited_ms(log) is None and is_closed(pitot, recording)
    assert (rows(pitot, recording, "kernel"), rows(pitot, recording, "loss")) == (KERNELS, 0)


@pytest.fixture
def slow_disk(source, build, tmp_path):
    library = tmp_path / "slow_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source / "tests/integration/slow_disk.c", "-ldl"], check=True)
    if "asan" in subprocess.run(["ldd", build / "libpitot.so"], capture_output=True, text=True).stdout:
        pytest.skip("a sanitizer has to be the first library")
    return str(library)


def test_a_disk_that_is_slow_is_waited_for(play, pitot, slow_disk):
    """A single write may take longer than any call of CUPTI."""
    recording, log = play(LD_PRELOAD=slow_disk, SLOW_DISK_MS="300")
    assert waited_ms(log) is None and is_closed(pitot, recording)
    assert rows(pitot, recording, "kernel") == KERNELS
