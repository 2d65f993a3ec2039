"""A program that reads an empty stream, by the catalog and without it. Arguments: how it gets its session; the stream.

Its answer, as JSON: how many rows each read has found.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import pyspark_pravega
from pyspark_pravega.spark.jars import jar
from pyspark_pravega.sql.session import CATALOG_CLASS


def main() -> None:
    way, stream = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if way == "configure":
        builder = pyspark_pravega.configure(builder)
    elif way == "flags":
        builder = builder.config("spark.jars", str(jar())).config("spark.sql.catalog.pravega", CATALOG_CLASS)
    session = builder.getOrCreate()
    found = []
    for _ in range(2):
        if way != "source":
            scope, _, name = stream.partition("/")
            found.append(session.table(f"pravega.`{scope}`.{name}").count())
        found.append(session.read.format("pravega").load(stream).count())
    print(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main()
