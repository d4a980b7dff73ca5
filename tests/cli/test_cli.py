"""What holds for every command: help, errors, exit statuses, JSON, colours, man pages."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import pytest


@pytest.fixture(scope="module")
def declared(program):
    """The commands as `pitot help --json` declares them."""
    return json.loads(subprocess.run([program, "help", "--json"], capture_output=True, check=True).stdout)



def test_overview_lists_all_commands(pitot, declared):
    text = pitot("help").stdout
    for command in declared["commands"]:
        assert re.search(rf"^  {command['name']}\s+{re.escape(command['summary'])}$", text, re.M)
    assert pitot("--help").stdout == text
    assert "-V, --version" in text


def test_no_arguments_is_usage(pitot):
    result = pitot(status=2)
    assert result.stdout == ""
    assert "record" in result.stderr


def test_help_of_every_command(pitot, declared):
    for command in declared["commands"]:
        text = pitot("help", command["name"], "--all").stdout
        assert pitot(command["name"], "--help=all").stdout == text
        short = pitot("help", command["name"]).stdout
        assert pitot(command["name"], "--help").stdout == pitot(command["name"], "-h").stdout == short
        assert text.startswith(short.split("options:\n")[0])
        assert text.startswith(f"pitot {command['name']}: {command['summary']}\n")
        for option in command["options"] + declared["options"]:
            if option["name"] == "json" and not command["json"]:
                continue
            assert f"--{option['name']}" in text or f"--[no-]{option['name']}" in text
        assert all(len(line) <= 100 for line in text.splitlines()), text


def shows(text, option):
    return re.search(rf"^  (-\w, |    )--(\[no-\])?{option['name']}\b", text, re.M) is not None


def test_short_help_has_the_common_options(pitot, declared):
    """Options with a group are only in the whole help, whose headings the short one lists."""
    for command in declared["commands"]:
        groups = {option["group"]: None for option in command["options"] if option["group"]}
        short = pitot(command["name"], "--help", env={"COLUMNS": "80"}).stdout
        for option in command["options"]:
            assert shows(short, option) == (option["group"] is None), option["name"]
        assert ("more with `pitot" in short) == bool(groups)
        assert all(group in " ".join(short.split()) for group in groups)
        assert len(short.splitlines()) <= 75, command["name"]
    record = pitot("record", "--help=all").stdout
    assert record.index("\nengines:\n") < record.index("--pc-period") < record.index("\nCPU samples:\n")
    assert "takes common or all, not 'every'" in pitot("record", "--help=every", status=2).stderr


def test_overview_is_grouped_by_what_people_want_to_do(pitot, declared):
    text = pitot("help", env={"COLUMNS": "80"}).stdout
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text
    for command in declared["commands"]:
        before = text[:re.search(rf"^  {command['name']} ", text, re.M).start()]
        assert re.findall(r"^(\S.*):$", before, re.M)[-1] == command["group"]
    colored = pitot("help", "--color", "always").stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == pitot("help").stdout != colored


def test_help_is_folded_to_the_terminal(pitot):
    text = pitot("help", "record", env={"COLUMNS": "60"}).stdout
    description = text.split("examples:")[0].splitlines()[1:]  # a summary is one line, always
    assert max(map(len, description)) <= 60


def test_every_declaration_is_complete(declared):
    for command in declared["commands"]:
        assert command["summary"][0].islower() and not command["summary"].endswith("."), command["name"]
        for option in command["options"]:
            assert option["help"] and not option["help"].endswith("."), (command["name"], option["name"])
            assert option["choices"] or option["type"] != "choice"


def test_no_option_hides_a_global_one(declared):
    for command in declared["commands"]:
        names = [option["name"] for option in command["options"] + declared["options"]]
        letters = [option["letter"] for option in command["options"] + declared["options"] if option["letter"]]
        assert len(set(names)) == len(names), command["name"]
        assert len(set(letters)) == len(letters), command["name"]


def test_an_unknown_command_that_is_near_to_none(pitot):
    assert "unknown command 'zzzz'; `pitot help` lists them" in pitot("zzzz", status=2).stderr


@pytest.mark.parametrize("typed, meant", [("recrod", "record"), ("reprot", "report"), ("docter", "doctor")])
def test_unknown_command_names_the_nearest(pitot, typed, meant):
    result = pitot(typed, status=2)
    assert f"unknown command '{typed}', did you mean '{meant}'?" in result.stderr
    assert result.stdout == ""


def test_unknown_command_far_from_all(pitot):
    result = pitot("xyzzyxyzzy", status=2)
    assert "unknown command 'xyzzyxyzzy'" in result.stderr and "did you mean" not in result.stderr
    pitot("help", "xyzzyxyzzy", status=2)


def test_unknown_option_names_the_nearest(pitot):
    result = pitot("record", "--graph", "node", "--", "true", status=2)
    assert "'--graph'" in result.stderr and "--graphs" in result.stderr
    assert pitot("--jsn", "version", status=2).stderr.count("--json") == 1


def test_bad_values(pitot):
    for arguments, named in (
        (["--graphs", "nodes"], "nodes"),
        (["--max-size", "many"], "many"),
        (["--delay", "soon"], "soon"),
        (["--name"], "--name"),
    ):
        result = pitot("record", *arguments, status=2)
        assert named in result.stderr, result.stderr
        assert len(result.stderr.splitlines()) <= 2


def test_global_options_before_and_after_the_command(pitot):
    assert pitot("--json", "version").stdout == pitot("version", "--json").stdout


def test_version(pitot):
    text = pitot("version").stdout
    assert re.fullmatch(r"pitot \d+\.\d+\.\d+\n", text)
    assert pitot("--version").stdout == text
    value = pitot("version", "--json", json_output=True)
    assert text == f"pitot {value['version']}\n"


def test_what_is_needed_of_the_c_library(build):
    """glibc 2.34, as RHEL 9 has."""
    for name in ("pitot", "libpitot.so", "libpitot-preload.so", "libpitot-rocm.so", "libpitotread.so.0"):
        symbols = subprocess.run(["objdump", "-T", build / name], capture_output=True, text=True, check=True).stdout
        newer = {(symbol, int(version)) for version, symbol in re.findall(r"GLIBC_2\.(\d+)\)? +(\w+)$", symbols, re.M) if int(version) > 34}
        assert "GLIBC_2." in symbols and not newer, name


def test_too_many_operands(pitot):
    for command in ("version", "devices", "doctor"):
        assert "'surplus'" in pitot(command, "surplus", status=2).stderr


def test_json_is_refused_where_it_means_nothing(pitot):
    for command in ("completion",):
        assert "no result to print as JSON" in pitot(command, "--json", status=2).stderr
        assert "--json" not in pitot(command, "--help").stdout + pitot("help", command, "--man").stdout
        assert "--json" not in pitot("__complete", "--", command, "--").stdout.split()


def test_doctor(pitot):
    result = pitot("doctor", status=None)
    value = json.loads(pitot("doctor", "--json", status=None).stdout)
    assert result.returncode == (0 if value["can_record_gpu_work"] else 1)
    names = [check["name"] for check in value["checks"]]
    for name in ("driver", "libcuda", "processor", "libpitot", "CUPTI", "other profilers", "disk", "perf events", "eBPF", "ptrace"):
        assert name in names
        assert re.search(rf"^{name}\s+(ok|limited|missing)\s", result.stdout, re.M)
    for check in value["checks"]:
        assert check["state"] in ("ok", "limited", "missing")
        assert check["detail"]
    library = next(check for check in value["checks"] if check["name"] == "libpitot")
    assert library["state"] == "ok", library
    processes = next(check for check in value["checks"] if check["name"] == "processes")
    assert (processes["state"] == "ok") == os.path.exists("/proc/thread-self/children"), processes


def test_doctor_sees_another_profiler(pitot):
    value = json.loads(pitot("doctor", "--json", status=1, env={"CUDA_INJECTION64_PATH": "/opt/other.so"}).stdout)
    check = next(check for check in value["checks"] if check["name"] == "other profilers")
    assert check["state"] == "missing" and "/opt/other.so" in check["detail"] and check["advice"]
    assert not value["can_record_gpu_work"]


def test_doctor_sees_a_missing_library(pitot):
    value = json.loads(pitot("doctor", "--json", status=1, env={"PITOT_LIBRARY": "/nonexistent.so"}).stdout)
    check = next(check for check in value["checks"] if check["name"] == "libpitot")
    assert check["state"] == "missing" and "/nonexistent.so" in check["detail"]


def test_help_of_one_command_as_json(pitot):
    every = pitot("help", "--json", json_output=True)
    one = pitot("help", "view", "--json", json_output=True)
    assert one == {**every, "commands": [c for c in every["commands"] if c["name"] == "view"]}


def test_usage_lines(pitot):
    for command in pitot("help", "--json", json_output=True)["commands"]:
        line = pitot(command["name"], "--help").stdout.split("usage:\n")[1].splitlines()[0]
        assert line == line.rstrip() and len(line.split()) > 2, line


def test_devices(pitot):
    result = pitot("devices", "--json", status=None)
    if result.returncode == 0:
        assert all(device["multiprocessors"] > 0 for device in json.loads(result.stdout))
    else:
        assert result.returncode == 1 and json.loads(result.stdout) == []
        assert pitot("devices", status=1).stdout == ""
        assert "pitot doctor" in result.stderr and len(result.stderr.splitlines()) == 1


DRIVER = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "broken"; return error < 0; }
int cuDeviceGetCount(int *count) { *count = atoi(getenv("FAKE_GPUS")); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 7; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Fake", length); return device < 7 || getenv("FAKE_BROKEN") && device > 7; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { for (int i = 0; i < 16; i++) uuid[i] = i; return device < 7; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1ul << 30; return device < 7; }
int cuDeviceGetPCIBusId(char *id, int length, int device) { strncpy(id, "0000:01:00.0", length); return device < 7; }
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which * 1000 + device; return which == 40; }
"""
# CUdevice_attribute, as cuda.h numbers them
ATTRIBUTES = {
    "compute_major": 75, "compute_minor": 76, "multiprocessors": 16, "clock_khz": 13, "memory_clock_khz": 36, "memory_bus_bits": 37,
    "l2_bytes": 38, "warp_size": 10, "max_threads_per_block": 1, "max_threads_per_multiprocessor": 39,
    "max_blocks_per_multiprocessor": 106, "registers_per_multiprocessor": 82, "shared_per_block_optin_bytes": 97,
    "shared_per_multiprocessor_bytes": 81}


@pytest.fixture
def driver(tmp_path):
    """Variables with which a driver of ours is found, which shows so many GPUs."""
    (tmp_path / "driver.c").write_text(DRIVER)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"], check=True)
    return lambda gpus: {"LD_LIBRARY_PATH": str(tmp_path), "FAKE_GPUS": str(gpus)}


def test_devices_of_a_driver(pitot, driver):
    first, second = pitot("devices", "--json", env=driver(2), json_output=True)
    for device, number in (first, 7), (second, 8):
        assert device["id"] == number - 7 and device["name"] == "Fake" and device["memory_bytes"] == 1 << 30
        assert device["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f" and device["pci"] == "0000:01:00.0"
        assert {name: device[name] for name in ATTRIBUTES} == {name: 1000 * which + number for name, which in ATTRIBUTES.items()}
        assert device["copy_engines"] is None  # the driver does not know it
    broken = pitot("devices", env={**driver(2), "FAKE_BROKEN": "1"}, status=1)
    assert broken.stdout == "" and "cuDeviceGetName: broken" in broken.stderr
    text = pitot("devices", env=driver(1)).stdout
    assert "16,007 multiprocessors" in text and "39,007 threads, 106,007 blocks, 82,007 registers" in text and "- copy engines" in text


def test_doctor_asks_the_driver(pitot, driver):
    def libcuda(gpus, **variables):
        value = json.loads(pitot("doctor", "--json", status=None, env={**driver(gpus), **variables}).stdout)
        return next(check for check in value["checks"] if check["name"] == "libcuda")

    assert libcuda(2)["detail"] == "CUDA 12.4, 2 GPUs (`pitot devices`)"
    assert libcuda(1)["detail"] == "CUDA 12.4, 1 GPU (`pitot devices`)"
    none = libcuda(0)
    assert (none["state"], none["detail"], none["advice"]) == ("missing", "CUDA 12.4, but no GPU is visible", "run nvidia-smi")
    assert libcuda(0, CUDA_VISIBLE_DEVICES="")["advice"] == "CUDA_VISIBLE_DEVICES hides them"


def test_colours(pitot):
    assert "\033[" not in pitot("help").stdout
    assert "\033[" in pitot("help", "--color", "always").stdout
    assert "\033[" in pitot("help", "--color=always", env={"NO_COLOR": "1"}).stdout
    assert "\033[" not in pitot("help", "--color", "never").stdout
    assert "'sometimes'" in pitot("help", "--color", "sometimes", status=2).stderr


def run_on_terminal(program, environment, *arguments, rows=0):
    """Output of the program on a terminal of its own, of so many rows (0: of unknown height)."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        os.execve(program, [str(program), *arguments], environment)
    output = b""
    try:
        while chunk := os.read(terminal, 65536):
            output += chunk
    except OSError:  # the other side is gone
        pass
    os.close(terminal)
    os.waitpid(pid, 0)
    return output.decode()


def test_colours_on_a_terminal(program, environment):
    assert "\033[" in run_on_terminal(program, environment, "help")
    assert "\033[" not in run_on_terminal(program, {**environment, "NO_COLOR": "1"}, "help")
    assert "\033[" not in run_on_terminal(program, {**environment, "TERM": "dumb"}, "help")


def test_pager(program, environment):
    def schema(rows, *options, **variables):
        return run_on_terminal(program, {**environment, "NO_COLOR": "1", **variables}, "schema", *options, rows=rows)

    numbered = {"PITOT_PAGER": "sed -n 's/^/> /p;5q'"}
    whole = schema(0)
    lines = whole.splitlines()
    assert len(lines) > 20
    assert schema(20, **numbered).splitlines() == [f"> {line}" for line in lines[:5]]
    assert schema(20, **{**numbered, "PAGER": "false"}) == schema(20, **numbered)
    unset = {key: value for key, value in environment.items() if key != "PITOT_PAGER"}
    assert run_on_terminal(program, {**unset, "PAGER": "sed 5q", "NO_COLOR": "1"}, "schema", rows=20).splitlines() == lines[:5]
    # not where it fits, is not wanted, or there is none
    assert schema(len(lines) + 1, **numbered) == whole
    assert schema(20, "--no-pager", **numbered) == whole
    assert schema(20, PITOT_PAGER="", PAGER="false") == whole
    assert schema(20, PITOT_PAGER="cat") == whole
    assert schema(20, **numbered, TERM="dumb") == whole
    assert run_on_terminal(program, {**unset, "PATH": "/nowhere", "NO_COLOR": "1"}, "schema", rows=20) == whole
    assert "give --no-pager" in schema(20, PITOT_PAGER="/nowhere/pager")


def test_a_pager_that_is_left_early(make_recording, program, environment, tmp_path):
    """What is longer than a pipe takes is not an error where the pager has been left."""
    recording, status = tmp_path / "long.pitot", tmp_path / "status"
    make_recording(recording, kernels=3000)
    shell = f"{program} view {recording} kernel --json --limit 0; echo $? > {status}"
    run_on_terminal("/bin/sh", {**environment, "PITOT_PAGER": "true"}, "-c", shell, rows=5)
    assert status.read_text() == "0\n"


def test_output_that_cannot_be_written(pitot, program, environment):
    with open("/dev/full", "w") as full:
        result = subprocess.run([program, "help"], stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr


def test_no_recording_here(pitot, declared):
    names = [command["name"] for command in declared["commands"]]
    for name in ("info", "report", "export", "view"):
        if name not in names:
            continue
        result = pitot(name, status=None)
        assert result.returncode in (1, 2) and result.stdout == ""
        assert "pitot record" in result.stderr, result.stderr


def test_man_pages(pitot, declared):
    overview = pitot("help", "--man").stdout
    assert overview.startswith('.TH "PITOT" "1"') and overview.isascii()
    for command in declared["commands"]:
        page = pitot("help", "--man", command["name"]).stdout
        assert page.startswith(f'.TH "PITOT\\-{command["name"].upper()}" "1"')
        assert page.isascii(), "formatters differ in what they take for UTF-8"
        for section in (".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"):
            assert section in page
        assert f"pitot\\-{command['name']}\\fR(1)" in overview
        for option in command["options"]:
            assert option["name"].replace("-", "\\-") in page
        assert not re.search(r"^\.SH .*\n\.PP", page, re.M)
        for line in page.splitlines():
            assert not line.startswith("'")
            if line.startswith("."):
                assert line.split()[0] in (".TH", ".SH", ".SS", ".PP", ".TP", ".nh", ".B"), line
