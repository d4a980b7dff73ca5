"""What is made of a recording contains command lines with their secrets: it is as private as the recording."""
import os

import pytest

COMMANDS = [("report", "-o", "x.html", "--mode"), ("export", "-o", "x.json", "--mode"), ("export", "-o", "x.html", "--mode"),
            ("export", "-o", "x.pftrace", "--mode"), ("flame", "--mode", "gpu", "-o", "x.svg", "--file-mode"),
            ("flame", "--mode", "gpu", "-o", "x.folded", "--file-mode")]


@pytest.fixture
def recording(make_recording, tmp_path):
    path = make_recording(tmp_path / "r.pitot", "varied")
    (path / "recording.json").write_text("{}")
    for file in (path, *path.iterdir()):
        file.chmod(0o700 if file.is_dir() else 0o600)
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c[:-1]))
def test_modes(pitot, recording, tmp_path, command):
    *words, option = command
    made = tmp_path / words[words.index("-o") + 1]

    def mode(*more):
        pitot(*words, "-q", "--force", *more, recording, preexec_fn=lambda: os.umask(0))
        return made.stat().st_mode & 0o777
    assert mode() == 0o600
    assert mode(option, "0644") == 0o644
    # Whoever may read the recording may read what is made of it.
    recording.chmod(0o755)
    assert mode() == 0o600
    (recording / "recording.json").chmod(0o640)
    assert mode() == 0o640


@pytest.mark.parametrize("text", ["", "rw", "0888", "01777", "0444"])
def test_wrong_modes(pitot, recording, text):
    assert f"'{text}' is no octal number of permissions" in pitot("export", "-o", "x.json", "--mode", text, recording, status=2).stderr
