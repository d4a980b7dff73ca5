"""What may be lost is told, and what is not lost is right: buffers that run out, disks, ids that come again."""
import subprocess

import pytest

THREADS = 300
CUPTI_12_8 = 26


def test_300_threads_get_a_buffer_each(start_play, make_tape):
    """CUPTI 13 has a buffer for each thread that launches: none is refused."""
    play = start_play(make_tape("threads", THREADS), "--parallel", "--rate", "0", faults="thread-buffers", clock=None)
    play.end()
    assert play.losses() == {}
    assert (play.count("kernel"), play.count("api_call")) == (10 * THREADS, 10 * THREADS)


@pytest.mark.parametrize("version", [CUPTI_12_8, 130001])
def test_a_pool_that_is_empty(start_play, version):
    """CUPTI up to 12.8 crashes when it gets no buffer: it gets one that is thrown away. What is lost is told."""
    play = start_play("kinds", faults=f"version {version}\nhold-buffers 10000", clock="--now")
    play.end()
    told = sum(play.losses().values())
    assert told > 0 and play.count("api_call") > 0


@pytest.fixture
def disk(source, build, tmp_path):
    """What to preload for a disk that misbehaves while a file is there; a sanitizer has to be the first library."""
    code, library = (build / "libpitot.so").read_bytes(), tmp_path / "slow_disk.so"
    first = [subprocess.run(["cc", f"-print-file-name={name}.so"], check=True, capture_output=True, text=True).stdout.strip()
             for name in ("libasan", "libtsan") if name.encode() in code]
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source / "tests/integration/slow_disk.c", "-ldl"], check=True)
    return " ".join([*first, str(library)])


def test_a_disk_that_stalls(start_play, make_tape, disk, tmp_path):
    """Two seconds at 100,000 launches a second: launches and kernels are lost alike, and what is lost is counted."""
    launches, rounds = 20000, 30
    play = start_play(make_tape("fast", launches), "--repeat", rounds, "--rate", "200000", LD_PRELOAD=disk,
                      STALL_DISK_WHEN=str(tmp_path / "stall"), STALL_DISK_MS="2000", options="stacks=none")
    play.until_rows("kernel", 0)
    (tmp_path / "stall").touch()
    play.end()
    told = sum(play.losses().values())
    calls, kernels = play.count("api_call"), play.count("kernel")
    assert calls + kernels + told >= 2 * launches * rounds
    known = {row["correlation"] for row in play.rows("api_call", "-c", "correlation")}
    orphans = sum(row["correlation"] not in known for row in play.rows("kernel", "-c", "correlation"))
    assert orphans <= kernels / 20, f"{orphans} of {kernels} kernels have no launch, {calls} calls"


def test_a_disk_that_is_full_for_a_moment(start_play, make_tape, disk, tmp_path):
    """The recording goes on afterwards, and says what it lost."""
    play = start_play(make_tape("steps"), "--repeat", "10000", "--gap", "50", LD_PRELOAD=disk,
                      FULL_DISK_WHEN=str(tmp_path / "full"), FULL_DISK_SAYS=str(tmp_path / "refused"))
    play.until_rows("kernel", 0)
    (tmp_path / "full").touch()
    play.until((tmp_path / "refused").exists, "a write has been refused")
    (tmp_path / "full").unlink()
    before = play.count("kernel")
    play.until(lambda: play.count("kernel") > before + 5000, "it records again")
    play.kill()
    assert play.losses()


def joined(play):
    """Kernels as (name, the functions that launched it)."""
    calls = {}
    for row in play.rows("api_call"):
        calls.setdefault(row["correlation"], []).append(row["function"])
    return [(row["config"], calls.get(row["correlation"], [])) for row in play.rows("kernel")]


def test_ids_that_come_again_are_others(start_play, make_tape):
    """After 2^32 calls ids come again, while the first kernel with its id still runs, and again a second later: a kernel of
    cuLaunchKernelEx is not one of cuLaunchKernel."""
    play = start_play(make_tape("wrap", 100), clock=None)
    play.end()
    kernels = joined(play)
    assert len(kernels) == (4 + 3) * 100 + 2 * (2 * 100 + 1000)
    assert len({row["correlation"] for row in play.rows("kernel")}) == len(kernels)
    assert all(functions == ["cuLaunchKernelEx" if name == "_Z4lastv" else "cuLaunchKernel"] for name, functions in kernels)


def test_a_day_with_more_calls_than_ids(start_play, make_tape):
    """24 hours, played as fast as possible: each hour has 400 million ids."""
    play = start_play(make_tape("steps", 8), "--repeat", "24", "--gap", 3600 * 1000, "--ids", 400_000_000, clock=None)
    play.end()
    assert play.losses() == {}
    calls = [row["correlation"] for row in play.rows("api_call", "--where", "function=cuLaunchKernel")]
    assert len(calls) == len(set(calls)) == 24 * 8 * 12
    assert max(calls) > 2**32
    assert all(len(functions) == 1 for _, functions in joined(play))
