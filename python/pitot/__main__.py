"""``python -m pitot`` and the command ``pitot`` of a wheel: the program that lies in the package."""

from __future__ import annotations

import os
import sys


def program() -> str:
    """That of the wheel; where the package was installed by itself, the one on PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pitot")
    return own if os.path.exists(own) else "pitot"


def main() -> None:
    os.execvp(program(), ["pitot", *sys.argv[1:]])


if __name__ == "__main__":
    main()
