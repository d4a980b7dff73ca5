#!/usr/bin/env python3
"""Asks recordings in Parquet files which ranks of a job the others wait for, with DuckDB or with Spark.

	pitot export job.pitot -o job.parquet --partition
	stragglers.py job.parquet                                    DuckDB, on this machine
	stragglers.py job.parquet --spark 'local-cluster[2,1,1024]'  Spark, on any cluster
"""
import argparse
import json
import pathlib
import tempfile

# A kernel of NCCL starts when its rank arrives. Sends and receives count by pairs of ranks, so they are left out.
PARTS = """
CREATE OR REPLACE TEMPORARY VIEW parts AS
SELECT c.job, m.hash AS communicator, c.function, c.sequence, c.rank, {start} AS start_ns
FROM collective c
JOIN communicator m ON m.job = c.job AND m.host = c.host AND m.pid = c.pid AND m.session = c.session AND m.row = c.communicator
JOIN kernel k ON k.job = c.job AND k.host = c.host AND k.pid = c.pid AND k.session = c.session AND k.correlation = c.correlation
WHERE c.function NOT IN ('send', 'recv')
"""
TABLES = ("collective", "communicator", "kernel")
QUESTION = pathlib.Path(__file__).with_name("stragglers.sql").read_text(encoding="utf-8")


def ask_duckdb(folder):
    import duckdb

    connection = duckdb.connect()
    for table in TABLES:
        files = str(folder / table / "**/*.parquet").replace("'", "''")
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")
    connection.execute(PARTS.format(start="epoch_ns(k.start_ns)"))
    found = connection.execute(QUESTION)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row)) for row in found.fetchall()]


def ask_spark(folder, master):
    from pyspark.sql import SparkSession

    # Spark's timestamps have microseconds: those of recordings stay numbers.
    spark = (SparkSession.builder.master(master).appName("stragglers").config("spark.sql.legacy.parquet.nanosAsLong", "true")
             .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "8")
             .config("spark.sql.warehouse.dir", tempfile.gettempdir()).getOrCreate())
    try:
        for table in TABLES:
            spark.read.parquet(str(folder / table)).createOrReplaceTempView(table)
        spark.sql(PARTS.format(start="k.start_ns"))
        return [row.asDict() for row in spark.sql(QUESTION).collect()]
    finally:
        spark.stop()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path, help="made by pitot export --partition")
    arguments.add_argument("--spark", metavar="MASTER", help="ask Spark there, not DuckDB")
    options = arguments.parse_args()
    for row in ask_spark(options.folder, options.spark) if options.spark else ask_duckdb(options.folder):
        print(json.dumps({name: value if isinstance(value, (int, type(None))) else str(value) for name, value in row.items()}))


if __name__ == "__main__":
    main()
