"""pitot agent on a machine whose clock is set, and which several users have."""
import os
import shutil
import signal
import subprocess
import tempfile
import textwrap
from pathlib import Path

import pytest

from shipped_rows import ask, recorded, shipped
from waiting import wait_until

NOBODY = 65534
STEPPED = textwrap.dedent("""
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdlib.h>
    #include <sys/stat.h>
    #include <time.h>
    /* The wall clock is off by the size of a file, in hours, less a week. */
    int clock_gettime(clockid_t clock, struct timespec *t)
    {
        static int (*next)(clockid_t, struct timespec *);
        struct stat st;
        if (!next)
            *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
        int rc = next(clock, t);
        if (clock == CLOCK_REALTIME && stat(getenv("TEST_CLOCK"), &st) == 0)
            t->tv_sec += (st.st_size - 168) * 3600;
        return rc;
    }
    time_t time(time_t *out)
    {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        if (out)
            *out = t.tv_sec;
        return t.tv_sec;
    }
""")


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def test_the_clock_is_set(started, program, played, rows, lake, tmp_path):
    """Two days forward, then four back: the agent goes on at its pace, and rows have the times of the recording."""
    (tmp_path / "clock.c").write_text(STEPPED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c", "-ldl"], check=True)
    clock = tmp_path / "clock"
    process, folder = played("train", 1000)
    one = started(program, "agent", "-q", "--listen", "off", "--interval", "1s", "--ship", "1s", "-p", process.pid, "--lake", lake, "--spool",
                  tmp_path / "spool", stderr=subprocess.PIPE, text=True,
                  env={"LD_PRELOAD": str(tmp_path / "clock.so"), "TEST_CLOCK": str(clock), "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})
    for hours in 0, 48, -48, 0:
        clock.write_bytes(bytes(168 + hours))
        before = len(list(lake.rglob("*.parquet")))
        wait_until(lambda: len(list(lake.rglob("*.parquet"))) > before + 2, f"it ships after a step to {hours} hours", one)
    os.kill(process.pid, signal.SIGINT)
    process.wait()
    wait_until(lambda: shipped(lake) == recorded(rows, folder), "it has shipped all", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    [[seconds]] = ask(lake, "SELECT date_diff('second', min(start_ns), max(start_ns)) FROM {step}")
    assert seconds < 24 * 3600, "the clock of the recorder was not set"


@pytest.fixture
def everybodys():
    """A folder that all users reach."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    with tempfile.TemporaryDirectory(prefix="pitot-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_two_users(program, environment, make_recording, rows, everybodys):
    """An agent ships what its user may read; both ship into one lake; root's has the recordings of all."""
    runs, lake = everybodys / "runs", everybodys / "lake"
    for folder, mode in (runs, 0o755), (lake, 0o1777), (everybodys / "nobody", 0o700):
        folder.mkdir()
        folder.chmod(mode)
    os.chown(everybodys / "nobody", NOBODY, NOBODY)
    mine, theirs = make_recording(runs / "mine.pitot", kernels=300, seed=1), make_recording(runs / "theirs.pitot", kernels=500, seed=2)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", theirs], check=True)
    mine.chmod(0o700)

    def ship(spool, *before):
        return subprocess.run([*before, program, "agent", "--once", "--no-live", "--recordings", runs, "--lake", lake, "--spool", spool], text=True,
                              capture_output=True, env={**environment, "HOME": str(everybodys / "nobody")}, cwd="/", check=False)

    as_nobody = "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"
    done = ship(everybodys / "nobody/spool", *as_nobody)
    assert done.returncode == 0 and shipped(lake) == recorded(rows, theirs), done.stderr
    done = ship(everybodys / "spool")
    assert done.returncode == 0, done.stderr
    want = [recorded(rows, folder) for folder in (mine, theirs, theirs)]
    assert shipped(lake) == {kind: tuple(map(sum, zip(*(found[kind] for found in want if kind in found)))) for kind in {kind for found in want for kind in found}}
    assert {path.stat().st_uid for path in lake.rglob("*.parquet")} == {0, NOBODY}
    assert ship(everybodys / "spool", *as_nobody).returncode == 1
    assert (everybodys / "spool").stat().st_mode & 0o777 == 0o700
