"""A process that ends without order: what it has done, and what CUPTI has written, is in the recording, and once."""
import json
import os
import random
import re
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from waiting import wait_until

TAPE = "tests/data/tapes/train.tape"
SWEEP = int(os.environ.get("PITOT_SWEEP", "40"))
# What ends the player, and the status that `pitot record` passes on.
ENDINGS = {"return": 0, "_exit": 0, "exec": 0, "execl": 0, "kill": 128 + signal.SIGKILL, "abort": 128 + signal.SIGABRT,
           "segv": 128 + signal.SIGSEGV}
ORDERLY = ("return", "_exit")


class Witness:
    """Counts that the stand-in writes into a file as they change: nothing is lost with the process."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(16))

    def counts(self):
        return struct.unpack("QQ", self.path.read_bytes())


@pytest.fixture
def end(player, pitot, source, tmp_path):
    """end("kill", at=400): plays a tape below `pitot record` in its second round, until its 400th record; the recording and the witness."""

    def play(how, *arguments, at, tape=TAPE, options=(), wrap=()):
        folder, witness = tmp_path / f"{how}-{at}.pitot", Witness(tmp_path / "witness")
        # Sanitizers leave signals alone, and do not search a process that is about to be killed.
        result = pitot("record", "-o", folder, "--no-cpu", "--stacks", "none", "--no-symbols", *options, "--", *wrap, player, "--now",
                       "--repeat", "2", "--exit", how, "--exit-at", at, *arguments, source / tape, status=None,
                       env={"PITOT_STANDIN_WITNESS": str(witness.path),
                            "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:handle_abort=0:handle_sigill=2"})
        return folder, witness, result

    return play


def check(rows, folder, witness, threads=1):
    """A thread may have been killed between a call of the recorder and the witness's note of it."""
    launches, kernels = witness.counts()
    calls = [(row["thread"], row["correlation"]) for row in rows(folder, "api_call") if row["function"] == "cuLaunchKernel"]
    work = [(row["correlation"], row["start_ns"]) for row in rows(folder, "kernel")]
    assert len(set(calls)) == len(calls) and len(set(work)) == len(work), "rows are there twice"
    assert launches <= len(calls) <= launches + threads, (launches, len(calls))
    assert kernels <= len(work) <= kernels + 2 * threads, (kernels, len(work))


def last_moments(rows, folder):
    return [row for row in rows(folder, "capability") if row["name"] == "last_moments"]


@pytest.mark.parametrize("how", ENDINGS)
def test_ends(end, rows, how):
    folder, witness, result = end(how, at=8000)
    assert result.returncode == ENDINGS[how], result.stderr
    check(rows, folder, witness)
    assert witness.counts()[0] > 1000
    assert len(last_moments(rows, folder)) == (how not in ORDERLY)
    assert [row for row in rows(folder, "loss") if row["reason"] == "truncated_file"] == []


def test_kills_at_any_moment(end, rows):
    """More by hand: PITOT_SWEEP=1000."""
    places = random.Random(1)
    for _ in range(SWEEP):
        check(rows, *end("kill", at=places.randrange(1, 9500))[:2])


def test_names_of_launches(end, rows):
    """Each of the last launches of both threads has its kernel's name, whether CUPTI has a record of it or not."""
    folder, _, _ = end("kill", at=8000)
    names = {row["correlation"]: row["name"] for row in rows(folder, "unfinished") if row["kind"] == "launch"}
    calls = {row["correlation"] for row in rows(folder, "api_call") if row["function"] == "cuLaunchKernel"}
    assert 1024 < len(names) < 2048 and set(names) >= set(sorted(calls)[-1000:])
    launches = calls & set(names)
    kernels = {row["correlation"]: row["config"] for row in rows(folder, "kernel") if row["correlation"] in launches}
    assert len(kernels) > 500 and kernels == {call: names[call] for call in kernels}
    assert all(names[call] for call in launches) and "?" not in kernels.values()


def test_a_record_of_unknown_size(end, rows, tmp_path):
    """What is behind it in its buffer is unknown, but not of which launches it can be; and the loss says what kind it was and where it lay."""
    (tmp_path / "faults").write_text("bad-kind every 5\n")
    folder, _, _ = end("kill", "--faults", tmp_path / "faults", at=8000)
    details = [row["detail"] for row in rows(folder, "loss") if row["reason"] == "unread_records"]
    [found] = [re.search(r"kind (\d+) of unknown size at (\d+), behind (\d+) records? of a buffer that CUPTI (was filling|had completed)", text)
               for text in details]
    assert int(found[1]) > 64 and (int(found[2]) > 0) == (int(found[3]) > 0)
    unfinished = rows(folder, "unfinished")
    unread, read = ({row["correlation"] for row in unfinished if row["kind"] == kind} for kind in ("unread_launch", "launch"))
    assert unread and read and not unread & read


def test_threads_that_are_killed(end, rows):
    for at in 3000, 6000, 9000:
        check(rows, *end("kill", "--parallel", "--rate", "0", at=at)[:2], threads=8)


def test_a_process_that_forks(end, rows):
    """A child has memory of its own: nothing of what it does gets into its parent's."""
    for at in 4000, 8000:
        check(rows, *end("kill", "--fork-every", "200", at=at)[:2])


def test_without_room_for_the_memory(end, rows):
    """RLIMIT_FSIZE holds for memory, too, and would end the process by SIGXFSZ: it stays private then."""
    folder, _, result = end("kill", at=8000, wrap=["prlimit", "--fsize=100000000", "--"])
    assert result.returncode == 128 + signal.SIGKILL
    assert last_moments(rows, folder) == [] and rows(folder, "kernel")


@pytest.fixture
def last_wait(build, source):
    """Numbers of the tape's records: inside the last call that waits for the whole GPU, and after it."""
    dump = subprocess.run([build / "standin/tape-dump", source / TAPE], stdout=subprocess.PIPE, text=True, check=True).stdout
    records = [line.split() for line in dump.splitlines() if " CALLBACK runtime " in line and " cudaDeviceSynchronize " in line]
    begin, end = (max(int(words[0]) for words in records if site in words) for site in ("enter", "exit"))
    assert begin < end
    return {"inside": begin + 2, "after": end + 1}


@pytest.mark.parametrize("where", ["inside", "after"])
def test_last_words(end, pitot, rows, last_wait, where):
    """While the program waits its work has no end; once it has waited, CUPTI just has not delivered it."""
    folder, _, result = end("kill", at=last_wait[where])
    assert result.returncode == 128 + signal.SIGKILL
    words = json.loads(pitot("report", folder, "--json").stdout)["last_words"]
    [process] = words["processes"]
    assert "was killed by SIGKILL" in words["text"] and process["undelivered"] > 0
    if where == "after":
        assert words["work"] == [] and words["waits"] == []
        assert "all GPU work that it had launched had ended" in words["text"]
        return
    [wait] = words["waits"]
    assert wait["function"] == "cudaDeviceSynchronize"
    streams = {row["stream"]: row for row in words["work"]}
    assert 7 in streams and streams[7]["kind"] == "kernel" and streams[7]["behind"] > 0
    unfinished = [row for row in rows(folder, "unfinished") if row["kind"] not in ("call", "launch")]
    assert len(unfinished) == process["undelivered"] + sum(1 + row["behind"] for row in words["work"])


def test_what_a_thread_waits_for(program, player, build, pitot, source, environment, tmp_path):
    """A process that has stopped inside the call: pitot dump --stacks and pitot top say in which, and since when."""
    tape = source / "tests/data/tapes/sync.tape"
    dump = subprocess.run([build / "standin/tape-dump", tape], stdout=subprocess.PIPE, text=True, check=True).stdout
    inside = 2 + max(int(line.split()[0]) for line in dump.splitlines() if " CALLBACK runtime " in line and " enter cudaDeviceSynchronize " in line)
    command = [program, "record", "-q", "-o", tmp_path / "r.pitot", "--no-cpu", "--no-symbols", "--", player, "--realtime", "--repeat", "2", "--exit", "stop",
               "--exit-at", inside, tape]
    recorder = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, env={**environment, "ASAN_OPTIONS": "detect_leaks=0"})
    child = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
    try:
        pid = wait_until(lambda: child.read_text().split(), "it has started", recorder)[0]
        wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "it has stopped", recorder)

        def wait_of(*words):
            [process] = json.loads(pitot("dump", "--stacks", "--json", *words).stdout)
            found = [thread["gpu_wait"] for thread in process["threads"] if thread["gpu_wait"]]
            return found and found[0]["for_ns"] >= 10**9 and found[0]

        wait = wait_until(lambda: wait_of(pid), "the call is a second old", recorder)
        assert wait["function"] == "cudaDeviceSynchronize" and wait["line"]
        assert wait_of("--descendants", pid)["thread"] == wait["thread"]
        text = pitot("dump", "--stacks", pid).stdout
        assert "    waits for the GPU in cudaDeviceSynchronize, since " in text and f", called at {wait['line']}" in text
        [one] = json.loads(pitot("top", "--once", "--interval", "100ms", "--json", "-q", "-p", pid).stdout)["programs"]
        [shown] = one["work"]["waits"]
        assert (shown["function"], shown["line"]) == (wait["function"], wait["line"]) and shown["for_ns"] > wait["for_ns"]
    finally:
        os.kill(int(pid), signal.SIGKILL)
        recorder.wait()
