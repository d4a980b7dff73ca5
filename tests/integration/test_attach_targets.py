"""Attaching to processes that are unusual or hostile: each is recorded, or refused with the reason, and goes on as if nothing had been."""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import textwrap
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_until

NOBODY = 65534
INTO = re.compile(r"process (\d+) was not prepared: the recorder was loaded through thread \d+ '[\w.-]+', which slept in \w+")

# Sleeps in a call for ever, or again and again, after it has loaded the libraries that are named. SIGTERM ends it with status 0, a call that
# returns what it would not have returned by itself with status 3.
TARGET = r"""
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void end(int number)
{
	(void)number;
	_exit(0);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wrong(const char *what, long result)
{
	fprintf(stderr, "%s: %ld\n", what, result);
	return 3;
}

int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW))
			return wrong(dlerror(), 0);
	signal(SIGTERM, end);
	if (strcmp(argv[1], "undumpable") == 0)
		prctl(PR_SET_DUMPABLE, 0);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		const struct timespec moment = { 0, 300000000 };
		struct timespec until;
		long begun = now_ms(), result;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec++;
		if (strcmp(argv[1], "poll-300ms") == 0)
			result = poll(NULL, 0, 300);
		else if (strcmp(argv[1], "ppoll") == 0)
			result = ppoll(NULL, 0, &moment, NULL);
		else if (strcmp(argv[1], "nanosleep") == 0)
			result = nanosleep(&moment, NULL);
		else if (strcmp(argv[1], "clock_nanosleep") == 0)
			result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		else
			result = poll(NULL, 0, -1);
		if (result != 0 || now_ms() - begun < 299)
			return wrong(argv[1], result);
	}
}
"""


def compile_c(text, path, *options):
    subprocess.run(["cc", "-w", "-D_GNU_SOURCE", "-x", "c", "-", "-o", path, *options], input=text, text=True, check=True)
    return path


@pytest.fixture(scope="module")
def programs():
    """A folder for all users, with the program `target` and a library of that name which is all that it knows of CUDA."""
    with tempfile.TemporaryDirectory(prefix="pitot-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        compile_c(TARGET, folder / "target")
        compile_c("int nothing;", folder / "libcuda.so.1", "-shared", "-fPIC")
        yield folder


@pytest.fixture(scope="module")
def anybodys(program, build, programs):
    """The program and its recorder where all users may read them; this one is not loaded into anything."""
    for file in (program, build / "libpitot.so"):
        shutil.copy(file, programs)
    return programs


class Target:
    """A process: `pid` is that of the program's own, which a wrapping command may have started."""

    def __init__(self, command, wrapped=False, **options):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid
        if wrapped:
            self.pid = int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text())

    def end(self):
        """It goes on, and its status is its own."""
        assert self.process.poll() is None, f"the target has ended with {self.process.returncode}"
        os.kill(self.pid, signal.SIGTERM)
        assert self.process.wait(timeout=PATIENCE) == 0


@pytest.fixture
def target(programs):
    """target("poll"): a process that sleeps in a call; at the end of the test it must go on, and end by SIGTERM."""
    started = []

    def start(sleep="poll", program=programs / "target", cuda=programs / "libcuda.so.1", wrap=(), wrapped=False, **options):
        command = [*wrap, program, sleep, *([cuda] if cuda else [])]
        started.append(Target(command, wrapped=wrapped, **options))
        return started[-1]

    yield start
    try:
        for each in started:
            each.end()
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()


def run_as(user):
    return {"user": user, "group": user, "extra_groups": []} if user else {}


@pytest.fixture
def inject(pitot, library, tmp_path):
    """inject(pid): what `pitot record --inject` says, in one line."""

    def run(pid, status=0, **options):
        variables = {"PITOT_LIBRARY": str(library), **options.pop("env", {})}
        done = pitot("record", "-p", pid, "--inject", "--gpu-only", "--stacks", "none", "--duration", "200ms", "-f", "-o", tmp_path / "a.pitot",
                     status=status, env=variables, **options)
        return " ".join(done.stderr.split())

    return run


@pytest.fixture
def refused(pitot, inject, tmp_path):
    """refused(pid, why): `record`, with and without --inject, and `doctor` refuse it for that reason."""

    def check(pid, why, **options):
        said = [inject(pid, status=1, **options)]
        for words in ("record", "-p", pid, "--gpu"), ("doctor", "-p", pid):
            done = pitot(*words, status=1, **options)
            said.append(" ".join((done.stdout + done.stderr).split()))
        for each in said:
            assert re.search(why, each), each
        assert not list(tmp_path.glob("*.pitot"))

    return check


needs_calls = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only")


def need_root(*command):
    if os.geteuid() != 0 or subprocess.run(command or ["true"], stdin=subprocess.DEVNULL, capture_output=True).returncode != 0:
        pytest.skip(f"needs root{' and ' + ' '.join(command) if command else ''}")


# --- those into which the recorder is loaded ---


@needs_calls
@pytest.mark.parametrize("sleep", ["poll", "poll-300ms", "ppoll", "nanosleep", "clock_nanosleep"])
def test_calls_are_continued(target, inject, pitot, sleep):
    """The library itself, not one that is made for tests: Linux remembers one call of a thread, and the library must not take its place."""
    one = target(sleep)
    assert INTO.search(inject(one.pid))
    assert "is prepared" in pitot("doctor", "-p", one.pid).stdout
    assert "which was prepared" in inject(one.pid)


@needs_calls
@pytest.mark.parametrize("wrap", [("unshare", "-m"), ("unshare", "-n"), ("unshare", "-U", "-r"), ("unshare", "-i", "-u", "-C")], ids=" ".join)
def test_another_namespace(target, inject, wrap):
    need_root(*wrap, "true")
    assert INTO.search(inject(target(wrap=wrap).pid))


@needs_calls
def test_another_pid_namespace(target, inject):
    need_root("unshare", "-p", "-f", "--mount-proc", "true")
    # init of a pid namespace has no default action of SIGTERM, but it handles the signal
    one = target(wrap=("unshare", "-p", "-f", "--mount-proc"), wrapped=True)
    assert INTO.search(inject(one.pid)).group(1) == str(one.pid)


@needs_calls
def test_another_root(target, programs, library, inject, refused, tmp_path):
    """As in a container that has no Pitot, then another one, then the same one; all in files of its own."""
    need_root("chroot", "/", "true")
    root = tmp_path / "root"
    lines = subprocess.run(["ldd", programs / "target"], capture_output=True, text=True, check=True).stdout
    for file in (programs / "target", programs / "libcuda.so.1", *re.findall(r"(/\S+) \(", lines)):
        copy = root / Path(file).relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    one = target(wrap=("chroot", root))
    missing = f"does not see '{library}': No such file or directory: copy Pitot to the same place in its container"
    assert missing in inject(one.pid, status=1)
    copy = root / library.relative_to("/")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(library.read_bytes()[:-1])
    assert f"has another file at '{library}'" in inject(one.pid, status=1)
    copy.unlink()
    os.mkfifo(copy)
    assert f"does not see '{library}'" in inject(one.pid, status=1)
    copy.unlink()
    shutil.copy(library, copy)
    assert INTO.search(inject(one.pid))


@needs_calls
def test_several_at_once(target, program, library, environment, tmp_path):
    """One of them loads the library. The others find it, or are told to wait."""
    one = target()
    command = [program, "record", "-p", str(one.pid), "--inject", "--gpu-only", "--stacks", "none", "--duration", "500ms"]
    clients = [subprocess.Popen([*command, "-o", tmp_path / f"{i}.pitot"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env={**environment, "PITOT_LIBRARY": str(library)}) for i in range(4)]
    said = [client.communicate(timeout=PATIENCE)[1] for client in clients]
    assert sum("was not prepared: the recorder was loaded" in each for each in said) >= 1, said
    for client, each in zip(clients, said):
        waits = "is traced by process" in each and "let that end first" in each or "which traces it" in each
        assert client.returncode == 0 or waits, each


@needs_calls
def test_forged_unwind_tables(target, programs, inject, tmp_path):
    """Whatever they are, pitot neither hangs nor crashes; a target whose stack cannot be followed is refused."""
    chance, program = random.Random(5), programs / "target"
    headers = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    offset, size = (int(word, 16) for word in re.search(r"\.eh_frame +PROGBITS +\w+ (\w+) (\w+)", headers).groups())
    whole, results = program.read_bytes(), set()
    forgeries = [bytes(size), chance.randbytes(size)]
    for _ in range(4):
        at = chance.randrange(size - 4)
        forgeries.append(whole[offset:offset + at] + chance.randbytes(4) + whole[offset + at + 4:offset + size])
    for i, forged in enumerate(forgeries):
        path = tmp_path / f"forged{i}"
        path.write_bytes(whole[:offset] + forged + whole[offset + size:])
        path.chmod(0o755)
        said = inject(target(program=path).pid, status=None)
        results.add(bool(INTO.search(said)))
        assert INTO.search(said) or "has no thread in whose place a library can be loaded" in said, said
    assert False in results, "tables of zeros lead nowhere"


# --- those that are refused ---


def test_another_c_library(target, programs, refused, tmp_path):
    """musl's where there is a compiler for it; else the program has its loader's name."""
    program = tmp_path / "target"
    if shutil.which("musl-gcc"):
        subprocess.run(["musl-gcc", "-w", "-D_GNU_SOURCE", "-x", "c", "-", "-o", program], input=TARGET, text=True, check=True)
    else:
        loader = re.search(r"interpreter: (\S+)\]", subprocess.run(["readelf", "-lW", programs / "target"], capture_output=True, text=True).stdout)[1]
        shutil.copy(loader, tmp_path / "ld-musl.so.1")
        compile_c(TARGET, program, f"-Wl,--dynamic-linker={tmp_path}/ld-musl.so.1")
    refused(target(program=program, cuda=None).pid, "uses another C library than glibc: it cannot load the recorder")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="has no 32-bit programs")
def test_a_32_bit_program(refused, tmp_path):
    text = 'void _start(void) { for (;;) __asm__ volatile("int $0x80" : : "a"(29)); }'
    compiled = subprocess.run(["cc", "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie", "-x", "c", "-", "-o", tmp_path / "target"], input=text,
                              text=True, capture_output=True)
    if compiled.returncode != 0:
        pytest.skip("the compiler makes no 32-bit programs")
    try:
        process = subprocess.Popen([tmp_path / "target"])
    except OSError:
        pytest.skip("the machine runs no 32-bit programs")
    try:
        refused(process.pid, "is not a program for this processor: it cannot load the recorder")
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("what", ["undumpable", "setgid"])
def test_more_rights_than_one_s_own(target, programs, anybodys, environment, what, tmp_path):
    """An ordinary user may not read the process. It is not said that it does not use CUDA."""
    need_root()
    program = programs / what
    shutil.copy(programs / "target", program)
    program.chmod(0o2755 if what == "setgid" else 0o755)
    one = target(what, program=program, **run_as(NOBODY))
    for words in ("doctor", "-p"), ("record", "--gpu", "-p"), ("record", "--inject", "--gpu", "-p"):
        done = subprocess.run([anybodys / "pitot", *words, str(one.pid)], **run_as(NOBODY), capture_output=True, text=True, cwd="/", env=environment)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 1 and f"process {one.pid} may not be read: it has more rights than you, or made itself undumpable" in said, said


@needs_calls
def test_a_setuid_program(target, programs, anybodys, environment, inject, pitot):
    """Belongs to another user then; root is told that variables do not reach it, and can load the recorder."""
    need_root()
    program = programs / "setuid"
    shutil.copy(programs / "target", program)
    program.chmod(0o4755)
    one = target(program=program, **run_as(NOBODY))
    done = subprocess.run([anybodys / "pitot", "record", "--inject", "--gpu", "-p", str(one.pid)], **run_as(NOBODY), capture_output=True, text=True,
                          cwd="/", env=environment)
    assert done.returncode == 1 and f"process {one.pid} belongs to user 0: attach as that user, or with sudo" in done.stderr
    assert "is a setuid or setgid program, which ignores PITOT_IDLE" in pitot("record", "-p", one.pid, "--gpu", status=1).stderr
    assert INTO.search(inject(one.pid))


def test_somebody_else_s(target, anybodys, environment):
    need_root()
    one = target()
    for words in ("doctor", "-p"), ("record", "--gpu", "-p"), ("record", "--inject", "--gpu", "-p"):
        done = subprocess.run([anybodys / "pitot", *words, str(one.pid)], **run_as(NOBODY), capture_output=True, text=True, cwd="/", env=environment)
        assert done.returncode == 1 and "belongs to user 0: attach as that user" in " ".join((done.stdout + done.stderr).split())


def test_a_socket_that_pretends(target, pitot):
    """Anybody can listen under the name of another process: what a client says is not for him."""
    one = target(cuda=None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as pretender:
        pretender.bind(f"\0pitot-idle-{one.pid}-{'0' * 16}")
        pretender.listen()
        pretender.settimeout(PATIENCE)
        for words in ("record", "-p", one.pid, "--gpu"), ("doctor", "-p", one.pid):
            done = pitot(*words, status=1)
            assert f"process {one.pid} was not prepared" in " ".join((done.stdout + done.stderr).split())
            with pretender.accept()[0] as client:
                assert client.recv(1 << 16) == b""


@needs_calls
def test_a_proc_that_hides_others(target, anybodys, environment):
    """With hidepid=2 an ordinary user sees his own processes only: these as always, and no others."""
    need_root("unshare", "-m", "mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc")
    roots, own = target(), target(**run_as(NOBODY))
    script = textwrap.dedent(f"""
        mount -t proc -o hidepid=2 proc /proc
        exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups sh -c '"$0" doctor -p {roots.pid}; "$0" record -p {roots.pid} --inject --gpu
            "$0" dump --stacks {roots.pid}; "$0" doctor -p {own.pid}; "$0" dump --stacks {own.pid}' {anybodys}/pitot
    """)
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, cwd="/", env=environment, timeout=PATIENCE)
    said = " ".join((done.stdout + done.stderr).split())
    assert said.count(f"there is no process {roots.pid}") == 3, said
    assert f"process {own.pid} was not prepared; the recorder can be loaded into it" in said and "poll" in said, said


@pytest.mark.parametrize("goes_on", [False, True], ids=["stopped", "going on"])
def test_a_debugger(target, refused, inject, pitot, goes_on):
    """gdb has stopped it, or lets it go on."""
    if not shutil.which("gdb"):
        pytest.skip("no gdb")
    one = target()
    gdb = subprocess.Popen(["gdb", "-q", "-nx", "-p", str(one.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    try:
        state = lambda: Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        wait_until(lambda: state() == "t", "gdb has stopped it", gdb)
        if goes_on:
            gdb.stdin.write("continue\n")
            gdb.stdin.flush()
            wait_until(lambda: state() == "S", "it goes on", gdb)
            assert f"is traced by process {gdb.pid}, a debugger, strace or another pitot: let that end first" in inject(one.pid, status=1)
        else:
            refused(one.pid, f"is stopped by process {gdb.pid}, which traces it: continue it there first")
    finally:
        gdb.kill()
        gdb.wait()
    wait_until(lambda: state() == "S", "gdb has left it")


@pytest.mark.parametrize("what", ["stopped", "zombie", "absent", "without CUDA"])
def test_not_now(target, inject, refused, what):
    one = target(cuda=None) if what == "without CUDA" else target()
    if what == "stopped":
        os.kill(one.pid, signal.SIGSTOP)
        refused(one.pid, f"is stopped; continue it: kill -CONT {one.pid}")
        os.kill(one.pid, signal.SIGCONT)
    elif what == "zombie":
        child = subprocess.Popen(["true"])
        wait_until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z", "it has ended")
        refused(child.pid, "has ended, and waits for its parent")
        child.wait()
    elif what == "absent":
        refused(4000000, "there is no process 4000000")
    else:
        assert f"neither process {one.pid} nor a descendant uses CUDA" in inject(one.pid, status=1)
