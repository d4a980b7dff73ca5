"""Many processes whose rules hold at the same moment: few dumps are written at the same time, and all of them are."""
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from waiting import wait_until

RANKS, SLOTS = 16, 2


def slot(number):
    """A slot, taken by the test."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    held.bind(f"\0pitot-dump-{os.geteuid()}-{number}")
    return held


@pytest.fixture
def ranks(program, player, make_tape, environment, tmp_path):
    """Sixteen players of a tape, each below its own `pitot record`, with a rule about one file. They end at the file `end`."""
    tape, processes = make_tape("quiet", 100), []
    for rank in range(RANKS):
        command = [program, "record", "--ring", "10m", "--no-rules", "--when", f"file {tmp_path}/now touched", "--post", "0s", "-q", "-o",
                   tmp_path / f"rank-{rank}.pitot", "--stacks", "none", "--no-symbols", "--on-trigger", f'echo "$PITOT_DUMP" >>{tmp_path}/told', "--",
                   player, "--now", "--realtime", "--end-when", tmp_path / "end", tape]
        processes.append(subprocess.Popen(list(map(str, command)), env={**environment, "ASAN_OPTIONS": "detect_leaks=0", "RANK": str(rank)},
                                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True))
    yield processes
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def written(dump):
    """From when to when the files of a dump were written, in ns."""
    times = [path.stat().st_mtime_ns for path in dump.rglob("*") if path.is_file()]
    return min(times), max(times)


@pytest.mark.alone
def test_a_storm_of_dumps(ranks, program, tmp_path):
    def told():
        return (tmp_path / "told").read_text().splitlines() if (tmp_path / "told").exists() else []

    def records(rank):
        done = subprocess.run([program, "dump", str(ranks[rank].pid), "-f", "-o", tmp_path / "looked.pitot"], capture_output=True, text=True)
        return done.returncode == 0 and any((tmp_path / "looked.pitot").glob("[0-9]*.pit"))

    for rank in range(RANKS):
        wait_until(lambda rank=rank: records(rank), f"rank {rank} records", ranks[rank])
    held = [slot(number) for number in range(SLOTS)]
    (tmp_path / "now").touch()
    held[0].close()
    wait_until(lambda: len(told()) >= RANKS // 2, "dumps follow one another")
    one_by_one = sorted(written(Path(name)) for name in told()[:RANKS // 2])
    assert all(later[0] >= earlier[1] for earlier, later in zip(one_by_one, one_by_one[1:])), "one slot, one dump"
    held[1].close()
    wait_until(lambda: len(told()) == RANKS, "all dumps are made")
    assert len(list(tmp_path.glob("rank-*-dump-1.pitot"))) == RANKS
    times = sorted(written(path) for path in tmp_path.glob("rank-*-dump-1.pitot"))
    for begin, _ in times:
        assert sum(first <= begin < last for first, last in times) <= SLOTS
    (tmp_path / "end").touch()
    for process in ranks:
        process.communicate(timeout=300)
        assert process.returncode == 0
