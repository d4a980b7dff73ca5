"""CPU sampling by perf events, as root and as an ordinary user, held against programs that know what they did."""
import collections
import errno
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from perf_events import NOBODY, capability, may_read, perf_errno, stolen, total
from waiting import PATIENCE, wait_until

PROGRAMS = Path(__file__).parent / "cpu_programs"
HZ = 999
SPUN = 0.1  # CPU seconds at least, of the 0.3 that stack_kinds spins: on a busy machine samples come late, and are fewer


@pytest.fixture(scope="module")
def programs():
    """The programs, compiled as those of others are: optimised, without frame pointers. Readable by everybody."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        out = Path(folder)
        command = ["cc", "-O2", "-fomit-frame-pointer"]
        for name in "known_shares", "stack_kinds", "forbid_perf":
            subprocess.run([*command, "-o", out / name, PROGRAMS / f"{name}.c", "-pthread", "-ldl"], check=True)
        subprocess.run([*command, "-shared", "-fPIC", "-o", out / "plugin.so", PROGRAMS / "plugin.c"], check=True)
        yield out


@pytest.fixture(params=["as we are", "nobody"])
def user(request, program):
    """How a command is run as ourselves, or, for root, as an ordinary user."""
    ordinary = request.param == "nobody"
    if ordinary and os.geteuid() != 0:
        pytest.skip("is an ordinary user already")
    refused = perf_errno(NOBODY if ordinary else 0)
    if refused:
        pytest.skip(f"the kernel forbids perf_event_open: {errno.errorcode[refused]}")
    options = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if ordinary else {}
    if subprocess.run(["test", "-x", program], **options).returncode:
        pytest.skip(f"{program} is not for everybody")
    return options


@pytest.fixture
def sample(pitot, folder, user):
    """Records a command; the recording and what the command said. sample.stolen: seconds that perf events may have counted beyond
    the CPU time of all."""

    def run(*command, hz=HZ):
        recording, before = folder / "out.pitot", stolen()
        result = pitot("record", "-q", "--cpu-only", "--cpu-via", "perf", f"--cpu={hz}", "-o", recording, "--", *command,
                       **user)
        run.stolen = stolen() - before
        return recording, result.stdout

    return run


def with_stack(weights):
    return total((stack, weight) for stack, weight in weights if stack != [""])


def covered(rows, recording):
    """What the recording says of how much of the CPU time has samples: seconds with samples, and in all."""
    row = capability(rows, recording, "cpu_time")
    sampled, counted = map(float, row["actual"].split()[0:6:5])
    # The words have milliseconds.
    assert row["state"] == ("on" if sampled > 0.95 * counted + 0.001 else "degraded") or abs(sampled - 0.95 * counted) < 0.002
    return sampled, counted


def ends(rows, recording):
    """Shares of the CPU time with a stack by how it ends."""
    end_of = {(row.get("pid"), row["id"]): row["end"] for row in rows(recording, "stack")}
    weights = collections.Counter()
    for row in rows(recording, "cpu_sample"):
        if row["stack"] is not None:
            weights[end_of[row.get("pid"), row["stack"]]] += row["weight_ns"]
    shares = collections.Counter()
    for end, weight in weights.items():
        shares[end] = weight / sum(weights.values())
    return shares


def follows(stack, *names):
    """Whether the names are in the stack, one called by the other."""
    return any(stack[i:i + len(names)] == list(names) for i in range(len(stack)))


def test_known_shares(sample, stacks, rows, programs, user):
    recording, said = sample(programs / "known_shares", "1.5")
    truth = collections.defaultdict(dict)
    for line in said.splitlines():
        tid, function, seconds = line.split()
        truth[tid][function] = float(seconds)
    assert len(truth) == 3
    by_thread = collections.defaultdict(list)
    for stack, weight in stacks(recording, "--by", "thread"):
        by_thread[stack[0].rsplit(" ", 1)[1]].append((stack[1:], weight))
    for tid, spent in truth.items():
        sampled = {name: total((s, w) for s, w in by_thread[tid] if follows(s, "work", name, "spin")) for name in spent}
        for name, seconds in spent.items():
            share, true_share = sampled[name] / sum(sampled.values()), seconds / sum(spent.values())
            assert abs(share - true_share) < 0.02, (tid, name, share, true_share, sampled, spent)
        # What the thread did on its own behalf. Perf events count what interrupts it, too: on a busy machine some percent.
        assert 0.93 * sum(spent.values()) < total(by_thread[tid]) < 1.25 * sum(spent.values()) + 0.02 + sample.stolen
    assert ends(rows, recording)["complete"] > 0.999
    sampled, counted = covered(rows, recording)
    assert sampled > 0.6 * counted
    # Nothing twice: all of it is what the kernel has counted. The words have milliseconds, and the folded stacks microseconds.
    assert sum(total(each) for each in by_thread.values()) < counted + 0.003
    if user:
        assert "time in the kernel is not sampled" in capability(rows, recording, "cpu")["reason"]
    assert "no Python frames" in capability(rows, recording, "cpu")["reason"]
    # A sampler that does not run for half a second loses samples, and says so.
    assert {row["reason"] for row in rows(recording, "loss")} <= {"samples_dropped"}


@pytest.mark.parametrize("kind", ["children", "threads"])
@pytest.mark.parametrize("hz", [99, HZ])
def test_all_weights_add_up(sample, rows, programs, kind, hz):
    """Threads that live for three periods, or thirty: what they did after their last sample is not lost."""
    recording, said = sample(programs / "stack_kinds", kind, hz=hz)
    samples = rows(recording, "cpu_sample")
    weight = sum(row["weight_ns"] for row in samples) / 1e9
    spent = sum(row["weight_ns"] for row in samples if row["stack"] is not None) / 1e9
    sampled, counted = covered(rows, recording)
    assert abs(sampled - spent) < 0.001
    assert 0.99 * counted - 0.02 < weight < counted + 0.001
    # The kernel's own count of the CPU time, interrupts of it and all, against the program's, which has some before its exec, too.
    assert 0.97 * float(said) - 0.01 < counted < 1.25 * float(said) + 0.02 + sample.stolen
    assert spent > (0.6 if hz == HZ else 0.4) * float(said)


def test_time_in_the_kernel_is_not_forgotten(sample, rows, stacks):
    recording, _ = sample("dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=100000")
    samples = rows(recording, "cpu_sample")
    weight = sum(row["weight_ns"] for row in samples)
    _, counted = covered(rows, recording)
    assert abs(weight / 1e9 - counted) < 0.001
    kernel = total(w for w in stacks(recording) if "vfs_read" in w[0])
    without = sum(row["weight_ns"] for row in samples if row["stack"] is None)
    if "time in the kernel is not sampled" in capability(rows, recording, "cpu")["reason"]:
        assert kernel == 0 and without > 0.5 * weight
        assert "time in the kernel" in capability(rows, recording, "cpu_time")["reason"]
    else:
        assert kernel > 0 and without < 0.1 * weight


def test_python_that_runs_already(pitot, rows, stacks, user, folder):
    """Its functions are there where it may be read; else the report says how to get them."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")  # one for everybody
    if not python:
        pytest.skip("no Python of the system")
    with subprocess.Popen([python, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE, **user) as target:
        try:
            target.stdout.readline()
            for seconds in 1, 4, 16, 64:  # in which a busy machine may not give it a single period
                pitot("record", "-f", "-p", target.pid, "--cpu-via", "perf", "--duration", f"{seconds}s", "-q", "-o", folder / "rec.pitot", **user)
                if rows(folder / "rec.pitot", "cpu_sample"):
                    break
        finally:
            target.kill()
    said = " ".join(pitot("report", folder / "rec.pitot").stdout.split())
    if not may_read(user.get("user", os.geteuid())):
        assert f"(kernel.yama.ptrace_scope): sudo pitot record -p {target.pid}" in said
        return
    assert "no Python frames" not in said
    assert total(weight for weight in stacks(folder / "rec.pitot") if "<module> (<string>:2)" in weight[0]) > 0


def test_a_signal_handler(sample, stacks, rows, programs):
    recording, _ = sample(programs / "stack_kinds", "handler")
    weights = stacks(recording)
    inside = [(stack, weight) for stack, weight in weights if "handler" in stack]
    assert total(inside) > max(SPUN, 0.8 * with_stack(weights))
    for stack, _ in inside:
        assert stack[0] == "_start" and "main" in stack
        at = stack.index("handler")
        assert stack[at - 2] == "interrupted", stack
    assert ends(rows, recording)["complete"] > 0.99


def test_a_signal_stack_ends_honestly(sample, stacks, rows, programs):
    recording, _ = sample(programs / "stack_kinds", "altstack")
    weights = stacks(recording)
    inside = [(stack, weight) for stack, weight in weights if "handler" in stack]
    assert total(inside) > max(SPUN, 0.8 * with_stack(weights))
    for stack, _ in inside:
        # Where the signal came is in its frame; the stack beyond was not copied.
        assert "truncated" in stack[0] and stack[1] == "interrupted", stack
    assert ends(rows, recording)["truncated"] > 0.9


def test_a_deep_recursion_has_its_innermost_frames(sample, stacks, rows, programs):
    recording, _ = sample(programs / "stack_kinds", "deep")
    weights = stacks(recording)
    deep = [(stack, weight) for stack, weight in weights if follows(stack, "deep", "deep", "spin")]
    assert total(deep) > max(SPUN, 0.8 * with_stack(weights))
    for stack, _ in deep:
        own = stack[1:stack.index("spin")]
        assert set(own) == {"deep"} and len(own) > 300, stack[:10]
    assert ends(rows, recording)["depth"] > 0.9


def test_code_that_was_loaded_a_moment_ago(sample, stacks, rows, programs):
    recording, _ = sample(programs / "stack_kinds", "plugin", programs / "plugin.so")
    weights = stacks(recording)
    assert total(w for w in weights if follows(w[0], "main", "plugin_call", "spin")) > max(SPUN, 0.8 * with_stack(weights))
    assert any(row["path"] == str(programs / "plugin.so") and row["build_id"] for row in rows(recording, "module"))


def test_code_made_at_run_time(sample, stacks, rows, programs):
    recording, _ = sample(programs / "stack_kinds", "jit")
    weights = stacks(recording)
    called = [(stack, weight) for stack, weight in weights if follows(stack, "spin_from_jit", "spin")]
    assert total(called) > max(SPUN, 0.8 * with_stack(weights))
    # What is beyond was guessed, and is said to be; it is right, or not there.
    through = [stack for stack, _ in called if "main" in stack]
    assert through and all(stack.index("spin_from_jit") == stack.index("main") + 2 for stack in through)
    assert ends(rows, recording)["complete"] < 0.05


def test_each_program_of_a_chain_is_a_process(sample, stacks, rows, programs):
    recording, _ = sample("sh", "-c", f"exec '{programs}/stack_kinds' exec")
    weights = stacks(recording)
    before = total(w for w in weights if follows(w[0], "main", "spin"))
    after = total(w for w in weights if follows(w[0], "after_exec", "spin"))
    assert SPUN < before < 0.35 and SPUN < after < 0.35
    commands = {row["command"].split("/")[-1] for row in rows(recording, "process") if row["source"] == "sampler"}
    assert {"stack_kinds exec", "stack_kinds after_exec"} <= commands
    pids = {row["pid"] for row in rows(recording, "process") if row["source"] == "sampler"}
    assert len(pids) == 1
    for row in rows(recording, "process"):
        assert row["end_ns"] is None or row["start_ns"] < row["end_ns"]


def test_short_lives(sample, rows, stacks, programs):
    recording, _ = sample(programs / "stack_kinds", "children")
    samples = rows(recording, "cpu_sample")
    by_process = collections.Counter()
    for row in samples:
        by_process[row["pid"]] += row["weight_ns"]
    children = sorted(by_process.values())[-40:]
    assert len(children) == 40 and children[0] > 20e6  # whatever had no sample is added at a thread's end
    weights = stacks(recording)
    assert total(w for w in weights if "main" in w[0] and "spin" in w[0]) > 0.8 * with_stack(weights)


@pytest.mark.parametrize("command", [["known_shares", "1000"], ["stack_kinds", "endless"]])
def test_a_process_that_runs_already(pitot, folder, user, stacks, rows, programs, command):
    process = subprocess.Popen([programs / command[0], *command[1:]], stdout=subprocess.PIPE, **user)
    recording = folder / "out.pitot"
    try:
        for seconds in 1, 4, 16:  # from when `pitot record` begins: on a slow machine not much of it is sampled
            before = read_cpu_seconds(process.pid)
            pitot("record", "-q", "-f", "--cpu-only", "--cpu-via", "perf", f"--cpu={HZ}", "--duration", f"{seconds}s", "-o", recording,
                  "-p", process.pid, **user)
            spent = read_cpu_seconds(process.pid) - before
            if len(rows(recording, "cpu_sample")) > 50:
                break
    finally:
        process.kill()
        process.wait()
    weights = stacks(recording, "--by", "thread")
    counted = float(capability(rows, recording, "cpu_time")["actual"].split()[5])
    # Nothing twice, though threads that were found may inherit events too.
    assert 0.03 < total(weights) < min(spent, counted) + 0.03, (counted, spent)
    known = [w for w in weights if len(w[0]) > 2]
    # The C library's functions have names only where its symbols are installed.
    whole = [w for w in known if "spin" in w[0] and (w[0][1] in ("_start", "clone3", "clone") or w[0][1].startswith("libc.so"))]
    assert total(whole) > 0.9 * total(known)
    assert ends(rows, recording)["complete"] > 0.99


@pytest.mark.parametrize("method", ["perf", "ebpf"])
def test_children_that_run_already(pitot, program, folder, user, rows, programs, method):
    """`-p` on a shell, whose child and grandchild work."""
    if method == "ebpf":
        attempt = "record", "-q", "--cpu-only", "--cpu-via", "ebpf", "-o", folder / "try.pitot", "--", "true"
        if user or pitot(*attempt, status=None).returncode:
            pytest.skip("eBPF is not allowed")
    spin = f"{programs / 'known_shares'} 1000"
    root = subprocess.Popen(["sh", "-c", f"{spin} & sh -c '{spin} & wait' & wait"], start_new_session=True,
                            stdout=subprocess.DEVNULL, **user)
    recording = folder / "out.pitot"

    def workers():
        names = subprocess.run(["ps", "-o", "pid=,comm=", "-s", str(root.pid)], capture_output=True, text=True).stdout
        return {int(line.split()[0]) for line in names.splitlines() if "known_shares" in line}

    try:
        wait_until(lambda: len(workers()) == 2, "both work", root)
        found = set()
        for seconds in 1, 4, 16:
            pitot("record", "-q", "-f", "--cpu-only", "--cpu-via", method, "--cpu=199", "--duration", f"{seconds}s",
                  "-o", recording, "-p", root.pid, **user)
            found = {row["pid"] for row in rows(recording, "cpu_sample")}
            if found >= workers():
                break
        assert found >= workers()
    finally:
        os.killpg(root.pid, signal.SIGKILL)
        root.wait()


def read_cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_samples_that_the_kernel_drops_are_counted(program, folder, user, environment, rows, programs):
    """The sampler is stopped for a while: its rings, which have room for a tenth of a second, run over."""
    recording, before = folder / "out.pitot", stolen()
    recorder = subprocess.Popen([program, "record", "-q", "--cpu-only", "--cpu-via", "perf", "--cpu=4999", "-o", recording,
                                 "--", programs / "known_shares", "2"], env=environment, stdout=subprocess.PIPE, text=True,
                                **user)
    wait_until(lambda: list(recording.glob("cpu-*.pit")), "samples are on disk", recorder)
    recorder.send_signal(signal.SIGSTOP)
    [pid] = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
    enough = read_cpu_seconds(pid) + 1.5
    wait_until(lambda: read_cpu_seconds(pid) > enough, "a quarter of all samples is lost", recorder)
    recorder.send_signal(signal.SIGCONT)
    said, _ = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == 0
    spent = sum(float(line.split()[2]) for line in said.splitlines())
    samples = rows(recording, "cpu_sample")
    lost = [row for row in rows(recording, "loss") if row["reason"] == "samples_dropped"]
    assert lost and all(row["start_ns"] < row["end_ns"] for row in lost)
    assert max(row["end_ns"] - row["start_ns"] for row in lost) > 0.1e9, "the sampler was stopped for longer"
    known = (len(samples) + sum(row["count"] for row in lost)) / 4999
    assert 0.9 * spent < known < 1.1 * spent + stolen() - before, (len(samples), lost, spent)
    assert len(samples) / 4999 < 0.9 * spent, "without the count of losses it does not add up"


def test_where_perf_event_open_is_forbidden(pitot, program, folder, programs, environment):
    recording = folder / "out.pitot"
    command = [programs / "forbid_perf", program, "record", "--cpu-only", "--cpu-via", "perf", "-o", recording, "--", "true"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode != 0
    assert "perf_event_open is not permitted" in result.stderr and "seccomp" in result.stderr
    assert not recording.exists()


@pytest.fixture
def gone(folder):
    """A program and a library, and another build of both, for a test that deletes or replaces them."""
    source = PROGRAMS / "gone.c"
    for name, options in ("gone", ["-ldl"]), ("gone.so", ["-shared", "-fPIC", "-ldl"]):
        for build, flag in (name, "-O1"), (f"other-{name}", "-O0"):
            subprocess.run(["cc", flag, "-o", folder / build, source, *options], check=True)
    os.chmod(folder, 0o777)
    return folder


def hot_addresses(path):
    """ELF addresses of the function that the programs spend their time in."""
    for line in subprocess.run(["nm", "-S", path], check=True, capture_output=True, text=True).stdout.splitlines():
        if line.endswith(" T hot"):
            start, size = (int(word, 16) for word in line.split()[:2])
            return range(start, start + size)
    raise AssertionError(path)


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
@pytest.mark.parametrize("file", ["gone", "gone.so"])
def test_files_that_are_gone(sample, stacks, rows, pitot, gone, user, file, replaced):
    """Their functions have names if the file can be opened through the process. Else they are offsets in it, and it is said why."""
    addresses = hot_addresses(gone / file)
    recording, _ = sample(gone / "gone", gone / file if file == "gone.so" else "-", *([gone / f"other-{file}"] if replaced else []))
    frames = collections.Counter()
    for stack, us in stacks(recording):
        frames[stack[-1] if stack[-1] == "hot" else stack[-1].split("+")[0]] += us
        if stack[-1].startswith("gone.so+"):
            assert int(stack[-1].split("+")[1], 16) in addresses
    opened = file == "gone" or not user
    name = "hot" if opened else "gone.so"
    assert frames[name] > 0.8 * sum(frames.values()), frames
    said = [row["reason"] for row in rows(recording, "capability") if row["name"] == "symbols"]
    why = "another build" if replaced else "No such file"
    assert opened or (len(said) == 1 and "functions of gone.so have no names" in said[0] and why in said[0]), said
    text = " ".join(pitot("report", recording).stdout.split())
    assert opened or "functions of gone.so have no names" in text
