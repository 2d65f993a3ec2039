"""A Spark program as a user writes it, on a cluster that asks who you are: it prints all that Spark shows of itself.

Arguments: the folder of the event log. Standard input: a line of JSON with the connection.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import urllib.request
from collections.abc import Callable

from pyspark.sql import SparkSession

import pyspark_pravega

ARGUMENTS = {
    "controller": "controller-uri",
    "schema_registry": "schema-registry-uri",
    "username": "username",
    "password": "password",
    "tls_ca": "tls-ca",
}
"""The parameters of `configure`, and the options that they stand for."""


def shown(what: str, show: Callable[[], object]) -> None:
    print(f"== {what}")
    try:
        print(show())
    except Exception:
        traceback.print_exc(file=sys.stdout)


def main() -> None:
    connection = json.loads(sys.stdin.readline())
    builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "localhost")
    builder = builder.config("spark.ui.enabled", "true")
    for key, value in {"enabled": "true", "compress": "false", "dir": f"file://{sys.argv[1]}"}.items():
        builder = builder.config(f"spark.eventLog.{key}", value)
    given = {name: connection[key] for name, key in ARGUMENTS.items()}
    spark = pyspark_pravega.configure(builder, **given).getOrCreate()

    def sql(statement: str) -> None:
        shown(statement, lambda: "\n".join(map(str, spark.sql(statement).collect())))

    spark.sql("CREATE NAMESPACE pravega.secure_program")
    spark.sql("CREATE TABLE pravega.secure_program.t CLUSTERED BY (s) INTO 2 BUCKETS AS SELECT id, 's' s FROM range(9)")
    spark.sql("INSERT INTO pravega.secure_program.t SELECT id, 'x' FROM range(10, 20)")
    # An option can't say whom to trust: the environment does.
    own = {key: value for key, value in connection.items() if key != "tls-ca"}
    stream = {**own, "stream": "secure-program/t"}
    spark.range(5).selectExpr("id", "'y' s").write.format("pravega").options(**stream).mode("append").save()
    read = spark.read.format("pravega").options(**stream).load()
    # Credentials that come from a plug-in: in the catalog process, and in Spark's workers.
    prefix = "spark.sql.catalog.plugged"
    spark.conf.set(prefix, "pyspark.pravega.PravegaCatalog")
    plugged = {key: connection[key] for key in ("controller-uri", "schema-registry-uri", "tls-ca")}
    for key, value in {**plugged, "credentials-provider": "my_credentials:Mine"}.items():
        spark.conf.set(f"{prefix}.{key}", value)
    spark.sql("CREATE NAMESPACE plugged.secure_reader")
    spark.sql("CREATE TABLE plugged.secure_reader.t AS SELECT id FROM range(10)")
    print("rows:", spark.table("pravega.secure_program.t").count(), read.where("s = 'y'").count())

    for statement in (
        "SET",
        "SET -v",
        "SHOW TBLPROPERTIES pravega.secure_program.t",
        "SHOW CREATE TABLE pravega.secure_program.t",
        "DESCRIBE EXTENDED pravega.secure_program.t",
        "DESCRIBE NAMESPACE EXTENDED pravega.secure_program",
        "EXPLAIN EXTENDED SELECT * FROM pravega.secure_program.t",
        "EXPLAIN FORMATTED INSERT INTO pravega.secure_program.t VALUES (1, 'x')",
        "SELECT * FROM pravega.secure_program.nope",
        "SELECT * FROM pravega.secure_program.t WITH ('nope' = '1')",
    ):
        sql(statement)
    shown("explain", lambda: read.explain("extended"))
    wrong = spark.range(1).selectExpr("id AS nope").write.format("pravega").options(**stream).mode("append")
    shown("wrong columns", wrong.save)
    shown("wrong option", lambda: spark.read.format("pravega").options(**stream, nope="1").load())

    def refused(words: str, **changes: str) -> None:
        catalog = words.replace(" ", "_")
        given = {name: {**connection, **changes}.get(key) for name, key in ARGUMENTS.items()}
        pyspark_pravega.configure(SparkSession.builder, catalog=catalog, **given).getOrCreate()
        shown(f"refused: {words}", lambda: spark.sql(f"SHOW NAMESPACES IN {catalog}").collect())

    refused("wrong password", password=connection["password"] + "-not")
    refused("nobody", username="", password="")
    refused("unknown authority", **{"tls-ca": os.environ["OTHER_CA"]})
    refused("without TLS", **{"controller-uri": connection["controller-uri"].replace("tls:", "tcp:")})
    another = spark.newSession()
    shown("another session", lambda: another.sql("SHOW TABLES IN pravega.secure_program").collect())

    application = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    for page in ("environment", "sql?details=true&planDescription=true&length=1000", "jobs", "stages"):
        with urllib.request.urlopen(f"{application}/{page}") as answer:
            print(f"== {page}\n{answer.read().decode()}")
    spark.sql("DROP NAMESPACE pravega.secure_program CASCADE")
    spark.stop()


if __name__ == "__main__":
    main()
