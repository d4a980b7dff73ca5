"""A model of a terminal: what a person sees after the escape sequences of a program. Sequences that it does not know are errors."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from waiting import PATIENCE

SEQUENCE = re.compile(r"\033\[(\?|)([\d;]*)([A-Za-z])")


class Screen:
    """Cells of lines and columns; `attributes` has those that are shown in reverse."""

    def __init__(self, columns, lines):
        self.alternate = False
        self.cursor_is_shown = self.wraps = True
        self.columns = self.lines = 0
        self.resize(columns, lines)

    def resize(self, columns, lines):
        """What was drawn for the size before may still come, and is cut, as by a terminal."""
        self.most = max(columns, self.columns), max(lines, self.lines)
        self.columns, self.lines = columns, lines
        self.x = self.y = 0
        self.reverse = False
        self.erase()

    def erase(self):
        self.cells = [[" "] * self.columns for _ in range(self.lines)]
        self.reversed_lines = set()

    def feed(self, text):
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                self.obey(*found.groups())
                at = found.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, character):
        if character == "\r":
            self.x = 0
        elif character == "\n":
            assert not self.alternate, "a full screen is drawn line by line, and does not scroll"
            self.next_line()
        else:
            assert character.isprintable(), f"a terminal obeys {character!r}"
            if self.x == self.columns and self.wraps:
                assert not self.alternate, "it is wider than the screen"
                self.x = 0
                self.next_line()
            if not self.x:
                self.reversed_lines.discard(self.y)
            self.cells[self.y][min(self.x, self.columns - 1)] = character
            self.x = min(self.x + 1, self.columns)
            if self.reverse:
                self.reversed_lines.add(self.y)

    def next_line(self):
        if self.y == self.lines - 1:
            self.cells = self.cells[1:] + [[" "] * self.columns]
        self.y = min(self.y + 1, self.lines - 1)

    def obey(self, private, numbers, letter):
        values = [int(number or 0) for number in numbers.split(";")]
        if private:
            assert letter in "hl"
            name = {1049: "alternate", 25: "cursor_is_shown", 7: "wraps"}[values[0]]
            setattr(self, name, letter == "h")
        elif letter == "H":
            row, column = values if len(values) == 2 else (1, 1)
            assert 1 <= column <= self.most[0] and 1 <= row <= self.most[1]
            row, column = min(row, self.lines), min(column, self.columns)
            self.y, self.x = row - 1, column - 1
        elif letter == "A":
            self.y = max(self.y - (values[0] or 1), 0)
        elif letter == "J":
            assert values in ([0], [2])
            if values == [2]:
                self.erase()
            else:
                self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
                self.cells[self.y + 1:] = [[" "] * self.columns for _ in range(self.lines - self.y - 1)]
        elif letter == "K":
            if not self.x:
                self.reversed_lines.discard(self.y)
            self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
        elif letter == "m":
            for value in values:
                self.reverse = value == 7 if value in (0, 7) else self.reverse
        else:
            raise AssertionError(f"unknown sequence: {private}{numbers}{letter}")

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)


class Terminal:
    """A program on a terminal that is modelled: keys are typed, and waited for is what it shows."""

    def __init__(self, command, environment, columns=80, lines=24, session=False):
        """`session`: it is the terminal of the program's session, as a shell's is; otherwise of none."""
        self.ours, self.theirs = self.open = pty.openpty()
        self.screen = Screen(columns, lines)
        self.said = b""
        self.set_size(columns, lines)
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(list(map(str, command)), stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, env=environment,
                                        preexec_fn=self.own_session if session else os.setpgrp)  # Ctrl-Z stops no group that nobody could continue

    @staticmethod
    def own_session():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def set_size(self, columns, lines):
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(columns, lines)
        self.set_size(columns, lines)
        self.process.send_signal(signal.SIGWINCH)  # it is not the terminal of its session

    def read(self):
        if not select.select([self.ours], [], [], 0.02)[0]:
            return
        self.said += os.read(self.ours, 65536)
        # What is cut in the middle of a character or of a sequence is shown with the rest.
        text = self.said.decode(errors="ignore")
        cut = text.rfind("\033")
        if cut >= 0 and not SEQUENCE.match(text, cut):
            text = text[:cut]
        self.said = self.said[len(text.encode()):]
        self.screen.feed(text)

    def wait(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition(self.screen):
            assert self.process.poll() is None, self.screen.text()
            assert time.monotonic() < end, f"this did not happen: {what}\n{self.screen.text()}"
            self.read()
        return self.screen.text()

    def type(self, text):
        os.write(self.ours, text.encode())

    def end(self, status=0):
        """The program has ended by itself, and left the terminal as it was."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self.read()
        for _ in range(10):
            self.read()
        assert self.process.returncode == status, self.screen.text()
        assert termios.tcgetattr(self.theirs) == self.before, "the terminal's settings"
        assert not self.screen.alternate and self.screen.cursor_is_shown and self.screen.wraps
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for fd in self.open:
            os.close(fd)
        self.open = ()
