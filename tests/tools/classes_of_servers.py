"""Writes the classes that servers load until a table has been written and read (`class_archives`).

Pravega keeps its data, where it can: so it has all that one in memory has, and a bookie.

Arguments: the file for Pravega's classes, and the one for the schema registry's.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.sandbox import Sandbox, data
from pyspark_pravega.sandbox.files import chosen
from pyspark_pravega.sandbox.places import java
from pyspark_pravega.settings import Settings


def _work(sandbox: Sandbox) -> None:
    addresses = {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    catalog = Catalog(Settings.resolve(addresses, environ={}))
    catalog.namespaces.create(["classes"], {})
    stream = catalog.tables.create(
        ["classes"], "t", StructType([StructField("id", LongType(), nullable=False)]), [], {}
    ).stream
    for _ in range(2):
        job = WriteJob(WritePlan.of(catalog.definition(stream, age_s=0), WriteOptions(transaction_timeout_ms=60_000)))
        job.commit_job([job.write_task(iter([pa.record_batch({"id": pa.array([1, 2], pa.int64())})]))])
    catalog.namespaces.drop(["classes"], cascade=True)


if __name__ == "__main__":
    keeps = chosen(None) in data.ABLE
    with tempfile.TemporaryDirectory() as folder, Sandbox(data_dir=folder, durable=keeps) as running:
        _work(running)
        for pid, file in zip((running.pravega_pid, running.registry_pid), sys.argv[1:], strict=True):
            command = [str(java().with_name("jcmd")), str(pid), "VM.cds", "dynamic_dump", file]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            assert Path(file).exists(), f"{command} has written nothing"
