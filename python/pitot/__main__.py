"""``python -m pitot`` and the command ``pitot`` of a wheel: the program that lies in the package."""

from __future__ import annotations

import os
import sys


def program() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "pitot")


def main() -> None:
    os.execv(program(), ["pitot", *sys.argv[1:]])


if __name__ == "__main__":
    main()
