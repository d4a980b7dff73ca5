"""The prompt of `pitot sql` at a terminal: editing, history, completion, interrupts."""
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios

import pytest

from waiting import wait_until, wait_until_it_computes


class Prompt:
    """A session whose screen is read as text."""

    def __init__(self, program, recording, columns=80):
        self.terminal, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen([program, "sql", "-q", recording], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                                        env=os.environ | {"TERM": "xterm", "NO_COLOR": "1"})
        self.theirs = theirs
        os.set_blocking(self.terminal, False)
        self.said = ""
        self.wait("pitot> ")

    def read(self):
        try:
            self.said += os.read(self.terminal, 1 << 16).decode()
        except (BlockingIOError, OSError):
            pass
        return self.said

    def wait(self, text):
        """Waits for a text in what was written since the last wait, and returns all of that."""
        wait_until(lambda: text in self.read(), text, self.process)
        said, self.said = self.said, ""
        return said

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def line(self, keys, text):
        """Types keys and waits until the line on the screen is `text`."""
        self.type(keys)
        wait_until(lambda: self.last() == text, (text, self.said), self.process)

    def last(self):
        """What is written where the line is, after the prompt."""
        lines = re.findall(r"\r(?:pitot>|   \.\.\.>) (.*?)\x1b\[K\r\x1b\[\d+C", self.read())
        return lines[-1] if lines else None

    def end(self):
        self.type("\x05\x15.quit\r")
        wait_until(lambda: self.read() and self.process.poll() is not None, "it ends")
        after = termios.tcgetattr(self.theirs)
        os.close(self.theirs)
        os.close(self.terminal)
        assert self.process.returncode == 0 and after == self.before


@pytest.fixture(scope="module")
def recording(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("prompt") / "scopes.pitot", "scopes")


@pytest.fixture
def prompt(program, recording):
    prompt = Prompt(program, recording)
    yield prompt
    prompt.end()


def test_editing(prompt):
    prompt.line("sxlect 1", "sxlect 1")
    prompt.line("\x01\x1b[C\x1b[3~e", "select 1")  # Home, right, delete
    prompt.line("\x05 + 40\x7f1 as grün;", "select 1 + 41 as grün;")
    prompt.line("\x1b[D\x7f\x7f\x7f\x7f", "select 1 + 41 as ;")  # the umlaut is one character
    prompt.line("\x05\x17\x17", "select 1 + 41 ")
    prompt.line("\x1b[H\x0b", "")
    prompt.line("wrong \x15", "")
    prompt.type("select 1 + 41 as found;\r")
    assert re.search(r"found\r\n +42\r\n", prompt.wait("42"))


def test_history(prompt):
    prompt.type("select 7 as first;\r")
    prompt.wait("7\r\n")
    prompt.type("select 8\r + 1 as second;\r")
    prompt.wait("9\r\n")
    prompt.line("\x1b[A", " + 1 as second;")
    prompt.line("\x1b[A", "select 8")
    prompt.line("\x1b[A", "select 7 as first;")
    prompt.line("\x1b[A", "select 7 as first;")
    prompt.line("\x1b[B", "select 8")
    prompt.line("\x1b[B\x1b[B", "")


def test_completion(prompt):
    """Commands, tables, columns of the tables that are named, functions and keywords."""
    prompt.line(".sch\t", ".schema ")
    prompt.line("kernel_c\t", ".schema kernel_config ")
    prompt.line("\x15sel\t", "SELECT ")
    prompt.line("med\t", "SELECT median( ")
    prompt.line("\x15select 1 from kernel_su\t", "select 1 from kernel_summary ")
    prompt.line("where tot\t", "select 1 from kernel_summary where total_ns ")
    prompt.line("\x15select 1 from kernel k where k.dur\t", "select 1 from kernel k where k.duration_ns ")
    prompt.line("\x15select 1 from KERNEL where DURA\t", "select 1 from KERNEL where duration_ns ")
    prompt.line("\x15select 1 from memc\t", "select 1 from memcpy ")
    prompt.line("\x15select 1 from api_c\t", "select 1 from api_call ")
    prompt.line("\r", "")  # a statement of several lines
    prompt.line("where function_n\t", "where function_name ")
    prompt.line("\x15nothing_beg\t", "nothing_beg")
    prompt.line("\x15select 1 from mem\t", "select 1 from mem")
    listed = prompt.wait("memset") if "memset" not in prompt.said else prompt.said
    assert {"memcpy", "memory_peak", "memory_owner"} <= set(listed.split())
    prompt.type("\x15;\r")


def test_interrupts(prompt, recording):
    prompt.line("select 1 from", "select 1 from")
    os.kill(prompt.process.pid, signal.SIGINT)
    wait_until(lambda: prompt.last() == "", "the line is given up", prompt.process)
    prompt.line("x\x7f", "")
    prompt.type("select 40 + 2 as found;\r")
    prompt.wait("42\r\n")


def test_a_function_that_is_not_interrupted(program, recording):
    """The program ends with it, and the terminal is as it was."""
    prompt = Prompt(program, recording)
    prompt.type("select instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || '1');\r")
    wait_until_it_computes(prompt.process)
    os.kill(prompt.process.pid, signal.SIGINT)
    wait_until(lambda: prompt.read() and prompt.process.poll() is not None, "it ends")
    assert prompt.process.returncode == 1
    assert "interrupted" in prompt.said and "pitot ends" in prompt.said
    assert termios.tcgetattr(prompt.theirs) == prompt.before
    os.close(prompt.theirs)
    os.close(prompt.terminal)


def test_pastes(prompt):
    """Lines that come together are statements of their own, and their tabs are blanks."""
    prompt.type("select\t1 +\n\t40\n + 1 as a;\nselect 6 * 7 as b;\n")
    said = prompt.wait("b\r\n")
    assert re.search(r"a\r\n *42\r\n", said)


def test_long_lines(program, recording):
    """A line that is wider than the terminal shows the part with the cursor."""
    prompt = Prompt(program, recording, columns=30)
    text = "select '" + "x" * 60 + "' as t;"
    prompt.type(text)
    wait_until(lambda: (prompt.last() or "").endswith("xx' as t;"), "the end is shown", prompt.process)
    prompt.type("\x01")
    wait_until(lambda: (prompt.last() or "").startswith("select 'xx"), "the beginning is shown", prompt.process)
    assert all(len(line) + len("pitot> ") < 30 for line in re.findall(r"\rpitot> (.*?)\x1b\[K", prompt.said))
    prompt.type("\r")
    assert "x" * 60 in prompt.wait("x\r\n")
    prompt.end()


def test_end_of_input(program, recording):
    """Ctrl-D in an empty line ends it; in another it erases a character."""
    prompt = Prompt(program, recording)
    prompt.line("ab\x01\x04", "b")
    prompt.line("\x04", "")
    prompt.type("\x04")
    wait_until(lambda: prompt.read() and prompt.process.poll() is not None, "it ends")
    assert prompt.process.returncode == 0
    assert termios.tcgetattr(prompt.theirs) == prompt.before
    os.close(prompt.theirs)
    os.close(prompt.terminal)
