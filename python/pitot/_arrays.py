"""Helpers: columns as numpy arrays, counter readings in their units, optional parts of a report."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pitot import Recording, Table


def needs(module: str, what: str) -> Any:
    """Imports an optional dependency."""
    import importlib

    from pitot import Error

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise Error(f"{what} needs {package}: pip install {package}") from error


def busy_ns(gpu: dict[str, Any]) -> int:
    """Busy time of a GPU in a report; 0 for a GPU without work, which has no entry."""
    return int(gpu["busy"]["union_ns"]) if "busy" in gpu else 0


def arrow_of(table: Table, what: str) -> Any:
    """Converts dictionaries to strings and all integers to int64, so that consumers need no other types."""
    pa = needs("pyarrow", what)
    arrow = table.to_arrow()
    for i, field in enumerate(arrow.schema):
        kind = (
            pa.string() if pa.types.is_dictionary(field.type) else pa.int64() if pa.types.is_integer(field.type) else field.type
        )
        arrow = arrow.set_column(i, field.name, arrow.column(i).cast(kind, safe=False))
    return arrow


def arrays_of(table: Table, what: str) -> dict[str, Any]:
    """Columns as numpy arrays. Numbers with missing values become floats, with NaN."""
    arrow = arrow_of(table, what)
    return {name: arrow[name].to_numpy() for name in arrow.column_names}


def readings(recording: Recording, what: str, *conditions: str) -> dict[str, Any]:
    """Columns pid, device (-1: the machine), time_ns, counter, and value in the counter's unit."""
    import numpy

    arrays = arrays_of(recording.counters.where(*conditions), what)
    raw = arrays["value"].astype("int64")
    is_real = arrays["counter.reading"] == "real"
    arrays["value"] = numpy.where(is_real, raw.view("float64"), raw / 10.0 ** arrays.pop("counter.decimals").astype("float64"))
    arrays["device"] = numpy.nan_to_num(arrays["device"].astype("float64"), nan=-1).astype("int64")
    return arrays
