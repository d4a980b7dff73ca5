"""Commands that cannot reach the recording's folder: they are other users, or somebody has put another folder in its place."""
import json
import os
import shutil
import subprocess
import textwrap

import pytest

NOBODY = 65534
# Reports a segment that could not be written, as the recorder of another user does on a full disk.
REPORT = textwrap.dedent("""
    import errno, os, socket, struct
    uid, name, token, *folder = os.environ["PITOT_LAUNCHER"].split(":")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.connect("\\0" + name)
        s.send(struct.pack("<IIIi32sQQ", 0x31515350, os.getpid(), 0xffffffff, -errno.ENOSPC, token.encode(), 0, 0))
""")


@pytest.fixture
def everybodys(build, program, tmp_path_factory):
    """A folder with the program, the player and a tape, for all users."""
    player = build / "standin/tape-play"
    if not player.exists():
        pytest.skip("this build plays no tapes")
    folder = tmp_path_factory.mktemp("all") / "build"
    shutil.copytree(player.parent, folder / "standin")
    for file in (program, build / "libpitot.so"):
        shutil.copy(file, folder)
    shutil.copy("tests/data/tapes/launch.tape", folder)
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path.name:
            path.chmod(path.stat().st_mode | 0o055)
    return folder


def record(folder, environment, output, *command, cwd=None):
    return subprocess.run([folder / "pitot", "record", "-o", output, "--no-cpu", "--stacks", "none", "--", *command], cwd=cwd,
                          env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def player(folder):
    return [str(folder / "standin/tape-play"), str(folder / "launch.tape")]


def kernels(pitot, recording):
    return pitot("info", recording, "--json", json_output=True)["tables"]["kernel"]["rows"]


def test_command_becomes_another_user(everybodys, environment, pitot, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    recording = tmp_path / "r.pitot"
    result = record(everybodys, environment, recording, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                    *player(everybodys))
    assert result.returncode == 0 and "loss      none" in result.stderr, result.stderr
    assert kernels(pitot, recording) == 7000
    # It is still nobody else's.
    assert recording.stat().st_mode & 0o777 == 0o700
    for file in recording.iterdir():
        assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o600), file


def test_device_code_of_another_user_is_stored(everybodys, environment, made_tape, rows, tmp_path):
    """The launcher creates its file, once for all processes."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    tape, recording = shutil.copy(made_tape, everybodys), tmp_path / "r.pitot"
    play = f"{everybodys}/standin/tape-play {tape}"
    result = subprocess.run(
        [everybodys / "pitot", "record", "-o", recording, "--no-cpu", "--stacks", "none", "--engine", "pc-sampling", "--", "setpriv",
         f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sh", "-c", f"{play} && {play}"],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert result.returncode == 0 and "loss      none" in result.stderr, result.stderr
    [cubin] = {(row["file"], row["size_bytes"]) for row in rows(recording, "cubin")}
    [file] = (recording / "cubins").iterdir()
    assert cubin == (f"cubins/{file.name}", file.stat().st_size)
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (0, 0o600)


def test_refused_segment_is_said(everybodys, environment, pitot, tmp_path):
    recording = tmp_path / "r.pitot"
    result = record(everybodys, environment, recording, "python3", "-c", REPORT)
    assert result.returncode == 0
    assert f"of user {os.getuid()} could not begin a segment: No space left on device: its data is missing" in result.stderr
    report = pitot("report", recording).stdout
    assert "a process could not write into the recording (see loss below): what it did is missing" in " ".join(report.split())
    assert "could not begin a segment: No space left on device" in " ".join(report.split())
    [loss] = json.loads(pitot("report", recording, "--json").stdout)["loss"]
    assert loss["reason"] == "refused_segment" and loss["count"] == 1


def test_nothing_is_written_where_the_folder_was(everybodys, environment, pitot, tmp_path):
    """Whoever may write to the parent folder replaces the recording by a link, before the recorder begins."""
    (tmp_path / "victim").mkdir()
    script = 'mv r.pitot moved.pitot && ln -s victim r.pitot && exec "$@"'
    result = record(everybodys, environment, "r.pitot", "sh", "-c", script, "sh", *player(everybodys), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert list((tmp_path / "victim").iterdir()) == []
    assert "another one is there now" in result.stderr
    assert kernels(pitot, tmp_path / "moved.pitot") == 7000


def test_folder_that_cannot_be_made(environment, everybodys, tmp_path):
    (tmp_path / "file").touch()
    result = record(everybodys, environment, tmp_path / "file/r.pitot", "true")
    assert result.returncode == 1 and "Not a directory" in result.stderr
    result = record(everybodys, environment, tmp_path / "none/r.pitot", "true")
    assert result.returncode == 1 and "its parent folder does not exist" in result.stderr
