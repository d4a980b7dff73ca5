"""`pitot import` as a command: what it takes, how it finds the format, and what it says of everything else."""
import fcntl
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import time

import pytest

from gpufl_lines import S, T0, detail, device_lines, kernels, write


def test_errors(pitot, tmp_path):
    write(tmp_path / "logs" / S / "device.1.log", *device_lines())
    (tmp_path / "empty").mkdir()
    assert "name what to import" in pitot("import", status=2).stderr
    assert "cannot read 'none'" in pitot("import", "none", status=1).stderr
    assert "no gpufl logs in 'empty': give a folder that contains files such as device.log" in \
        pitot("import", "empty", "-o", "x.pitot", "--format", "gpufl", status=1).stderr
    write(tmp_path / "junk/device.log", "junk\n")
    assert "no readable gpufl record in 1 file" in pitot("import", "junk", "-o", "x.pitot", status=1).stderr
    assert not (tmp_path / "x.pitot").exists()
    said = pitot("import", "logs", "-o", "x.pitot").stderr
    assert "1 session, 2 kernels" in said and "left out" not in said
    assert "replace it with --force" in pitot("import", "logs", "-o", "x.pitot", status=1).stderr
    assert pitot("import", "logs", "-o", "x.pitot", "-f", "-q").stderr == ""
    pitot("import", "logs", "-o", "none/x.pitot", status=1)
    pitot("import", "logs", "--format", "nvvp", status=2)
    pitot("import", "logs")
    [named] = tmp_path.glob("logs-*.pitot")
    info = json.loads((named / "recording.json").read_text())
    assert info["recorded_by"] == "pitot import" and info["state"] == "complete" and info["name"] == "app"
    assert info["start_realtime_ns"] == T0 and info["elapsed_ns"] == 9000
    shutil.rmtree(tmp_path / "x.pitot")


WHAT = {b"": "empty", b"[1": "JSON", b'{"a": []}': "JSON", b"PK\3\4x": "a zip archive", b"\x7fELF": "an ELF file", b"a line": "text",
        b"a\0b": "binary data", b"SQLite format 3\0" + bytes(84): "an SQLite database", b"\x1f\x8b\x08": "damaged",
        b'{"type": 1, "session_id": {"type": "x"}}': "JSON"}


@pytest.mark.parametrize("content", WHAT, ids=lambda content: WHAT[content])
def test_what_no_importer_reads(pitot, make_recording, tmp_path, content):
    """The error names what was found and what can be read; nothing that exists is replaced."""
    (tmp_path / "input").write_bytes(content)
    (tmp_path / "empty").mkdir()
    (tmp_path / "r.pitot").mkdir()
    (tmp_path / "r.pitot/recording.json").write_text("{}")
    recording = make_recording(tmp_path / "kept.pitot", kernels=1)
    ends = "; pitot import reads gpufl, kineto, nsys, rocpd, xspace, sbt, torch_memory, ncu, xctrace, xray; `pitot import --help` explains them\n"
    for path, what in {"input": WHAT[content], "empty": "a folder without files of a known name",
                       "r.pitot": "a Pitot recording, which report and view read"}.items():
        assert f"'{path}' is {what}{ends}" in pitot("import", path, "-o", recording, "--force", status=1).stderr
    pitot("info", recording)


PACKERS = {"plain": bytes, "gzip": gzip.compress, "members": lambda text: gzip.compress(text[:1000]) + gzip.compress(text[1000:]) + b"trailing",
           **{name: lambda text, name=name: subprocess.run([name, "-c"], input=text, stdout=subprocess.PIPE, check=True).stdout
              for name in ("zstd", "xz") if shutil.which(name)}}


@pytest.mark.parametrize("packer", PACKERS)
def test_files_and_standard_input(pitot, tmp_path, packer):
    """Compressed or not, with any name; cut within the compressed stream it is read so far."""
    text = "".join(json.dumps(line) + "\n" for line in device_lines()).encode()
    packed = PACKERS[packer](text)
    (tmp_path / "any name").write_bytes(packed)
    rows = []
    for operand, stdin in ("any name", None), ("-", packed):
        more = {} if stdin is None else {"input": stdin}
        said = json.loads(pitot("import", operand, "-o", "x.pitot", "-f", "--json", text=False, **more).stdout)
        assert (said["format"], said["sessions"], said["files"], said["bytes"]) == ("gpufl", 1, 1, len(packed))
        rows.append(said["rows"])
    assert rows[0] == rows[1] and rows[0]["kernel"] == 2
    (tmp_path / "any name").write_bytes(packed[:len(packed) * 9 // 10])
    if packer == "gzip":
        pitot("import", "any name", "-o", "x.pitot", "-f")
        [loss] = [row for row in map(json.loads, pitot("view", "x.pitot", "loss", "--json", "-q").stdout.splitlines())
                  if row["detail"] == "any name"]
        assert loss["reason"] == "truncated_file"


def test_a_pipe_is_waited_for(program, environment, tmp_path):
    """Also one that does not block its readers; until a signal, which ends the import."""
    text = "".join(json.dumps(line) + "\n" for line in device_lines()).encode()
    command = [program, "import", "-", "-o", "x.pitot"]
    for ends in True, False:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with subprocess.Popen(command, stdin=reader, stdout=subprocess.DEVNULL, env=environment, cwd=tmp_path) as process:
            for part in text[:500], text[500:] if ends else b"\n":
                os.write(writer, part)
                while int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder):
                    time.sleep(0.01)
            if ends:
                os.close(writer)
            else:
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == (0 if ends else 128 + signal.SIGTERM)
        os.close(reader)
    os.close(writer)


def test_several_operands(pitot, tmp_path):
    """Each is read by its own importer into the same recording; one that is none spoils all."""
    for session, folder in (S, "one"), (S.replace("1", "7"), "two"):
        write(tmp_path / folder / session / "device.1.log", *({**line, "session_id": session} for line in device_lines()))
    said = pitot("import", "one", f"two/{S.replace('1', '7')}/device.1.log", "-o", "x.pitot", "--json", json_output=True)
    assert (said["sessions"], said["rows"]["kernel"], said["files"]) == (2, 4, 2)
    (tmp_path / "other").write_text("x")
    assert "'other' is text" in pitot("import", "one", "other", "-o", "y.pitot", status=1).stderr
    assert not (tmp_path / "y.pitot").exists()


def test_hostile_folders(pitot, tmp_path):
    """FIFOs, devices and links out of the folder are not opened, and names cannot write lines of their own."""
    outside, folder = tmp_path / "outside.json", tmp_path / "folder"
    folder.mkdir()
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.7e15, "dur": 5, "args": {"device": 0, "stream": 7}}
    outside.write_text(json.dumps({"traceEvents": [event] * 9}))
    (folder / "rank0.json").write_text(json.dumps({"traceEvents": [event]}))
    (folder / "a\npitot import: forged\x1b[31m.json").write_text("{}")
    os.mkfifo(folder / "rank1.json")
    (folder / "rank2.json").symlink_to(outside)
    (folder / "rank3.json").symlink_to("/dev/zero")
    (folder / "rank4.json").mkdir()
    said = pitot("import", "folder", "-o", "x.pitot").stderr
    assert "1 session, 1 kernel" in said and "left out: 5 files or folders that are no trace, such as" in said
    assert "\x1b" not in said and not any(line.startswith("pitot import: forged") for line in said.splitlines())


@pytest.mark.parametrize("text", ['"ID","Process ID",', "<trace-query-result>", "<trace-toc>"])
def test_names_like_other_formats(pitot, tmp_path, text):
    """What is in a text of a file does not make it another importer's."""
    event = {"ph": "X", "cat": "kernel", "name": "%", "pid": 0, "tid": 7, "ts": 1.7e15, "dur": 5, "args": {"device": 0, "stream": 7}}
    for whole in json.dumps({"traceEvents": [event]}), json.dumps([event]):
        (tmp_path / "t.json").write_text(whole.replace('"%"', f'"k","x": [{text}"z"],"y": "z"' if text[0] == '"' else f'"{text}"'))
        assert pitot("import", "t.json", "-o", "x.pitot", "-f", "--json", json_output=True)["format"] == "kineto"


def test_help_has_the_list(pitot):
    text = " ".join(pitot("help", "import").stdout.split())
    assert "gpufl: logs of gpufl: a folder of one session or of many" in text and "kineto: Chrome trace JSON" in text and "PATH..." in text
