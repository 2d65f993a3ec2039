"""A program that is submitted with configuration, and calls `configure` for one catalog after another.

It asks no server. The argument, JSON, says what it does. Its answer, as JSON: what it is configured with in the end.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

import pyspark_pravega


def main() -> None:
    asked = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in asked["builder"].items():
        builder = builder.config(key, value)
    for catalog, given in asked["catalogs"].items():
        builder = pyspark_pravega.configure(builder, catalog=catalog, **given)
    session = builder.getOrCreate()
    # A session that is there keeps what it has, but for what `configure` has given it.
    for key, value in asked["set"].items():
        session.conf.set(key, value)
    os.environ.update(asked["environment"])
    for catalog, given in asked["later"].items():
        pyspark_pravega.configure(SparkSession.builder, catalog=catalog, **given).getOrCreate()
    jvm: Any = session.sparkContext._jvm
    loaded = jvm.java.lang.Class.forName(
        "pyspark.pravega.PravegaCatalog", True, jvm.java.lang.Thread.currentThread().getContextClassLoader()
    )
    jars = session.sparkContext.getConf().get("spark.jars", "")
    print(json.dumps({"conf": dict(session.conf.getAll), "jars": jars, "class": loaded.getName()}))
    session.stop()


if __name__ == "__main__":
    main()
