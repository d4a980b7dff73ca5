"""``python -m pitot`` and the command ``pitot`` of a wheel: runs the program inside the package."""

from __future__ import annotations

import os
import sys

_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pitot")  # the working folder may change later


def program() -> str:
    """Path of the wheel's program; the one on PATH if the package was installed without it."""
    return _OWN if os.path.exists(_OWN) else "pitot"


def main() -> None:
    os.execvp(program(), ["pitot", *sys.argv[1:]])


if __name__ == "__main__":
    main()
