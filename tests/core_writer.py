"""Writes core files: of a running process, as the OS kernel would, or of given parts."""
import ctypes
import platform
import struct
from pathlib import Path

PRSTATUS, PRPSINFO, FILE = 1, 3, 0x46494C45
MACHINE = {"x86_64": 62, "aarch64": 183}[platform.machine()]
SEIZE, INTERRUPT, GETREGSET, DETACH = 0x4206, 0x4207, 0x4204, 17
READ, WRITE, EXECUTE = 4, 2, 1
PAGE = 4096


def note(kind, data):
    padded = data + b"\0" * (-len(data) % 4)
    return struct.pack("<III", 5, len(data), kind) + b"CORE\0\0\0\0" + padded


def prstatus(tid, registers, signal=0):
    return note(PRSTATUS, struct.pack("<iiihxxQQiiii64x", signal, 0, 0, signal, 0, 0, tid, 0, 0, 0) + registers + b"\0" * 8)


def prpsinfo(pid, name, command):
    return note(PRPSINFO, struct.pack("<4b4xQIIiiii16s80s", 0, ord("S"), 0, 0, 0, 0, 0, pid, 0, 0, 0, name.encode(), command.encode()))


def mapped_files(mappings):
    """(start, end, offset in the file, path)"""
    entries = b"".join(struct.pack("<QQQ", start, end, offset // PAGE) for start, end, offset, _ in mappings)
    return note(FILE, struct.pack("<QQ", len(mappings), PAGE) + entries + b"".join(path.encode() + b"\0" for *_, path in mappings))


def core_bytes(notes, loads):
    """loads: (address, flags, size, bytes of the beginning)"""
    offset = 64 + 56 * (len(loads) + 1)
    head = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 4, MACHINE, 1, 0, 64, 0, 0, 64, 56, len(loads) + 1, 64, 0, 0)
    headers, contents = struct.pack("<IIQQQQQQ", 4, 0, offset, 0, 0, len(notes), 0, 4), notes
    for address, flags, size, data in loads:
        headers += struct.pack("<IIQQQQQQ", 1, flags, offset + len(contents), address, 0, len(data), size, PAGE)
        contents += data
    return head + headers + contents


def thread_registers(tid):
    """Of a thread that sleeps, which is stopped for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(1024)
    part = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), len(buffer))
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    assert libc.ptrace(SEIZE, tid, None, None) == 0 and libc.ptrace(INTERRUPT, tid, None, None) == 0, ctypes.get_errno()
    libc.waitpid(tid, ctypes.byref(ctypes.c_int()), 0x40000000)
    assert libc.ptrace(GETREGSET, tid, PRSTATUS, ctypes.addressof(part)) == 0
    libc.ptrace(DETACH, tid, None, None)
    return buffer.raw[: part[1]]


def write_core(path, pid, whole=False):
    """Without code and constants, which are in the files that were mapped, unless it is to be whole. All threads must sleep."""
    mappings, loads = [], []
    tids = sorted((int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()), key=lambda tid: tid != pid)
    notes = b"".join(prstatus(tid, thread_registers(tid), 11 if tid == pid else 0) for tid in tids)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            flags = sum(bit for letter, bit in zip(words[1], (READ, WRITE, EXECUTE)) if letter != "-")
            is_file = len(words) > 5 and words[5].startswith("/")
            if is_file:
                mappings.append((start, end, int(words[2], 16), words[5]))
            data = b""
            is_kernels = len(words) > 5 and words[5].startswith("[v") and words[5] != "[vdso]"
            if flags & READ and (whole or flags & WRITE or not is_file) and not is_kernels:
                memory.seek(start)
                while len(data) < end - start:
                    data += memory.read(end - start - len(data))
            elif is_file and int(words[2], 16) == 0:
                memory.seek(start)
                data = memory.read(PAGE)
            loads.append((start, flags, end - start, data))
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:79]
    notes = prpsinfo(pid, Path(f"/proc/{pid}/comm").read_text().strip(), command) + notes + mapped_files(mappings)
    Path(path).write_bytes(core_bytes(notes, loads))
