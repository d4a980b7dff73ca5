"""Writes core files of GPUs as NVIDIA's driver does, by the format's description in the toolkit's public header."""
import struct

CUDA, CORE = 190, 4
LOUSER = 0x80000000
IMAGE, DEVICES, SMS, GRIDS, BLOCKS, WARPS, THREADS = 7, 9, 11, 12, 13, 14, 15
ILLEGAL_ADDRESS, ASSERT = 14, 12
SECTION = "<IIQQQQIIQQ"
SYMBOL = "<IBBHQQ"


def elf(machine, kind, sections):
    """sections: (name, type, flags, address, contents, link, info, entry size); the first one is number 1."""
    names, bodies, headers = bytearray(1), bytearray(), bytearray(64)
    offset = 64
    table = [*sections, (".shstrtab", 3, 0, 0, None, 0, 0, 0)]
    starts = []
    for name, *_ in table:
        starts.append(len(names))
        names += name.encode() + b"\0"
    for start, (_, section, flags, address, contents, link, info, entry) in zip(starts, table):
        contents = bytes(names) if contents is None else contents
        bodies += bytes(-len(bodies) % 8)
        headers += struct.pack(SECTION, start, section, flags, address, offset + len(bodies), len(contents), link, info, 8, entry)
        bodies += contents
    bodies += bytes(-len(bodies) % 8)
    count = len(table) + 1
    head = struct.pack("<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0x33, 7, kind, machine, 1, 0, 0, offset + len(bodies), 0, 64, 0, 0, 64,
                       count if count < 0xFF00 else 0, count - 1 if count < 0xFF00 else 0xFFFF)
    if count >= 0xFF00:
        struct.pack_into(SECTION, headers, 0, 0, 0, 0, 0, 0, count, count - 1, 0, 0, 0)
    return head + bytes(bodies + headers)


def sections_of(file):
    """[name, offset of the header, the header's fields] of each section."""
    start, count, names = struct.unpack_from("<Q", file, 40)[0], *struct.unpack_from("<HH", file, 60)
    headers = [struct.unpack_from(SECTION, file, start + 64 * i) for i in range(count)]
    text = headers[names][4]
    return [(bytes(file[text + header[0]:file.index(0, text + header[0])]).decode(), start + 64 * i, header) for i, header in enumerate(headers)]


def relocated(cubin, base, absolute_symbols=False):
    """Device code as the driver loads it: each code section gets an address, which lines refer to. And the addresses by name."""
    file, addresses = bytearray(cubin), {}
    sections = sections_of(file)
    for name, at, header in sections:
        if name.startswith(".text."):
            addresses[name[6:]] = base
            struct.pack_into("<Q", file, at + 16, base)
            base += (header[5] + 0xFFF) & ~0xFFF
    for name, at, header in sections:
        if name not in (".rel.debug_line", ".rela.debug_line"):
            continue
        lines, symbols = sections[header[7]][2], sections[header[6]][2]
        size = 24 if name.startswith(".rela") else 16
        for entry in range(header[4], header[4] + header[5], size):
            offset, info = struct.unpack_from("<QQ", file, entry)
            _, _, _, section, value, _ = struct.unpack_from(SYMBOL, file, symbols[4] + 24 * (info >> 32))
            addend = struct.unpack_from("<Q", file, entry + 16 if size == 24 else lines[4] + offset)[0]
            struct.pack_into("<Q", file, lines[4] + offset, addresses[sections[section][0][6:]] + value + addend)
    for name, at, header in sections:
        if name != ".symtab" or not absolute_symbols:
            continue
        for entry in range(header[4], header[4] + header[5], 24):
            _, _, _, section, value, _ = struct.unpack_from(SYMBOL, file, entry)
            if section < len(sections) and sections[section][0].startswith(".text."):
                struct.pack_into("<Q", file, entry + 8, addresses[sections[section][0][6:]] + value)
    return bytes(file), addresses


class GpuCore:
    """A GPU with one grid. Rows are as long as since driver 575, or as in the first version with `is_old`."""

    def __init__(self, is_old=False):
        self.is_old, self.sections, self.images = is_old, [], []
        self.device = self.add(".cudbg.devtbl", DEVICES, struct.pack("<QQQIIIIIIIIIIII", 0, 0, 0, 0, 1, 0, 132, 64, 32, 255, 7, 9, 0, 16, 0), 72, 84)
        self.grid_rows, self.sm_rows, self.blocks = [], [], []

    def add(self, name, kind, rows, old, new, link=0, info=0):
        """Rows of the first version, padded to the newer one. The number of the section."""
        size = old if self.is_old else new
        padded = b"".join(rows[at:at + old] + bytes(size - old) for at in range(0, len(rows), old)) if len(rows) % old == 0 else rows
        self.sections.append((name, LOUSER + kind, 0, 0, padded, link, info, size))
        return len(self.sections)

    def grid(self, number, entry, size=(4, 1, 1), block=(64, 1, 1), thread=0):
        self.grid_rows.append(struct.pack("<QQQQQQQIIIIIIIIIIII", number, 1, 2, entry, 3, 0, 0, 0, 0, 2, 32, *size, *block, 0, thread))

    def image(self, contents):
        self.images.append(contents)

    def sm(self, number, exception=0, pc=0):
        row = struct.pack("<II", number, 0)
        if not self.is_old:
            row += struct.pack("<IIQIIII", exception, pc != 0, pc, 0, 0, 0, 0) + bytes(8)
        self.sm_rows.append(row)
        return len(self.sm_rows) - 1

    def block(self, sm, grid, index, warps):
        """warps: (number, valid, active, is_broken, address of the error or 0, [(lane, thread index, pc, offset, exception, depth)])"""
        self.blocks.append((sm, grid, index, warps))

    def bytes(self, extra=0):
        self.add(".cudbg.gridtbl.dev0", GRIDS, b"".join(self.grid_rows), 104, 136, self.device, 0)
        self.sections.append((".cudbg.smtbl.dev0", LOUSER + SMS, 0, 0, b"".join(self.sm_rows), self.device, 0, 8 if self.is_old else 48))
        sms = len(self.sections)
        for sm in sorted({block[0] for block in self.blocks}):
            mine = [block for block in self.blocks if block[0] == sm]
            rows = b"".join(struct.pack("<QIIII", grid, *index, 0) for _, grid, index, _ in mine)
            blocks = self.add(f".cudbg.ctatbl.dev0.sm{sm}", BLOCKS, rows, 24, 56, sms, sm)
            for number, (_, _, _, warps) in enumerate(mine):
                rows = b"".join(struct.pack("<QIIIIII", error, warp, valid, active, broken, error != 0, 0) for warp, valid, active, broken, error, _ in warps)
                table = self.add(f".cudbg.wptbl.dev0.sm{sm}.cta{number}", WARPS, rows, 32, 64, blocks, number)
                for row, (*_, lanes) in enumerate(warps):
                    rows = b"".join(struct.pack("<QQIIIIIIII", pc, offset, lane, *index, exception, depth, 0, 0)
                                    for lane, index, pc, offset, exception, depth in lanes)
                    self.add(f".cudbg.lntbl.dev0.sm{sm}.cta{number}.wp{row}", THREADS, rows, 48, 56, table, row)
        for contents in self.images:
            self.sections.append((".cudbg.relfimg.dev0.ctx0", LOUSER + IMAGE, 0, 0, contents, 0, 0, 1))
        self.sections += [(".cudbg.regs", LOUSER + 5, 0, 0, b"\0" * 4, 0, 0, 4)] * extra
        return elf(CUDA, CORE, self.sections)


def faulting_core(cubin, kernel, offset=0x40, exception=ILLEGAL_ADDRESS, base=0x7F0000000000, is_old=False, absolute_symbols=False, thread=0):
    """Thread (5, 0, 0) of block (3, 0, 0) and the next have the exception; all other threads wait elsewhere."""
    image, addresses = relocated(cubin, base, absolute_symbols)
    entry = addresses[kernel]
    core = GpuCore(is_old)
    core.grid(9, entry, thread=thread)
    core.image(image)
    core.sm(0)
    core.sm(1, exception, entry + offset)
    sleeping = [(lane, (lane, 0, 0), entry + 0x10, 0x10, 0, 0) for lane in range(32)]
    core.block(0, 9, (0, 0, 0), [(0, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, sleeping)])
    lanes = [(lane, (lane, 0, 0), entry + offset + 0x30, offset + 0x30, exception if lane in (5, 6) else 0, 0) for lane in range(32)]
    core.block(1, 9, (3, 0, 0), [(2, 0xFFFFFFFF, 0x60, 0, entry + offset, lanes)])
    return core
