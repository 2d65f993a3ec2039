"""Every kind of table by every way to read it: its rows, or what it is in one sentence, when the read is defined."""

from __future__ import annotations

import itertools

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

PAIRS = {(1, "a"), (2, "b")}
ENTRIES = {(b"key-0001", b"one"), (b"key-0002", b"two")}
ROWS = {"plain": PAIRS, "keyed": PAIRS, "entries": PAIRS, "of_others": ENTRIES}
"""What tables hold; and those of them by whose name nothing is read have none."""
OTHERS = ["keyed$log", "plain$changes", "plain$commits", "entries$commits", "plain$versions", "missing"]
BY_CATALOG = "tells of a stream, and has a name in catalogs only: read it as a table of one, such as pravega."
KEY_VALUE = "is a key-value table, which has neither versions nor a history"
ALL_OF_THEM = "changes, commits, copies, cuts, epochs, lake, log, properties, schemas, segments, transactions"


def words_of(table: str, trigger: str, way: str) -> str | None:
    """What a read is refused with; None where it gives rows."""
    if "$" in table and way == "format":
        return BY_CATALOG
    if table == "missing":
        return "TABLE_OR_VIEW_NOT_FOUND" if way == "catalog" else "does not exist"
    if table == "plain$versions":
        return f'has no metadata table "versions"; did you mean "commits"? There are {ALL_OF_THEM}'
    if table == "entries$commits" or (table in ("entries", "of_others") and trigger == "streaming"):
        return KEY_VALUE
    if table == "keyed" and trigger == "streaming":
        return "the table has a primary key, so its rows change. Read its events, a row for each change, from"
    if table == "plain$commits" and trigger == "streaming":
        return "UNSUPPORTED_FEATURE.TABLE_OPERATION"
    return None


@pytest.mark.in_turn(8)
def test_every_kind_of_table_by_every_way(
    spark: SparkSession, client: Client, sandbox: Sandbox, namespace: str
) -> None:
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    key = "'primary-key' = 'id'"
    for table, properties in {"plain": "", "keyed": key, "entries": f"{key}, 'table-type' = 'key-value'"}.items():
        clause = f" TBLPROPERTIES ({properties})" if properties else ""
        spark.sql(f"CREATE TABLE {namespace}.{table} (id INT NOT NULL, s STRING){clause}")
        spark.sql(f"INSERT INTO {namespace}.{table} VALUES (1, 'a'), (2, 'b')")
    client.create_key_value_table(scope, "of-others", partitions=2, key_bytes=8)
    for key_of_entry, value in ENTRIES:
        KeyValueTable(client.pool, scope, "of-others").put([(key_of_entry, ANY_VERSION, value)])
    options = {"controller": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    told = []

    def defined(table: str, trigger: str, way: str) -> DataFrame:
        reader = spark.read if trigger == "batch" else spark.readStream
        if way == "catalog":
            return reader.table(f"{namespace}.`{table}`")
        return reader.format("pravega").options(**options).load(f"{scope}.{table}")

    for table, trigger, way in itertools.product([*ROWS, *OTHERS], ["batch", "streaming"], ["catalog", "format"]):
        words, answer = words_of(table, trigger, way), ""
        try:
            frame = defined(table, trigger, way)
            if trigger == "batch" and table in ROWS:
                rows = {tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in frame.collect()}
                answer = "" if rows == ROWS[table] else f"gives {rows}"
        except Exception as error:
            answer = str(error).splitlines()[0]
        if (words is None and answer) or (words is not None and words not in answer):
            told.append(f"{trigger} {way} {table}: {answer or 'is taken'}\n    not: {words or 'its rows'}")
    assert not told, "\n".join(told)
    both = spark.read.format("pravega").options(**options).option("stream", f"{scope}/plain,{scope}/entries")
    with pytest.raises(AnalysisException, match="read it alone"):
        both.load()
    with pytest.raises(AnalysisException, match='unknown read option of a key-value table "startStreamCut"'):
        spark.read.format("pravega").options(**options, startStreamCut="latest").load(f"{scope}.entries")
    writer = spark.table(f"{namespace}.plain").write.format("pravega").options(**options).mode("append")
    with pytest.raises(Exception, match="put its rows by a catalog"):
        writer.option("stream", f"{scope}/entries").save()
    assert not client.controller.stream_exists(Stream(scope, "entries"))
