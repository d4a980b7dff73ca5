"""Names of others on a terminal, and a terminal's Ctrl-C."""
import gzip
import json
import os
import signal
import subprocess

from waiting import wait_until

HARMFUL = "\x9b31m\x7f\u202e\u2066\u061c\U000e0041\x1b]"
OBEYED = set(HARMFUL) - set("31m]")
CPU_SECONDS = 20  # 64 GiB take minutes


def test_names_in_json_and_messages(pitot, program, environment, tmp_path):
    name = f"a{HARMFUL}b"
    result = pitot("report", name, status=1)
    assert not OBEYED & set(result.stderr)
    assert "a\\xc2\\x9b31m\\x7f\\u{202e}\\u{2066}" in result.stderr
    recorded = subprocess.run([program, "record", "--cpu-only", "--no-symbols", "-q", "-o", "r.pitot", "--name", name, "true"],
                              env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert recorded.returncode == 0, recorded.stderr
    text = (tmp_path / "r.pitot/recording.json").read_text()
    assert not OBEYED & set(text) and json.loads(text)["name"] == name
    text = pitot("view", "process", "r.pitot", "--json").stdout
    assert not OBEYED & set(text)


def test_import_of_a_line_without_end(program, environment, tmp_path):
    """64 GiB in 64 MiB, without a newline: Ctrl-C ends it at once."""
    logs = tmp_path / "0f0f0f0f-0000-4000-8000-000000000000"
    logs.mkdir()
    (logs / "device.1.log.gz").write_bytes(gzip.compress(bytes(64 << 20), 9) * 1024)
    process = subprocess.Popen([program, "import", "-q", "-o", tmp_path / "x.pitot", logs], env=environment,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    folder = f"/proc/{process.pid}/fd"
    wait_until(lambda: any(os.readlink(f"{folder}/{fd}").endswith(".gz") for fd in os.listdir(folder)),
               "the log is open", process)
    process.send_signal(signal.SIGINT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 130, process.stderr.read()
    assert used.ru_utime + used.ru_stime < CPU_SECONDS
    process.stderr.close()
    assert not (tmp_path / "x.pitot").exists()
