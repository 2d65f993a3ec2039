"""Brings a folder of files into a stream, every record once, however often this program is killed and started again.

    python examples/ingest_files.py --files /data/incoming --checkpoint /data/checkpoint --table pravega.shop.orders

Files of JSON lines that are moved into the folder are written, some of them as one transaction; with `--once` the
program ends when there are no more. What has been read lies in the checkpoint, what has been written in the table's
commit log: see docs/ingestion.md.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

import pyspark_pravega


def main() -> None:
    """Run as the command line says."""
    arguments = _arguments()
    builder: SparkSession.Builder = SparkSession.builder
    spark = pyspark_pravega.configure(builder.appName("ingest files")).getOrCreate()
    columns = spark.table(arguments.table).schema
    files = (
        spark.readStream.schema(columns)
        # Fail on a malformed record: it would be lost without a word otherwise.
        .option("mode", "FAILFAST")
        .option("maxFilesPerTrigger", arguments.files_per_transaction)
        .format(arguments.format)
        .load(arguments.files)
    )
    writer = files.writeStream.option("checkpointLocation", arguments.checkpoint)
    if arguments.once:
        writer = writer.trigger(availableNow=True)
    query = writer.toTable(arguments.table)
    query.awaitTermination()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Bring a folder of files into a stream, every record once.")
    parser.add_argument("--files", required=True, help="the folder; move files into it when they are complete")
    parser.add_argument("--checkpoint", required=True, help="a folder of this program's own, kept between starts")
    parser.add_argument("--table", required=True, help="the table, pravega.namespace.table")
    parser.add_argument("--format", default="json", help="the files' format, one of Spark's: json, csv, parquet, ...")
    parser.add_argument("--files-per-transaction", type=int, default=1, help="how many files at most are one commit")
    parser.add_argument("--once", action="store_true", help="end when all files are written")
    return parser.parse_args()


if __name__ == "__main__":
    main()
