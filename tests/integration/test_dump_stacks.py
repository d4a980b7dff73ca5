"""What every thread of a running process does: its frames, its state, its call of CUDA; and that it does not notice."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import core_writer
import pytest

from waiting import PATIENCE, wait_until

NOBODY = 65534

PYTHON = """
import select, threading, time

def inner(depth):
    if depth:
        inner(depth - 1)
    else:
        time.sleep(10000)

def spin():
    while True:
        pass

threading.Thread(target=inner, args=(3,), daemon=True).start()
threading.Thread(target=spin, daemon=True).start()
threading.Thread(target=lambda: select.epoll().poll(10000), daemon=True).start()
open("ready", "w").close()
inner(1)
"""

# Each thread sleeps in another way, and says when that ends before its time. One is in a call of CUDA, one works.
NATIVE = r"""
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LONG 100000000

static void returned(const char *what, int rc)
{
	fprintf(stderr, "%s returned %d: %s\n", what, rc, strerror(errno));
}

__attribute__((noinline)) static void *in_epoll(void *unused)
{
	struct epoll_event event;
	int fd = epoll_create1(0);

	for (;;)
		returned("epoll_wait", epoll_wait(fd, &event, 1, LONG));
}

__attribute__((noinline)) static void *in_poll(void *unused)
{
	for (;;)
		returned("poll", poll(NULL, 0, LONG));
}

__attribute__((noinline)) static void *in_sleep(void *unused)
{
	struct timespec t = { LONG / 1000, 0 };

	for (;;)
		returned("nanosleep", nanosleep(&t, NULL));
}

__attribute__((noinline)) static void *in_receive(void *unused)
{
	struct timeval limit = { LONG / 1000, 0 };
	int pair[2];
	char byte;

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	for (;;)
		returned("recv", recv(pair[0], &byte, 1, 0));
}

__attribute__((noinline)) static void *in_wait(void *unused)
{
	sigset_t set;
	struct timespec t = { LONG / 1000, 0 };

	sigemptyset(&set);
	for (;;)
		returned("sigtimedwait", sigtimedwait(&set, NULL, &t));
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void *in_lock(void *unused)
{
	pthread_mutex_lock(&mutex);
	return NULL;
}

int cudaStreamSynchronize(void *stream);

__attribute__((noinline)) static void *in_cuda(void *unused)
{
	cudaStreamSynchronize(NULL);
	return NULL;
}

__attribute__((noinline)) static void *in_malloc(void *unused)
{
	for (unsigned i = 0;; i++)
		free(malloc(i % 100000));
}

int main(void)
{
	void *(*const run[])(void *) = { in_epoll, in_poll, in_sleep, in_receive, in_wait, in_lock, in_cuda, in_malloc, in_malloc };
	pthread_t thread;

	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < sizeof(run) / sizeof(*run); i++)
		pthread_create(&thread, NULL, run[i], NULL);
	while (getchar() != EOF)
		;
	return 7;
}
"""

CUDA = r"""
#include <unistd.h>
int cudaStreamSynchronize(void *stream);
int cudaStreamSynchronize(void *stream)
{
	for (;;)
		pause();
}
"""


@pytest.fixture(autouse=True)
def readable(pitot):
    """Skips where processes of the same user may not be read (ptrace_scope, a container's seccomp)."""
    process = subprocess.Popen(["sleep", "1000"])
    try:
        if "may not be read" in pitot("dump", "--stacks", process.pid, status=None).stderr:
            pytest.skip("stacks of other processes may not be read here")
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def dump(pitot):
    """dump(pid): its threads."""

    def run(pid):
        [process] = pitot("dump", "--stacks", pid, "--json", json_output=True)
        assert process["process"] == pid
        return process["threads"]

    return run


def names(thread):
    return [frame["name"] for frame in thread["frames"]]


@pytest.fixture
def native(tmp_path):
    """The program above, without frame pointers."""
    if subprocess.run(["cc", "-O2", "-g", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "libcudart.so"], input=CUDA, text=True).returncode:
        pytest.skip("no C compiler")
    subprocess.run(["cc", "-O2", "-g", "-fomit-frame-pointer", "-pthread", "-x", "c", "-", "-o", tmp_path / "native", "-L", tmp_path, "-lcudart",
                    f"-Wl,-rpath,{tmp_path}"], input=NATIVE, text=True, check=True)
    process = subprocess.Popen([tmp_path / "native"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    tasks = Path(f"/proc/{process.pid}/task")
    wait_until(lambda: len(list(tasks.iterdir())) == 10 and sum("running" in (task / "syscall").read_text() for task in tasks.iterdir()) <= 2,
               "all sleep but two", process)
    yield process
    process.kill()
    process.wait()


def test_python(dump, pitot, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", PYTHON], cwd=tmp_path)
    try:
        wait_until((tmp_path / "ready").exists, "it runs", process)

        def by_kind():
            found = {}
            for thread in dump(process.pid):
                functions = [frame["name"].split(" ")[0] for frame in thread["frames"] if frame["python"]]
                found[functions[0] if functions else None] = thread, functions
            return found if {"inner", "spin", "<lambda>"} <= set(found) else None

        found = wait_until(by_kind, "all three have begun", process)
        thread, functions = found["<lambda>"]
        assert (thread["state"], thread["system_call"], thread["stopped_ns"], thread["complete"]) == ("sleeping", "epoll_wait", 0, True)
        assert found["spin"][0]["state"] == "running" and found["spin"][0]["stopped_ns"] > 0
        assert found["inner"][1].count("inner") in (2, 4) and found["inner"][0]["complete"]
        shown = pitot("dump", "--stacks", process.pid).stdout
        assert re.search(rf"process {process.pid}: .*\n(.*\n)*  thread {process.pid} \S+ sleeps \((clock_nanosleep|select|pselect6)\)", shown), shown
        assert "spin (<string>:11)" in shown or "spin (<string>:12)" in shown
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_native_threads_are_not_disturbed(native, dump, pitot):
    """No call returns early, and those that would are not stopped; the program ends as it would."""
    for _ in range(20):
        threads = {next((name for name in names(thread) if name.startswith(("in_", "main"))), None): thread for thread in dump(native.pid)}
        assert {"in_epoll", "in_poll", "in_sleep", "in_receive", "in_wait", "in_lock", "in_cuda", "in_malloc", "main"} <= set(threads), {
            thread["thread"]: names(thread) for thread in dump(native.pid)}
        for name in "in_epoll", "in_receive", "in_wait", "main":
            assert threads[name]["stopped_ns"] == 0, name
        assert threads["in_cuda"]["gpu_call"] == "cudaStreamSynchronize"
        assert [threads[name]["gpu_call"] for name in ("in_poll", "in_malloc", "main")] == [None] * 3
        assert all(thread["complete"] for thread in threads.values())
    assert "in cudaStreamSynchronize (pause)" in pitot("dump", "--stacks", native.pid).stdout
    native.stdin.close()
    assert native.wait(timeout=PATIENCE) == 7 and native.stderr.read() == ""


ENDED = r"""
#include <pthread.h>
#include <unistd.h>

static void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, waits, NULL);
	pthread_exit(NULL);
}
"""


def test_the_main_thread_has_ended(dump, tmp_path):
    """Memory and mappings are those of the threads that go on."""
    if subprocess.run(["cc", "-O1", "-pthread", "-x", "c", "-", "-o", tmp_path / "ended"], input=ENDED, text=True).returncode:
        pytest.skip("no C compiler")
    process = subprocess.Popen([tmp_path / "ended"])
    try:
        wait_until(lambda: ") Z" in Path(f"/proc/{process.pid}/stat").read_text(), "it has ended", process)
        main, other = sorted(dump(process.pid), key=lambda thread: thread["thread"])
    finally:
        process.kill()
        process.wait()
    assert main["thread"] == process.pid and main["state"] == "ended" and main["no_stack"]
    assert "waits" in names(other) and other["complete"], other


def test_several_processes(native, pitot):
    other = subprocess.Popen(["\033[2Jsleep", "1000"], executable="/bin/sleep")
    try:
        wait_until(lambda: Path(f"/proc/{other.pid}/comm").read_text() == "sleep\n", "it sleeps", other)
        shown = pitot("dump", "--stacks", native.pid, other.pid, "--json", json_output=True)
        assert [(process["process"], len(process["threads"])) for process in shown] == [(native.pid, 10), (other.pid, 1)]
        assert shown[1]["command"] == "\033[2Jsleep 1000" and "\033" not in pitot("dump", "--stacks", other.pid).stdout
    finally:
        other.kill()
        other.wait()


def test_a_stopped_process_stays_stopped(native, dump):
    native.send_signal(signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{native.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "it stops", native)
    threads = dump(native.pid)
    assert {thread["state"] for thread in threads} == {"stopped"} and all("main" in names(t) or "start_thread" in names(t) for t in threads)
    assert Path(f"/proc/{native.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    native.send_signal(signal.SIGCONT)
    native.stdin.close()
    assert native.wait(timeout=PATIENCE) == 7


def test_refusals(pitot, native, program, environment):
    assert "there is no process 4000000" in pitot("dump", "--stacks", 4000000, status=1).stderr
    assert "'x' is not the id of a process" in pitot("dump", "--stacks", "x", status=2).stderr
    assert "--stacks needs the id of a process" in pitot("dump", "--stacks", status=2).stderr
    assert "belong to rings" in pitot("dump", "--stacks", "--last", "1s", 1, status=2).stderr
    assert "several processes need --stacks" in pitot("dump", 1, 2, status=2).stderr
    if os.geteuid() == 0:
        refused = subprocess.run([program, "dump", "--stacks", str(native.pid)], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                                 env=environment, capture_output=True, text=True)
        assert refused.returncode == 1 and f"sudo pitot dump --stacks {native.pid}" in refused.stderr, refused


def test_a_recording_of_stacks(native, pitot, rows, tmp_path):
    """-o: the same threads, states and frames as those that are printed, for the report."""
    folder = tmp_path / "stacks.pitot"
    [shown] = pitot("dump", "--stacks", native.pid, "-o", folder, "--json", json_output=True)
    states = pitot("report", "--json", folder, json_output=True)["thread_states"]
    assert {(t["pid"], t["thread"], t["state"], t["system_call"], t["gpu_call"]) for t in states} == {
        (native.pid, t["thread"], t["state"], t["system_call"], t["gpu_call"]) for t in shown["threads"]}
    assert {t["thread"]: names(t) for t in states} == {t["thread"]: names(t) for t in shown["threads"]}
    assert states[0]["gpu_call"] == "cudaStreamSynchronize", "threads in a call of CUDA come first"
    assert all(t["complete"] and t["no_stack"] is None for t in states)
    assert {row["kind"] for row in rows(folder, "unfinished")} == {"thread"} and len(states) == 10
    report = pitot("report", folder).stdout
    assert re.search(r"threads when the dump was made\n.*GPU call.*\n +native \d+ +sleeping +(pause +)?cudaStreamSynchronize +\S+ in_cuda", report), report
    assert "records call stacks, and no work" in report and "last words" not in report
    assert "replace it with --force" in pitot("dump", "--stacks", native.pid, "-o", folder, status=1).stderr
    pitot("dump", "--stacks", native.pid, "-f", "-o", folder)
    pitot("info", "--verify", folder)
    absent = tmp_path / "absent.pitot"
    assert "there is no process" in pitot("dump", "--stacks", 4000000, "-o", absent, status=1).stderr and not absent.exists()


SLEEPER = """
import threading, time

def inner(depth):
    if depth:
        inner(depth - 1)
    else:
        time.sleep(10000)

threading.Thread(target=inner, args=(3,), daemon=True).start()
open("ready", "w").close()
inner(1)
"""


@pytest.fixture
def sleeper(tmp_path):
    """A Python whose two threads sleep."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], cwd=tmp_path)
    tasks = Path(f"/proc/{process.pid}/task")

    def sleeps():
        calls = [(task / "syscall").read_text().split()[0] for task in tasks.iterdir()] if (tmp_path / "ready").exists() else []
        return len(calls) == 2 and all(call.isdigit() and int(call) in (230, 23, 270, 101, 115, 72) for call in calls)

    wait_until(sleeps, "both threads sleep", process)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("whole", [True, False])
def test_a_core_file(sleeper, dump, pitot, tmp_path, whole):
    """The frames of a core file are those of the process; without code, they need the files that were mapped."""
    core_writer.write_core(tmp_path / "core", sleeper.pid, whole)
    alive = {thread["thread"]: names(thread) for thread in dump(sleeper.pid)}
    sleeper.kill()
    sleeper.wait()
    result = pitot("dump", "--stacks", tmp_path / "core", "--json")
    [process] = json.loads(result.stdout)
    assert process["process"] == sleeper.pid and process["command"].startswith(f"{sys.executable} -c") and f"thread {sleeper.pid} got SIGSEGV" in result.stderr
    assert {thread["thread"]: names(thread) for thread in process["threads"]} == alive
    assert all(thread["complete"] and thread["state"] == "unknown" and thread["name"] for thread in process["threads"])
    assert sum(name.startswith("inner (") for thread in process["threads"] for name in names(thread)) == 6
    shown = pitot("dump", "--stacks", tmp_path / "core", "-o", tmp_path / "core.pitot").stdout
    assert shown.startswith(f"process {sleeper.pid}: ") and "inner (<string>:8)" in shown
    assert len(pitot("report", "--json", tmp_path / "core.pitot", json_output=True)["thread_states"]) == 2


def test_a_core_file_that_is_cut(sleeper, pitot, tmp_path):
    """Whatever is left: what is missing is said, and nothing is invented."""
    core_writer.write_core(tmp_path / "core", sleeper.pid)
    core = (tmp_path / "core").read_bytes()
    for part in range(1, 16):
        (tmp_path / "cut").write_bytes(core[: len(core) * part // 16])
        result = pitot("dump", "--stacks", tmp_path / "cut", status=None)
        assert result.returncode == 0 and "' is cut: it has " in result.stderr and result.stdout.count("  thread ") == 2, result
    for size, said in ((0, "it is not a core file"), (63, "it is not a core file"), (200, "it has no threads")):
        (tmp_path / "cut").write_bytes(core[:size])
        assert said in pitot("dump", "--stacks", tmp_path / "cut", status=1).stderr
    assert "is not a core file" in pitot("dump", "--stacks", sys.executable, status=1).stderr
    assert "nor a core file" in pitot("dump", "--stacks", tmp_path, status=2).stderr
    assert "of running processes" in pitot("dump", "--stacks", "--descendants", tmp_path / "core", status=2).stderr


def test_a_core_file_of_a_program_that_was_replaced(tmp_path, pitot):
    """Frames of a file with another build id are not named by it."""
    program = tmp_path / "program"
    build = ["cc", "-O0", "-g", "-Wl,--build-id=0x%s", "-x", "c", "-", "-o", program]
    source = "#include <unistd.h>\nint %s(void) { for (;;) pause(); }\nint main(void) { return %s(); }\n"

    def compile(name, build_id):
        command = [str(word).replace("%s", build_id) for word in build]
        if subprocess.run(command, input=source.replace("%s", name), text=True).returncode:
            pytest.skip("no C compiler")

    compile("waits_here", "aa" * 20)
    process = subprocess.Popen([program])
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/syscall").read_text().split()[0] in ("34", "73"), "it waits", process)
        core_writer.write_core(tmp_path / "core", process.pid)
    finally:
        process.kill()
        process.wait()
    assert "waits_here" in pitot("dump", "--stacks", tmp_path / "core").stdout
    program.unlink()
    compile("other_name", "bb" * 20)
    shown = pitot("dump", "--stacks", tmp_path / "core").stdout
    assert "waits_here" not in shown and "other_name" not in shown and "pause" in shown


@pytest.mark.alone
def test_nothing_is_left(native, dump):
    """Of the recording in memory that names are resolved for."""
    before = {path for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("pitot-??????")}
    dump(native.pid)
    assert {path for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("pitot-??????")} <= before
