"""Running programs of a CPython that has an interface for remote debugging (from 3.14 on): it loads the recorder itself."""
import os
import re
import subprocess
from pathlib import Path

import pytest

import pythons
from waiting import PATIENCE, wait_until

PYTHONS = [facts for facts in pythons.interpreters() if pythons.is_known(facts) and facts["version"] >= [3, 14]]
NOBODY = 65534
PLACES = [Path(place) for place in ("/tmp", "/dev/shm", "/var/tmp")]

# Uses CUDA, as far as anybody can see, and ends with status 3 once there is a file "end".
PROGRAM = """
import ctypes, os, sys, threading
ctypes.CDLL(sys.argv[2])
def compute():
    n = 0
    while not os.path.exists("end"):
        n += 1
def wait():
    done = threading.Event()
    threading.Thread(target=lambda: (compute(), done.set())).start()
    threading.Thread(target=done.wait).start()
    done.wait()
def nobody():
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    compute()
def idle():
    os.mkfifo("fifo")
    with open("fifo"):
        compute()
def refused():
    sys.modules["ctypes"] = None
    compute()
open("ready", "w").close()
globals()[sys.argv[1]]()
os._exit(3)
"""


@pytest.fixture(params=PYTHONS, ids=pythons.label)
def interpreter(request):
    return request.param


@pytest.fixture
def program_of(interpreter, build, sanitizer, environment, tmp_path):
    """program_of("compute"): a program of that interpreter that nobody has prepared."""
    processes = []

    def start(what, *options, wrap=(), **variables):
        command = [*wrap, interpreter["path"], *options, "-c", PROGRAM, what, build / "standin/libcuda.so.1"]
        process = subprocess.Popen(list(map(str, command)), cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**environment, **interpreter["environment"], "LD_PRELOAD": sanitizer.rstrip(":"), "ASAN_OPTIONS": "detect_leaks=0", **variables})
        processes.append(process)
        wait_until((tmp_path / "ready").exists, "it runs", process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def end(process, tmp_path):
    """It ends as it would have, and has printed nothing of ours."""
    (tmp_path / "end").touch()
    said = process.communicate(timeout=PATIENCE)[0]
    assert (process.returncode, said) == (3, b"")


def leftovers(process):
    return [path for place in PLACES for path in place.glob(f".pitot-{process.pid}-*")]


def inject(pitot, process, status=0):
    return " ".join(pitot("record", "-p", process.pid, "--inject", "--gpu-only", "--stacks", "none", "--no-symbols", "--duration", "300ms", status=status).stderr.split())


@pytest.mark.parametrize("what", ["compute", "wait"])
def test_the_interpreter_loads_the_recorder(what, interpreter, program_of, pitot, tmp_path):
    """In the main thread, or if that and the newest one wait, in a third one; no thread is stopped, and no file is left."""
    minor, process = interpreter["version"][1], program_of(what)
    said = " ".join(pitot("doctor", "-p", process.pid).stdout.split())
    assert f"process {process.pid} was not prepared; its CPython 3.{minor} can load the recorder, when one of its threads executes Python code" in said
    said = inject(pitot, process)
    through = re.search(rf"process {process.pid} was not prepared: its CPython 3\.{minor} has loaded the recorder, in thread (\d+) '", said)
    assert through and (int(through[1]) == process.pid) == (what == "compute"), said
    assert f"process {process.pid} was recorded" in said
    assert "which was prepared" in inject(pitot, process) and f"process {process.pid} is prepared" in " ".join(pitot("doctor", "-p", process.pid).stdout.split())
    assert not leftovers(process)
    end(process, tmp_path)


@pytest.mark.parametrize("options, variables", [([], {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}), (["-X", "disable-remote-debug"], {})])
def test_switched_off(options, variables, interpreter, program_of, pitot, tmp_path):
    """Then it is a program like others: a thread that sleeps would be used."""
    process = program_of("compute", *options, **variables)
    said = " ".join(pitot("doctor", "-p", process.pid, status=1).stdout.split())
    assert f"its CPython 3.{interpreter['version'][1]} has remote debugging switched off (PYTHON_DISABLE_REMOTE_DEBUG)" in said
    assert "has no thread in whose place a library can be loaded" in said
    end(process, tmp_path)


def test_nobody_executes_python_code(program_of, pitot, tmp_path):
    """The request is taken back: what the program does later is not disturbed."""
    process = program_of("idle")
    wait_until((tmp_path / "fifo").exists, "it waits", process)
    said = inject(pitot, process, status=1)
    assert "has no thread that executes Python code at the moment" in said and "in a call that would be disturbed" in said, said
    assert not leftovers(process)
    (tmp_path / "end").touch()
    (tmp_path / "fifo").write_text("")
    end(process, tmp_path)


def test_another_user_s(program_of, pitot, build, tmp_path):
    """The script is the program's user's, who reads it and writes beside it."""
    if os.geteuid() != 0 or subprocess.run(["test", "-r", build / "libpitot.so"], user=NOBODY).returncode != 0:
        pytest.skip("needs root, and a library that everybody may read")
    tmp_path.chmod(0o755)
    process = program_of("nobody")
    wait_until(lambda: os.stat(f"/proc/{process.pid}").st_uid == NOBODY, "it is nobody's", process)
    assert "has loaded the recorder" in inject(pitot, process) and not leftovers(process)
    end(process, tmp_path)


def test_without_ctypes(program_of, pitot, tmp_path):
    process = program_of("refused")
    said = inject(pitot, process, status=1)
    assert "ctypes" in said and "Error(" in said and f"process {process.pid} has no thread in whose place" in said, said
    end(process, tmp_path)


def test_a_folder_of_its_own(program_of, pitot, tmp_path, build):
    """As in a container: the script is where the program sees it."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"]).returncode != 0:
        pytest.skip("needs root and mount namespaces")
    if str(build).startswith("/tmp/"):
        pytest.skip("the library is in the folder that is hidden")
    process = program_of("compute", wrap=["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /tmp; exec "$@"', "sh"])
    assert "has loaded the recorder" in inject(pitot, process)
    assert not list(Path(f"/proc/{process.pid}/root/tmp").iterdir())
    end(process, tmp_path)


def test_two_at_once(program_of, program, environment, tmp_path):
    """One of them is enough for both, or is refused; the program goes on."""
    process = program_of("compute")
    command = [program, "record", "-p", process.pid, "--inject", "--gpu-only", "--stacks", "none", "--no-symbols", "--duration", "300ms"]
    clients = [subprocess.Popen([*map(str, command), "-o", str(tmp_path / f"{i}.pitot")], env={**environment, "ASAN_OPTIONS": "detect_leaks=0"},
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for i in range(3)]
    said = [client.communicate(timeout=PATIENCE)[1] for client in clients]
    assert any("was recorded" in each for each in said), said
    end(process, tmp_path)
