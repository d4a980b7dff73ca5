"""CUPTI ends in a process with its last recording, so that nothing of it is on the program's calls; or what stays is said."""
import re
import subprocess
import time

import pytest

from attaching import Launcher, attach, check, end, has_kernels, is_idle, recordings, used
from waiting import wait_until

OPTIONS = "start_ns=1;stacks=none;finalize=1"
LEAVES_S = 3  # at most, if nothing hangs but a call of the program
SLOWNESS = 10  # of a build with sanitizers


class Witness:
    """What the stand-in CUPTI counts in a file: see struct witness."""

    def __init__(self, folder):
        self.path = folder / "witness"
        self.path.write_bytes(bytes(4096))

    def read(self, number):
        return int.from_bytes(self.path.read_bytes()[8 * number:8 * number + 8], "little")

    @property
    def finalized(self):
        """How often CUPTI has ended. It was not called before the next subscription, ever."""
        assert self.read(3) == 0, "calls of functions of a CUPTI that had ended"
        return self.read(2)


@pytest.fixture
def witness(tmp_path):
    return Witness(tmp_path)


@pytest.fixture
def launches(prepared, witness):
    """launches(…): a process that launches kernels and waits for them until the test is over."""
    return lambda *arguments, tape="launch": prepared(tape, "--repeat", "1000000", *arguments, PITOT_STANDIN_WITNESS=str(witness.path))


def leaving(rows, folder):
    """(state, what was done, why) of leaving; None: nothing is said of it."""
    found = [(row["state"], row["actual"], row["reason"]) for row in rows(folder, "capability") if row["name"] == "leaving"]
    return found[-1] if found else None


def record(process, program, environment, pitot, folder, *options):
    """Records until there are kernels; what was said at the end."""
    client = attach(process.pid, program, environment, folder, *options)
    wait_until(lambda: has_kernels(pitot, folder), "it records", client)
    return end(client)


def test_it_ends_with_each_recording(launches, witness, program, environment, pitot, rows, tmp_path):
    """And comes back with the next one, which has everything."""
    process = launches()
    for i in range(1, 4):
        said = record(process, program, environment, pitot, tmp_path / f"{i}.pitot")
        assert "CUPTI" not in said and "warning" not in said, said
        assert leaving(rows, tmp_path / f"{i}.pitot") == ("on", "cuptiFinalize", None)
        assert witness.finalized == i
        check(rows, tmp_path / f"{i}.pitot")
        wait_until(lambda: is_idle(process.pid), "the recorder's threads end", process)


def test_it_stays_if_that_is_wanted(launches, witness, program, environment, pitot, rows, tmp_path):
    process = launches()
    for options in (["--no-finalize"], []):
        record(process, program, environment, pitot, tmp_path / f"{len(options)}.pitot", *options)
    assert leaving(rows, tmp_path / "1.pitot") is None
    assert leaving(rows, tmp_path / "0.pitot")[0] == "on" and witness.finalized == 1


@pytest.mark.parametrize("every, ends", [("11s", True), ("4s", False)])
def test_windows_end_it_if_the_gap_is_long(launches, program, environment, pitot, rows, tmp_path, every, ends):
    """Ten seconds at least; else CUPTI stays, and nothing is said of it."""
    process = launches()
    client = subprocess.Popen([program, "record", "-p", str(process.pid), "--gpu-only", "--stacks", "none", "--every", every, "--for", "500ms"],
                              cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env={**environment, "ASAN_OPTIONS": "detect_leaks=0"})
    [folder] = wait_until(lambda: [path for path in tmp_path.glob("*.pitot") if (path / "recording.json").exists()], "a window", client)
    wait_until(lambda: has_kernels(pitot, folder) and is_idle(process.pid), "the window has closed", client)
    end(client)
    assert (leaving(rows, folder) is not None) == ends


def test_two_recordings_of_which_one_ends(launches, witness, program, environment, pitot, rows, tmp_path):
    process = launches()
    clients = [attach(process.pid, program, environment, tmp_path / f"{i}.pitot") for i in range(2)]
    for i, client in enumerate(clients):
        wait_until(lambda i=i: has_kernels(pitot, tmp_path / f"{i}.pitot"), "each of them records", client)
    assert "another recording of the process goes on" in end(clients[0])
    assert witness.finalized == 0
    end(clients[1])
    assert witness.finalized == 1
    for i in range(2):
        check(rows, tmp_path / f"{i}.pitot")
    assert leaving(rows, tmp_path / "0.pitot") is None and leaving(rows, tmp_path / "1.pitot")[0] == "on"


def test_a_program_that_makes_no_calls(prepared, blocked, witness, program, environment, pitot, rows, tmp_path):
    """The recorder makes a call itself, and ends CUPTI where that ends."""
    (tmp_path / "faults").write_text("finalize-at-exit\n")
    (tmp_path / "block").touch()
    process, block, is_blocked = blocked("launch", "Launch", "--repeat", "3", "--end-when", tmp_path / "end", "--faults", tmp_path / "faults",
                                         PITOT_STANDIN_WITNESS=str(witness.path))
    wait_until(is_blocked.exists, "it is blocked", process)
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: recordings(pitot, process.pid) == 1, "it records", client)
    block.unlink()
    wait_until(lambda: witness.read(0) >= 3 * 7000 - 1 and not is_blocked.exists(), "all is launched", client)
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot") == witness.read(1), "all is recorded", client)
    said = end(client)
    assert "CUPTI" not in said and leaving(rows, tmp_path / "a.pitot") == ("on", "cuptiFinalize", None), said
    assert witness.finalized == 1


def test_a_program_that_did_nothing(blocked, witness, program, environment, pitot, rows, tmp_path):
    """Nothing shows that its GPU does not hang, so nothing waits for it."""
    (tmp_path / "block").touch()
    process, _, is_blocked = blocked("launch", "Launch", PITOT_STANDIN_WITNESS=str(witness.path))
    wait_until(is_blocked.exists, "it is blocked", process)
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: recordings(pitot, process.pid) == 1, "it records", client)
    said = " ".join(end(client).split())
    assert f"process {process.pid}: CUPTI stays in it, and its calls of CUDA take longer: it is not known whether the GPU has ended" in said
    assert leaving(rows, tmp_path / "a.pitot")[:2] == ("degraded", "cuptiUnsubscribe") and witness.finalized == 0


def test_a_thread_that_waits_for_ever(blocked, witness, program, environment, pitot, rows, tmp_path):
    """cuptiFinalize would wait for the GPU, too."""
    process, block, is_blocked = blocked("launch", "Synchronize", "--repeat", "1000000", PITOT_STANDIN_WITNESS=str(witness.path))
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot"), "it records", client)
    block.touch()
    wait_until(is_blocked.exists, "it is blocked", process)
    begun = time.monotonic()
    said = " ".join(end(client).split())
    assert time.monotonic() - begun < LEAVES_S * SLOWNESS and "warning" not in said
    assert "CUPTI stays in it, and its calls of CUDA take longer: a thread waits for the GPU" in said, said
    assert leaving(rows, tmp_path / "a.pitot")[:2] == ("degraded", "cuptiUnsubscribe") and witness.finalized == 0
    wait_until(lambda: is_idle(process.pid), "the recorder's threads end", process)
    block.unlink()
    assert "CUPTI" not in record(process, program, environment, pitot, tmp_path / "b.pitot")
    assert witness.finalized == 1


def test_it_does_not_return(launches, witness, program, environment, pitot, tmp_path):
    """What is said, and in time; the recorder leaves when it has."""
    (tmp_path / "faults").write_text(f"hang cuptiFinalize when {tmp_path}/hang\n")
    process = launches("--faults", tmp_path / "faults")
    client = attach(process.pid, program, environment, tmp_path / "a.pitot")
    wait_until(lambda: has_kernels(pitot, tmp_path / "a.pitot"), "it records", client)
    (tmp_path / "hang").touch()
    said = " ".join(end(client).split())
    assert re.search(rf"warning: process {process.pid}: (cuptiFinalize has not returned for [\d.]+ s: the recorder leaves when it has|does not answer)", said), said
    assert process.poll() is None


@pytest.mark.parametrize("fault, why", [
    ("call cuptiFinalize returns 999", "CUPTI_ERROR_UNKNOWN"), ("missing cuptiFinalize", "this CUPTI has no cuptiFinalize"),
    ("version 23", "cuptiFinalize of CUDA before 12.6 can crash")])
def test_it_cannot_end(launches, witness, program, environment, pitot, rows, tmp_path, fault, why):
    """It is left as before, also for the next recording."""
    (tmp_path / "faults").write_text(f"{fault}\n")
    process = launches("--faults", tmp_path / "faults")
    for name in "ab":
        said = " ".join(record(process, program, environment, pitot, tmp_path / f"{name}.pitot").split())
        assert f"CUPTI stays in it, and its calls of CUDA take longer: {why}" in said, said
        assert leaving(rows, tmp_path / f"{name}.pitot")[:2] == ("degraded", "cuptiUnsubscribe")
    assert witness.finalized == 0


PROFILER = r"""
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

int cuptiSubscribe(void **subscriber, void (*callback)(void *, int, unsigned, const void *), void *user);
int cuptiUnsubscribe(void *subscriber);
int cuptiEnableCallback(unsigned on, void *subscriber, int domain, unsigned id);

static void *subscriber;

static void on_callback(void *user, int domain, unsigned id, const void *info)
{
	(void)user, (void)domain, (void)id, (void)info;
}

/* Subscribed to launches while the file PROFILES exists. */
void client_step(size_t index, size_t count, const char *function, unsigned site)
{
	int wanted = access(getenv("PROFILES"), F_OK) == 0;

	(void)index, (void)count, (void)function, (void)site;
	if (wanted && !subscriber && cuptiSubscribe(&subscriber, on_callback, NULL) == 0)
		cuptiEnableCallback(1, subscriber, 1, 307);
	if (!wanted && subscriber) {
		cuptiUnsubscribe(subscriber);
		subscriber = NULL;
	}
}
void client_end(void)
{
}
int client_every_round;
"""


@pytest.fixture
def profiler(build, tmp_path):
    """A client of CUPTI for programs that play a tape."""
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", build / "standin/libcupti.so.13", "-o", tmp_path / "profiler.so"], input=PROFILER,
                   text=True, check=True)
    return tmp_path / "profiler.so"


def test_a_program_with_a_profiler_of_its_own(launches, witness, profiler, program, environment, pitot, rows, tmp_path):
    """CUPTI stays while it uses that, also if it begins after the recording did, and ends with a recording after that."""
    profiles, folder = tmp_path / "profiles", tmp_path / "a.pitot"
    environment.update(PROFILES=str(profiles))
    process = launches("--client", profiler)
    client = attach(process.pid, program, environment, folder, "--own-profiler", "share")
    wait_until(lambda: has_kernels(pitot, folder), "it records", client)
    profiles.touch()
    wait_until(lambda: [row for row in rows(folder, "capability") if row["name"] == "own_profiler" and row["state"] == "on"], "it profiles", client)
    end(client)
    assert leaving(rows, folder) == (
        "degraded", "cuptiUnsubscribe", "CUPTI stays in the process, and calls of CUDA take longer: the program's own profiler uses it")
    assert witness.finalized == 0 and process.poll() is None
    profiles.unlink()
    record(process, program, environment, pitot, tmp_path / "b.pitot")
    assert leaving(rows, tmp_path / "b.pitot")[0] == "on" and witness.finalized == 1


def test_a_profiler_that_comes_and_goes(launches, witness, profiler, environment, tmp_path):
    """At any moment of leaving: it gets CUPTI, or CUPTI ends before that, and begins anew for it."""
    profiles = tmp_path / "profiles"
    environment.update(PROFILES=str(profiles))
    process = launches("--client", profiler)
    for i in range(30):
        launcher = Launcher(process.pid, tmp_path)
        assert launcher.ask(options=OPTIONS + ";own_profiler=share") == (0, 1, "")
        (profiles.touch if i % 2 else lambda: profiles.unlink(missing_ok=True))()
        answer = launcher.leave()
        assert answer[0] == 0 and (not answer[2] or "profiler" in answer[2]), answer
    assert 0 < witness.finalized < 30 and process.poll() is None


def test_who_else_uses_it_is_not_known(launches, witness, program, environment, pitot, rows, tmp_path):
    process = launches()
    record(process, program, environment, pitot, tmp_path / "a.pitot", "--own-profiler", "keep")
    assert "with --own-profiler keep" in leaving(rows, tmp_path / "a.pitot")[2] and witness.finalized == 0


def test_an_engine_has_used_it(launches, witness, program, environment, pitot, rows, tmp_path):
    process = launches()
    record(process, program, environment, pitot, tmp_path / "a.pitot", "--engine", "pm-sampling")
    assert "--engine pm-sampling has used its profilers" in leaving(rows, tmp_path / "a.pitot")[2] and witness.finalized == 0


def test_forks_meanwhile(launches, witness, program, environment, pitot, tmp_path):
    """A child has nothing to wait for: each must end by itself, or the play ends with status 3."""
    process = launches("--fork-every", "997")
    for i in range(1, 6):
        said = record(process, program, environment, pitot, tmp_path / f"{i}.pitot")
        assert witness.finalized == i and process.poll() is None, said


def test_many_times(launches, witness, tmp_path):
    """Nothing leaks: no threads, descriptors, mappings, and no memory."""
    process, seen = launches(), []
    for i in range(1, 101):
        launcher = Launcher(process.pid, tmp_path)
        assert launcher.ask(options=OPTIONS) == (0, 1, "")
        answer = launcher.leave()
        assert answer[0] == 0, answer
        if i % 25 == 0:
            wait_until(lambda: not seen or used(process.pid)["threads"] <= seen[0]["threads"], "the recorder's threads end", process)
            seen.append(used(process.pid))
    assert witness.finalized > 50
    assert seen[-1]["descriptors"] <= seen[0]["descriptors"], seen
    assert seen[-1]["mappings"] < seen[0]["mappings"] + 40 and seen[-1]["KiB"] < seen[0]["KiB"] + (16 << 10), seen
