"""The timeline page as a reader of its own sees it: timeline.h says what stands where."""
import base64
import gzip
import json
import re
import struct


def numbers(column):
    value = shift = 0
    for byte in column:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0
    assert not shift


def read_slices(classes, count, gaps, durations, kinds, correlations):
    now = last = 0
    columns = [list(numbers(column)) for column in (gaps, durations, kinds, correlations)]
    assert {len(column) for column in columns} == {count}
    for gap, duration, kind, correlation in zip(*columns):
        last += ((correlation - 1) >> 1) ^ -((correlation - 1) & 1) if correlation else 0
        yield {**classes[kind], "start_ns": now + gap, "duration": duration, "correlation": last if correlation else None}
        now += gap + duration


def read_readings(count, gaps, values, *nothing):
    now = 0
    assert nothing == (b"", b"") and len(values) == 8 * count
    for gap, (value,) in zip(numbers(gaps), struct.iter_unpack("<d", values)):
        now += gap
        yield now, value


def read_class(data, kind, name, details):
    if isinstance(name, int):
        below = read_class(data, *data["classes"][name])
        assert data["kinds"][kind] == below["kind"]
        return {**below, "details": {**below["details"], **details}}
    return {"kind": data["kinds"][kind], "name": name, "details": details}


def stack_of(data, node):
    """Names of frames, the innermost first."""
    while node:
        parent, name = data["nodes"][node - 1]
        assert parent < node
        node = parent
        yield name


def page_data(text):
    return json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[0])


def read_page(path):
    """Its JSON; slices, from the start of the recording, with their track, row and class; readings by the group and name of their counter."""
    text = path.read_bytes().decode("utf-8")
    data = page_data(text)
    [columns] = re.findall(r'<script type="text/plain" id="columns">(.*?)</script>', text)
    columns, at = gzip.decompress(base64.b64decode(columns, validate=True)), 0
    classes, slices, readings = [read_class(data, *one) for one in data["classes"]], [], {}
    for group, kind, name, number, rows, *counter in data["tracks"]:
        for lane, depth, count, *lengths in rows:
            cuts = [columns[at + sum(lengths[:i]):at + sum(lengths[:i + 1])] for i in range(len(lengths))]
            at += sum(lengths)
            if counter:
                readings[data["groups"][group][0], name] = list(read_readings(count, *cuts))
                continue
            place = {"group": data["groups"][group][0], "track": kind, "track_name": name, "id": number, "row": (lane, depth)}
            slices += [{**place, **each} for each in read_slices(classes, count, *cuts)]
    assert at == len(columns)
    return data, slices, readings


def of_kind(slices, *kinds):
    return [each for each in slices if each["kind"] in kinds]


def read_part(body, data):
    """Its JSON; slices and readings, as of a page (timeline_served.h); a slice that stands for several has how many, and their time."""
    head, _, columns = body.partition(b"\n")
    part, at, slices, readings = json.loads(head), 0, [], {}
    rows = iter(part["rows"])
    classes = {int(number): one for number, one in part["classes"].items()}
    for group, kind, name, number, places, *counter in data["tracks"]:
        for lane, depth, *_ in places:
            count, *lengths = next(rows)
            cuts = [columns[at + sum(lengths[:i]):at + sum(lengths[:i + 1])] for i in range(len(lengths))]
            at += sum(lengths)
            if counter:
                readings[data["groups"][group][0], name] = list(read_readings(count, *cuts, b"", b""))
                continue
            place = {"group": data["groups"][group][0], "track": kind, "track_name": name, "id": number, "row": (lane, depth)}
            known = {c: read_class({**data, "classes": classes}, *one) for c, one in classes.items()}
            more, busy = list(numbers(cuts[4])), iter(numbers(cuts[5]))
            assert len(more) == count
            for others, each in zip(more, read_slices(known, count, *cuts[:4])):
                slices.append({**place, **each, "count": others + 1, "busy": next(busy) if others else each["duration"]})
            assert next(busy, None) is None
    assert at == len(columns) and next(rows, None) is None
    return part, slices, readings
