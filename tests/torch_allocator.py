"""A model of PyTorch's caching allocator on one GPU, with the interface of torch.cuda that pitot.torch.memory() uses.

Written from the allocator's rules, with sorted lists: the smallest free block that fits, split unless the rest is too small.
"""
import types

KIB, MIB = 1 << 10, 1 << 20


class Allocator:
    def __init__(self, expandable=False, max_split=None, clock=None):
        self.expandable, self.max_split = expandable, max_split
        self.segments = []  # [address, size, small, blocks]; a block is [address, size, requested or None]
        self.next_address = 1 << 40
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self.history, self.on, self.time_us = [], False, 1_700_000_000_000_000
        self.clock = clock or self._tick
        self.frames = [{"name": "main", "filename": "train.py", "line": 1}]

    def _tick(self):
        self.time_us += 3
        return self.time_us

    def _record(self, action, address, size):
        if self.on:
            self.history.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.clock(), "frames": self.frames})

    def _reserve(self, size, small):
        if self.expandable:  # one segment for each pool, which grows at its end
            unit = 2 * MIB if small else 20 * MIB
            segment = next((s for s in self.segments if s[2] == small), None)
            if segment is None:
                segment = [self.next_address, 0, small, []]
                self.next_address += 1 << 36
                self.segments.append(segment)
            blocks, end = segment[3], segment[0] + segment[1]
            free = blocks[-1] if blocks and blocks[-1][2] is None and blocks[-1][0] + blocks[-1][1] == end else None
            grow = -(-(size - (free[1] if free else 0)) // unit) * unit
            segment[1] += grow
            self._record("segment_map", end, grow)
            if free:
                free[1] += grow
            else:
                blocks.append([end, grow, None])
        else:
            grow = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            segment = [self.next_address, grow, small, [[self.next_address, grow, None]]]
            self.next_address += grow + 4 * MIB
            self.segments.append(segment)
            self._record("segment_alloc", segment[0], grow)
        self.reserved += grow
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def malloc(self, requested):
        size = max(-(-requested // 512) * 512, 512)
        small = size <= MIB
        fits = lambda: min(((b[1], b[0], s, b) for s in self.segments if s[2] == small for b in s[3] if b[2] is None and b[1] >= size),
                           key=lambda found: found[:2], default=None)
        if fits() is None:
            self._reserve(size, small)
        _, address, segment, block = fits()
        rest = block[1] - size
        if rest >= 512 if small or self.expandable else rest > MIB and (self.max_split is None or size < self.max_split):
            segment[3].insert(segment[3].index(block) + 1, [address + size, rest, None])
            block[1] = size
        block[2] = requested
        self._record("alloc", address, requested)
        self.allocated += block[1]
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return address

    def free(self, address):
        segment, block = next((s, b) for s in self.segments for b in s[3] if b[0] == address)
        self._record("free_requested", address, block[2])
        self._record("free_completed", address, block[2])
        self.allocated -= block[1]
        block[2], blocks = None, segment[3]
        at = blocks.index(block)
        for left in (at, at - 1):
            if 0 <= left and left + 1 < len(blocks) and blocks[left][2] is None and blocks[left + 1][2] is None:
                blocks[left][1] += blocks.pop(left + 1)[1]

    def empty_cache(self):
        for segment in list(self.segments):
            if self.expandable:  # unmaps whole units at the end, which may be a part of what was mapped at once
                unit, last = (2 * MIB if segment[2] else 20 * MIB), segment[3][-1] if segment[3] else None
                if last and last[2] is None and last[1] >= unit:
                    gone = last[1] // unit * unit
                    last[1] -= gone
                    segment[1] -= gone
                    self.reserved -= gone
                    if not last[1]:
                        segment[3].pop()
                    self._record("segment_unmap", segment[0] + segment[1], gone)
            elif len(segment[3]) == 1 and segment[3][0][2] is None:
                self.segments.remove(segment)
                self.reserved -= segment[1]
                self._record("segment_free", segment[0], segment[1])

    def snapshot(self):
        found = []
        for address, size, small, blocks in self.segments:
            used = sum(b[1] for b in blocks if b[2] is not None)
            found.append({"device": 0, "address": address, "total_size": size, "allocated_size": used, "active_size": used, "stream": 0,
                          "segment_type": "small" if small else "large", "segment_pool_id": (0, 0), "is_expandable": self.expandable, "frames": [],
                          "blocks": [{"address": a, "size": s, "requested_size": r or 0, "frames": self.frames,
                                      "state": "inactive" if r is None else "active_allocated"} for a, s, r in blocks]})
        return {"segments": found, "device_traces": [list(self.history)],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": self.expandable,
                                       "max_split_size": -1 if self.max_split is None else self.max_split}}


def stand_in(allocator, version="2.9.0"):
    """A module like torch, as far as pitot.torch.memory() needs it. out_of_memory() is what the allocator calls then."""
    torch = types.ModuleType("torch")
    observers = []

    def record(enabled="all", context="all", stacks="all", max_entries=1 << 62):
        allocator.on = enabled is not None
        torch.requested = {"enabled": enabled, "context": context, "stacks": stacks, "max_entries": max_entries}

    memory = types.SimpleNamespace(_record_memory_history=record, _snapshot=allocator.snapshot)
    torch.__version__ = version
    torch.cuda = types.SimpleNamespace(memory=memory, is_available=lambda: True)
    torch._C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=observers.append)
    torch.out_of_memory = lambda size: [observer(0, size, allocator.allocated, 0) for observer in observers]
    return torch
