#!/usr/bin/env python3
"""Copies the tables of a lake into Delta Lake or Iceberg, which replace many files at one moment, also in buckets.

	register.py /mnt/lake /mnt/tables                                   Delta Lake: pip install deltalake pyarrow
	register.py s3://pitot/v1 s3://pitot/tables                         the same in object storage
	register.py /mnt/lake /mnt/tables --format iceberg                  with a catalogue in SQLite: pip install 'pyiceberg[pyarrow,sql-sqlite]'
	register.py /mnt/lake /mnt/tables --compact                         and makes one file of those of each day that has got new ones

Each run adds what is new, in one commit for each table: the column `object` has the name of the file that a row is from, so rows of
an object are added once, whenever a run is killed. Run it before `pitot lake compact`, which gives rows other files. Neither format
has unsigned numbers and nanoseconds: `session` becomes 16 digits, and times are microseconds. Prints a JSON object for each table.
"""
import argparse
import json
import pathlib

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

TABLES = "step", "kernel_sketch", "loss"
MADE = ".compact-"  # in names of objects that `pitot lake compact` has made


def converted(table, date, name):
    """A table with types that both formats have, the day, and where it is from."""
    columns = {}
    for field in table.schema:
        column = table[field.name]
        if field.name == "session":
            column = pa.array([None if value is None else f"{value:016x}" for value in column.to_pylist()], pa.string())
        elif pa.types.is_timestamp(field.type):
            column = column.cast(pa.timestamp("us", "UTC"), safe=False)
        elif pa.types.is_unsigned_integer(field.type):
            column = column.cast(pa.int64())
        columns[field.name] = column
    for extra, value in ("date", date), ("object", name):
        columns[extra] = pa.array([value] * table.num_rows, pa.string())
    return pa.table(columns)


class Delta:
    def __init__(self, target):
        self.target = target

    def open(self, name):
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(f"{self.target}/{name}")
        except TableNotFoundError:
            return None

    def known(self, name):
        """By pyarrow alone: what deltalake reads through pyarrow calls Python on other threads, which abort the process if that ends first."""
        table, known = self.open(name), set()
        for uri in table.file_uris() if table else ():
            files, path = pyarrow.fs.FileSystem.from_uri(uri)
            date = pathlib.PurePosixPath(path).parent.name.partition("=")[2]
            known |= {(date, base) for base in pq.read_table(path, columns=["object"], filesystem=files, partitioning=None)["object"].to_pylist()}
        return known

    def append(self, name, rows):
        from deltalake import write_deltalake

        write_deltalake(f"{self.target}/{name}", rows, mode="append", partition_by=["date"])

    def compact(self, name, date):
        self.open(name).optimize.compact(partition_filters=[("date", "=", date)])

    def files(self, name):
        return len(self.open(name).file_uris())


class Iceberg:
    def __init__(self, target):
        from pyiceberg.catalog.sql import SqlCatalog

        if "://" in target:
            raise SystemExit("register.py: a catalogue in SQLite is for a folder: give another one in the code for object storage")
        pathlib.Path(target).mkdir(exist_ok=True)
        folder = pathlib.Path(target).resolve()
        self.catalog = SqlCatalog("pitot", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace_if_not_exists("pitot")

    def open(self, name):
        return self.catalog.load_table(f"pitot.{name}") if self.catalog.table_exists(f"pitot.{name}") else None

    def known(self, name):
        table = self.open(name)
        rows = table.scan(selected_fields=("date", "object")).to_arrow().to_pylist() if table else ()
        return {(row["date"], row["object"]) for row in rows}

    def append(self, name, rows):
        (self.open(name) or self.catalog.create_table(f"pitot.{name}", rows.schema)).append(rows)

    def compact(self, name, date):
        from pyiceberg.expressions import EqualTo

        table = self.open(name)
        table.overwrite(table.scan(row_filter=EqualTo("date", date)).to_arrow(), overwrite_filter=EqualTo("date", date))

    def files(self, name):
        return len(list(self.open(name).scan().plan_files()))


FORMATS = {"delta": Delta, "iceberg": Iceberg}


def compacted(files, root, name):
    """{object: state} by the manifests of a bucket: 1 is to be read, 2 is replaced (docs/lake.md)."""
    states = {}
    for info in files.get_file_info(pyarrow.fs.FileSelector(f"{root}/compacted/{name}", allow_not_found=True)):
        for row in pq.read_table(info.path, filesystem=files, partitioning=None).to_pylist():
            states[row["object"]] = max(states.get(row["object"], 0), row["state"])
    return states


def new_objects(files, root, name, known):
    """[(date, name, path)] of the objects of a table that are not registered."""
    states = compacted(files, root, name)
    found = files.get_file_info(pyarrow.fs.FileSelector(f"{root}/{name}", recursive=True, allow_not_found=True))
    objects = [(pathlib.PurePosixPath(info.path).parent.name.partition("=")[2], info.base_name, info.path) for info in found
               if info.is_file and info.base_name.endswith(".parquet") and not info.base_name.startswith(".") and info.base_name != "schema.parquet"]
    if states or files.get_file_info(f"{root}/compacted").type != pyarrow.fs.FileType.NotFound:
        objects = [one for one in objects if states.get(one[1], 2 if MADE in one[1] else 1) == 1]
    days = {date for date, _ in known}
    for date, base, _ in objects:
        if MADE in base and (date, base) not in known and date in days:
            raise SystemExit(f"register.py: '{name}/date={date}' was compacted after some of its objects were registered: remove that day from the "
                             "table, and run this again")
    return [one for one in objects if one[:2] not in known]


def register(files, root, name, target, compacts):
    objects = new_objects(files, root, name, target.known(name))
    if objects:
        parts = [converted(pq.read_table(path, filesystem=files, partitioning=None), date, base) for date, base, path in objects]
        target.append(name, pa.concat_tables(parts, promote_options="default"))
    for date in sorted({date for date, *_ in objects}) if compacts else ():
        target.compact(name, date)
    return {"table": name, "objects": len(objects), "files": target.files(name) if target.open(name) else 0}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("lake", help="folder, or s3://BUCKET/PREFIX")
    arguments.add_argument("target", help="where the tables are, or will be")
    arguments.add_argument("--format", choices=FORMATS, default="delta")
    arguments.add_argument("--compact", action="store_true")
    options = arguments.parse_args()
    lake = options.lake if "://" in options.lake else str(pathlib.Path(options.lake).resolve())
    files, root = pyarrow.fs.FileSystem.from_uri(lake)
    target = FORMATS[options.format](options.target)
    for name in TABLES:
        print(json.dumps(register(files, root, name, target, options.compact)))


if __name__ == "__main__":
    main()
