#!/usr/bin/env python3
"""Asks a lake the questions of questions.sql, with DuckDB, ClickHouse or Spark.

	ask.py /mnt/lake                                                    DuckDB, on this machine
	ask.py /mnt/lake gpu_hours losses                                   only these questions
	ask.py /mnt/lake --engine clickhouse                                ClickHouse's engine, in this process
	ask.py /mnt/lake --engine spark --master 'local-cluster[2,1,1024]'  Spark, on any cluster

Prints a JSON object for each question. pip install duckdb, chdb-core, or pyspark and Java 17.
"""
import argparse
import decimal
import json
import pathlib
import re
import tempfile

QUESTIONS = dict(re.findall(r"^-- (\w+): [^\n]*\n((?:[^\n-][^\n]*\n)+)", pathlib.Path(__file__).with_name("questions.sql").read_text(encoding="utf-8"),
                            re.M))


def statements(text):
    """Those of a file of `pitot lake init`, without comments."""
    return [part.strip() for part in re.sub(r"^--.*$", "", text, flags=re.M).split(";\n") if part.strip()]


def ask_duckdb(views, questions):
    import duckdb

    connection = duckdb.connect()
    for statement in views:
        connection.execute(statement)
    for name, question in questions.items():
        found = connection.execute(question)
        columns = [column[0] for column in found.description]
        yield name, [dict(zip(columns, row)) for row in found.fetchall()]


def ask_clickhouse(views, questions):
    from chdb.session import Session

    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder)
        try:
            for statement in views:
                session.query(statement)
            for name, question in questions.items():
                text = str(session.query(question.rstrip().rstrip(";") + " FORMAT JSONEachRow SETTINGS output_format_json_quote_64bit_integers = 0"))
                yield name, [json.loads(line) for line in text.splitlines()]
        finally:
            session.close()


def ask_spark(views, questions, master):
    from pyspark.sql import SparkSession

    # Only this machine's network: the driver and local workers would listen on all addresses. Nothing is stored, but Spark makes a folder for it.
    spark = (SparkSession.builder.master(master).appName("pitot lake").config("spark.ui.enabled", "false")
             .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
             .config("spark.sql.shuffle.partitions", "4").config("spark.sql.ansi.enabled", "false")
             .config("spark.sql.warehouse.dir", tempfile.gettempdir()).getOrCreate())
    try:
        for statement in views:
            spark.sql(statement)
        for name, question in questions.items():
            yield name, [row.asDict() for row in spark.sql(question.rstrip().rstrip(";")).collect()]
    finally:
        spark.stop()


def plain(value):
    """A value of any engine as JSON has it."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("lake", type=pathlib.Path, help="folder of `pitot lake init`")
    arguments.add_argument("question", nargs="*", help=f"of {', '.join(QUESTIONS)} (default: all)")
    arguments.add_argument("--engine", choices=("duckdb", "clickhouse", "spark"), default="duckdb")
    arguments.add_argument("--master", default="local[2]", help="of Spark")
    options = arguments.parse_intermixed_args()
    if unknown := set(options.question) - set(QUESTIONS):
        arguments.error(f"no question '{min(unknown)}'")
    questions = {name: text for name, text in QUESTIONS.items() if not options.question or name in options.question}
    views = statements((options.lake / "sql" / f"{options.engine}.sql").read_text(encoding="utf-8"))
    more = (options.master,) if options.engine == "spark" else ()
    for name, rows in globals()[f"ask_{options.engine}"](views, questions, *more):
        print(json.dumps({"question": name, "rows": [{key: plain(value) for key, value in row.items()} for row in rows]}))


if __name__ == "__main__":
    main()
