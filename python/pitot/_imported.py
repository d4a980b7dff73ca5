"""Recordings of other tools, as recordings that are removed when nothing uses them anymore."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref

from pitot.__main__ import program
from pitot._read import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Union


def import_recording(path: Union[str, PathLike[str]]) -> str:
    """Runs ``pitot import`` into a temporary folder. ``remove_with`` says until when it is there."""
    folder = tempfile.mkdtemp(prefix="pitot-")
    recording = os.path.join(folder, "imported.pitot")
    command = [program(), "import", os.path.abspath(path), "-o", recording]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise Error(done.stderr.strip().replace("pitot import: error: ", "", 1))
    return recording


def remove_with(owner: object, recording: str) -> None:
    weakref.finalize(owner, shutil.rmtree, os.path.dirname(recording), ignore_errors=True)
