"""Pravega's key-value tables as tables of SQL, compared with Python dicts and with the client."""

from __future__ import annotations

import random
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path

import pytest
from pauses import Pause
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from since import is_missing

from pyspark_pravega.client import Client, KeyValueTable
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.errors import GroupNotFoundError
from pyspark_pravega.registry import SchemaRegistry

pytestmark = [pytest.mark.server, pytest.mark.spark]

NESTED = "STRUCT<a: INT, b: ARRAY<STRING>>"


def scope_of(namespace: str) -> str:
    return namespace.removeprefix("pravega.").replace("_", "-")


def opened(client: Client, namespace: str, table: str) -> KeyValueTable:
    return KeyValueTable(client.pool, scope_of(namespace), table.replace("_", "-"))


def extent(rows: DataFrame) -> str:
    """What a query reads, as EXPLAIN says."""
    plan = rows._jdf.queryExecution().toString()
    found = re.search(r"Pravega pravega\S+ \[([^\]]*partitions)\]", plan)
    assert found, plan
    return found[1]


def test_random_statements_give_what_a_dict_gives(spark: SparkSession, client: Client, namespace: str) -> None:
    """Several partitions, two key columns, NULLs and nested values; a second writer puts what the first one made."""
    cases = {"avro": "true", "json": "true", "protobuf": "true", "avro_alone": "false"}
    with ThreadPoolExecutor(len(cases)) as threads:
        list(threads.map(partial(make_random_statements, spark, client, namespace), cases, cases.values()))


def make_random_statements(spark: SparkSession, client: Client, namespace: str, table: str, header: str) -> None:
    t, table_format = f"{namespace}.{table}", table.partition("_")[0]
    spark.sql(
        f"CREATE TABLE {t} (name STRING, shop INT, item STRING, n BIGINT, more {NESTED}) "
        "CLUSTERED BY (shop) INTO 3 BUCKETS TBLPROPERTIES ('primary-key' = 'shop, item', 'table-type' = 'key-value', "
        f"'format' = '{table_format}', 'encoding-header' = '{header}')"
    )
    chance, rows = random.Random(f"{table_format} {header}"), dict[tuple[int, str], tuple[object, ...]]()

    def made() -> tuple[object, ...]:
        nested: list[object] = [None, (None, []), (7, ["p", "q"])]
        return chance.choice([None, "ä", "x" * 50]), chance.choice([None, 2**40]), chance.choice(nested)

    def text(value: object) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, tuple):
            items = ", ".join(f"'{one}'" for one in value[1])
            return f"named_struct('a', CAST({text(value[0])} AS INT), 'b', CAST(array({items}) AS ARRAY<STRING>))"
        return f"'{value}'" if isinstance(value, str) else str(value)

    def values(some: dict[tuple[int, str], tuple[object, ...]]) -> str:
        return ", ".join(
            f"({text(row[0])}, {shop}, '{item}', CAST({text(row[1])} AS BIGINT), {text(row[2])})"
            for (shop, item), row in some.items()
        )

    def in_spark() -> dict[tuple[int, str], tuple[object, ...]]:
        return {
            (r.shop, r["item"]): (r.name, r.n, None if r.more is None else (r.more.a, list(r.more.b)))
            for r in spark.table(t).collect()
        }

    for _ in range(2):
        new = {(chance.randrange(-2, 5), chance.choice("abcd")): made() for _ in range(12)}
        spark.sql(f"INSERT INTO {t} VALUES {values(new)}")
        rows |= new
        shop = chance.randrange(-2, 5)
        spark.sql(f"UPDATE {t} SET n = shop * 2, name = concat(name, '!') WHERE shop = {shop}")
        for key, (name, _, more) in rows.items():
            if key[0] == shop:
                rows[key] = (None if name is None else f"{name}!", shop * 2, more)
        spark.sql(f"DELETE FROM {t} WHERE item = 'd' AND shop > 0")
        rows = {key: row for key, row in rows.items() if not (key[1] == "d" and key[0] > 0)}
        new = {(chance.randrange(-2, 5), chance.choice("abcd")): made() for _ in range(8)}
        spark.sql(
            f"MERGE INTO {t} t USING (SELECT * FROM VALUES {values(new)} AS s(name, shop, item, n, more)) s "
            "ON t.shop = s.shop AND t.item = s.item WHEN MATCHED AND s.name IS NULL THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        for key, row in new.items():
            if key in rows and row[0] is None:
                del rows[key]
            else:
                rows[key] = row
        assert in_spark() == rows, table
    other = opened(client, namespace, table)
    assert {key for key, _ in other.iterate_keys()} == {
        struct.pack(">i", shop) + item.encode().ljust(64, b"\0") for shop, item in rows
    }
    assert spark.sql(f"SELECT count(*) FROM {t}").first()[0] == len(rows)  # type: ignore[index]
    (first, entry), *_ = other.iterate_entries()
    other.put([(first[:4] + b"copy".ljust(64, b"\0"), ANY_VERSION, entry.value)])
    assert spark.table(t).where("item = 'copy'").count() == 1
    spark.sql(f"TRUNCATE TABLE {t}")
    assert in_spark() == {} == dict(other.iterate_keys())


def test_what_is_there_is_shown(spark: SparkSession, client: Client, namespace: str) -> None:
    """Tables that others have made: bytes at first, and columns when they are named."""
    scope = scope_of(namespace)
    client.controller.create_key_value_table(scope, "pairs", partitions=2, key_bytes=8, secondary_key_bytes=3)
    theirs = opened(client, namespace, "pairs")
    theirs.put([(struct.pack(">q", -5) + b"de\0", ANY_VERSION, b'{"price": 1.5}')])
    t = f"{namespace}.pairs"
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["pairs"]
    assert spark.table(t).schema.simpleString() == "struct<key:binary,secondary_key:binary,value:binary>"
    (row,) = spark.sql(f"SELECT *, _entry_version FROM {t} WHERE key = X'FFFFFFFFFFFFFFFB'").collect()
    assert (bytes(row.key), bytes(row.secondary_key), bytes(row.value)) == (
        struct.pack(">q", -5),
        b"de\0",
        b'{"price": 1.5}',
    )
    assert row._entry_version == dict(theirs.iterate_keys())[struct.pack(">q", -5) + b"de\0"]
    spark.sql(f"INSERT INTO {t} VALUES (X'0000000000000007', X'616200', X'7B7D')")
    schema = '{"type": "object", "title": "t", "properties": {"price": {"type": "number"}}}'
    spark.sql(
        f"ALTER TABLE {t} SET TBLPROPERTIES ('key-columns' = 'id BIGINT, country STRING', 'format' = 'json', "
        f"'schema' = '{schema}')"
    )
    assert sorted(map(tuple, spark.table(t).collect())) == [(-5, "de", 1.5), (7, "ab", None)]
    spark.sql(f"UPDATE {t} SET price = 2 WHERE id = 7")
    assert theirs.get([struct.pack(">q", 7) + b"ab\0"])[0].value == b'{"price":2.0}'  # type: ignore[union-attr]
    assert extent(spark.sql(f"SELECT * FROM {t} WHERE id = 7")) == "1 partitions"
    assert extent(spark.sql(f"SELECT * FROM {t} WHERE id = 7 AND country = 'ab'")) == "1 keys looked up in 1 partitions"
    with pytest.raises(PySparkException, match=r"12 bytes.*the table's keys have 11"):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('key-columns' = 'id BIGINT, country INT')")
    spark.sql(f"ALTER TABLE {t} UNSET TBLPROPERTIES ('key-columns', 'format', 'schema')")
    assert spark.table(t).columns == ["key", "secondary_key", "value"]
    spark.sql(f"DROP TABLE {t}")
    assert list(client.controller.list_key_value_tables(scope)) == ["spark.catalog"]


@pytest.mark.since_spark("4.1")
def test_describes_itself(spark: SparkSession, namespace: str, registry: SchemaRegistry) -> None:
    """SHOW CREATE TABLE says what makes the same table again."""
    t = f"{namespace}.orders"
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT COMMENT 'which', name VARCHAR(9), tier STRING DEFAULT 'new', "
        "CONSTRAINT named CHECK (name <> ''), PRIMARY KEY (id, name) NOT ENFORCED) "
        "CLUSTERED BY (id) INTO 2 BUCKETS COMMENT 'all of them' "
        "TBLPROPERTIES ('table-type' = 'key-value', 'team.owner' = 'ann', 'isolation-level' = 'snapshot')"
    )
    spark.sql(f"INSERT INTO {t} (id, name) VALUES (1, 'a')")
    assert tuple(spark.table(t).first()) == (1, "a", "new")  # type: ignore[arg-type]
    with pytest.raises(PySparkException, match="CHECK_CONSTRAINT_VIOLATION"):
        spark.sql(f"INSERT INTO {t} VALUES (1, '', 'x')")
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql(f"INSERT INTO {t} VALUES (1, 'abcdefghij', 'x')")
    statement = spark.sql(f"SHOW CREATE TABLE {t}").first()[0]  # type: ignore[index]
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {t}").collect()}
    assert properties["table-type"] == "key-value"
    assert properties["partitions"] == "2"
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {t}").collect()}
    assert described["id"] == "bigint"
    spark.sql(f"DROP TABLE {t}")
    spark.sql(statement)
    assert spark.sql(f"SHOW CREATE TABLE {t}").first()[0] == statement  # type: ignore[index]
    assert {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {t}").collect()} == properties
    assert spark.table(t).count() == 0
    if not is_missing("4.2"):
        spark.sql(f"CREATE TABLE {t}2 LIKE {t}")
        assert {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {t}2").collect()} == properties
    spark.sql(f"DROP TABLE {t}")
    with pytest.raises(GroupNotFoundError):
        registry.group(scope_of(namespace), "orders")


def test_what_others_put_meanwhile_is_a_conflict(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    other = spark.newSession()
    with ThreadPoolExecutor(1) as pool:
        for level in ("serializable", "snapshot"):
            t = f"{namespace}.{level}"
            spark.sql(
                f"CREATE TABLE {t} (id BIGINT, v BIGINT) "
                f"TBLPROPERTIES ('primary-key' = 'id', 'table-type' = 'key-value', 'isolation-level' = '{level}')"
            )
            spark.sql(f"INSERT INTO {t} VALUES (1, 1), (2, 1), (3, 1)")
            folder = tmp_path / level
            folder.mkdir()
            pause = Pause(folder)
            pause.register(spark)
            update, insert = f"UPDATE {t} SET v = held(v) + 1 WHERE id <= 2", f"INSERT INTO {t} VALUES (2, 20), (3, 30)"
            run, meanwhile = partial(spark.sql, update), partial(other.sql, insert)
            if level == "serializable":
                with pytest.raises(Exception, match=r"PRAVEGA_WRITE_CONFLICT.*nothing was written"):
                    pause.around(pool, run, meanwhile)
                expected = {1: 1, 2: 20, 3: 30}
            else:
                pause.around(pool, run, meanwhile)
                expected = {1: 2, 2: 2, 3: 30}
            assert {row.id: row.v for row in spark.table(t).collect()} == expected, level


def test_looks_up_what_is_wanted(spark: SparkSession, namespace: str) -> None:
    """`=`, IN, joins with few keys, LIMIT and count(*); CREATE TABLE AS SELECT makes the table."""
    t, few = f"{namespace}.t", f"{namespace}.few"
    spark.sql(
        f"CREATE TABLE {t} TBLPROPERTIES ('table-type' = 'key-value', 'primary-key' = 'id', 'partitions' = '4') "
        "AS SELECT id, id * 2 AS v, 'x' AS word FROM range(1000)"
    )
    with pytest.raises(PySparkException, match="too large"):
        spark.sql(
            f"CREATE TABLE {t}2 TBLPROPERTIES ('table-type' = 'key-value', 'primary-key' = 'id') "
            "AS SELECT id, if(id = 9, raise_error('too large'), 0) AS v FROM range(10)"
        )
    with pytest.raises(PySparkException, match="too large"):
        spark.sql(f"INSERT INTO {t} SELECT id, if(id = 9, raise_error('too large'), 0), 'y' FROM range(10)")
    spark.sql(f"CREATE TABLE {few} AS SELECT id * 100 AS id, if(id < 3, 'yes', 'no') AS word FROM range(5)")
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["few", "t"]
    one = spark.sql(f"SELECT v FROM {t} WHERE id = 7")
    assert [row.v for row in one.collect()] == [14]
    assert extent(one) == "1 keys looked up in 1 partitions"
    some = spark.sql(f"SELECT v FROM {t} WHERE id IN (1, 2, 3, 5000) AND word = 'x'")
    assert sorted(row.v for row in some.collect()) == [2, 4, 6]
    assert extent(some).startswith("4 keys looked up")
    join = spark.sql(f"SELECT t.v FROM {t} t JOIN {few} s ON t.id = s.id WHERE s.word = 'yes'")
    assert sorted(row.v for row in join.collect()) == [0, 200, 400]
    assert extent(join).startswith("3 keys looked up")
    spark.sql(f"DELETE FROM {t} WHERE id IN (SELECT id FROM {few} WHERE word = 'yes')")
    assert spark.sql(f"SELECT count(*), sum(v) FROM {t}").first()[:] == (997, 999_000 - 600)  # type: ignore[index]
    assert spark.sql(f"SELECT * FROM {t} LIMIT 3").count() == 3
    assert spark.table(t).where("id = 1 AND id = 2").count() == 0


def test_streams_write_into_it(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Each micro-batch is an upsert, over a restart."""
    source, t = f"{namespace}.source", f"{namespace}.t"
    spark.sql(f"CREATE TABLE {source} (word STRING)")
    spark.sql(
        f"CREATE TABLE {t} (word STRING, n BIGINT) "
        "TBLPROPERTIES ('primary-key' = 'word', 'table-type' = 'key-value', 'partitions' = '2')"
    )
    for words in ("('a'), ('b'), ('a')", "('b'), ('c'), ('a')"):
        spark.sql(f"INSERT INTO {source} VALUES {words}")
        counts = spark.readStream.table(source).groupBy("word").count().withColumnRenamed("count", "n")
        query = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "counts"))
        query.trigger(availableNow=True).toTable(t).awaitTermination()
    assert {row.word: row.n for row in spark.table(t).collect()} == {"a": 3, "b": 2, "c": 1}
    wrong = spark.readStream.table(source).writeStream.option("checkpointLocation", str(tmp_path / "wrong"))
    with pytest.raises(PySparkException, match="n is missing"):
        wrong.trigger(availableNow=True).toTable(t).awaitTermination()


REFUSED = {
    "SELECT * FROM {t} VERSION AS OF 1": "neither versions nor a history",
    "SELECT * FROM {t} TIMESTAMP AS OF '2026-01-01'": "neither versions nor a history",
    "INSERT OVERWRITE {t} VALUES (1, 'x')": "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "ALTER TABLE {t} ADD COLUMN more INT": "its columns and constraints not",
    "ALTER TABLE {t} RENAME TO {t}2": "create a new table AS SELECT",
    "ALTER TABLE {t} SET TBLPROPERTIES ('format' = 'json')": "settled by CREATE TABLE",
    "ALTER TABLE {t} SET TBLPROPERTIES ('retention' = '1 day')": 'unknown table property "retention"',
    "CREATE OR REPLACE TABLE {t} (a INT) TBLPROPERTIES ('format' = 'avro')": "DROP it first",
    "CREATE TABLE {t} (a INT)": "already exists|TABLE_OR_VIEW_ALREADY_EXISTS",
    "CREATE TABLE {t}2 (a INT) TBLPROPERTIES ('table-type' = 'key-value')": "needs a key",
    "CREATE TABLE {t}2 (a INT) TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'key-value')": "has a value",
    "CREATE TABLE {t}2 (a INT, b INT) TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'queue')": "must be",
    "CREATE TABLE {t}2 (a DOUBLE, b INT) TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'key-value')": (
        "can't be in the key"
    ),
    "CREATE TABLE {t}2 (a BINARY, b INT) TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'key-value')": "'a=16'",
    "CREATE TABLE {t}2 (a STRING, b INT) "
    "TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'key-value', 'key-bytes' = 'a=257')": "from 1 to 256",
    "CREATE TABLE {t}2 (a INT, b INT, c INT) CLUSTERED BY (b) INTO 2 BUCKETS "
    "TBLPROPERTIES ('primary-key' = 'a, b', 'table-type' = 'key-value')": "must name the first columns of the key",
    "CREATE TABLE {t}2 (a INT, b INT) "
    "TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'key-value', 'segments' = '3')": (
        'unknown table property "segments"'
    ),
    "CREATE TABLE pravega.{n}.`a.ledger` (a INT, b INT) "
    "TBLPROPERTIES ('primary-key' = 'a', 'table-type' = 'key-value')": "catalog's own key-value tables",
    "INSERT INTO {t} VALUES (2, repeat('x', 1100000))": "Pravega takes no entry of more than",
    "SELECT * FROM pravega.{n}.`t$commits`": "neither versions nor a history",
    "CALL pravega.system.scale(table => '{n}.t', segments => 2)": "neither versions nor a history",
    "CALL pravega.system.register_schema(table => '{n}.t', format => 'json', columns => 'a INT')": (
        "neither versions nor a history"
    ),
}
if not is_missing("4.2"):
    REFUSED |= {
        "SELECT * FROM {t} CHANGES FROM VERSION 1": "neither versions nor a history",
        "CREATE VIEW {t} AS SELECT 1": "already exists|ALREADY_EXISTS|exists already",
    }


def test_what_cannot_be_is_refused(spark: SparkSession, namespace: str) -> None:
    t, short = f"{namespace}.t", namespace.removeprefix("pravega.")
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'table-type' = 'key-value')"
    )
    spark.sql(f"INSERT INTO {t} VALUES (1, 'a')")

    def refuse(statement: str, message: str) -> None:
        with pytest.raises(PySparkException) as caught:
            spark.sql(statement.format(t=t, n=short)).collect()
        assert re.search(message, str(caught.value)), (statement, str(caught.value)[:600])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(refuse, REFUSED, REFUSED.values()))
    with pytest.raises(PySparkException, match="neither versions nor a history"):
        spark.readStream.table(t).writeStream.format("noop").start().processAllAvailable()
    with pytest.raises(PySparkException, match="read option"):
        spark.read.option("startStreamCut", "head").table(t).collect()
    assert [tuple(row) for row in spark.table(t).collect()] == [(1, "a")]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["t"]


KEYS = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["1Y", "-128Y"],
    "SMALLINT": ["1S", "-32768S"],
    "INT": ["1", "-1"],
    "BIGINT": ["1L", "-9223372036854775808L"],
    "DECIMAL(10,2)": ["1.50BD", "-99999999.99BD"],
    "DECIMAL(38,3)": ["1.500BD", "-12345678901234567890123456789012345.125BD"],
    "DATE": ["DATE'2026-01-02'", "DATE'1912-06-23'"],
    "TIMESTAMP": ["TIMESTAMP'2026-01-02 03:04:05.678901'", "TIMESTAMP'1969-12-31 00:00:00'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'2026-01-02 03:04:05.678901'", "TIMESTAMP_NTZ'1969-12-31 00:00:00'"],
    "STRING": ["'Ä🎈'", "''"],
    "VARCHAR(4)": ["'a'", "'b'"],
    "BINARY": ["X'0001'", "X'FF00'"],
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.in_turn(8)
def test_keys_of_every_type(spark: SparkSession, namespace: str) -> None:
    """Each type in a key: written, changed, deleted, and looked up by its values; one query looks in all tables."""
    rows = {kind: [[value] for value in values] for kind, values in KEYS.items()}
    rows["all"] = [[values[i] for values in KEYS.values()] for i in (0, 1)]
    tables = {kind: f"{namespace}.t{number}" for number, kind in enumerate(rows)}
    lookups = list[DataFrame]()

    def condition(row: list[str]) -> str:
        return " AND ".join(f"k{i} = {value}" for i, value in enumerate(row))

    def make(kind: str) -> None:
        kinds = list(KEYS) if kind == "all" else [kind]
        columns = ", ".join(f"k{i} {one}" for i, one in enumerate(kinds))
        names = ", ".join(f"k{i}" for i in range(len(kinds)))
        sizes = ", ".join(f"k{i}=2" for i, one in enumerate(kinds) if one == "BINARY")
        spark.sql(
            f"CREATE TABLE {tables[kind]} ({columns}, v INT) "
            f"TBLPROPERTIES ('primary-key' = '{names}', 'table-type' = 'key-value', 'partitions' = '2', "
            f"'key-bytes' = '{sizes}')"
        )
        texts = [f"({', '.join(row)}, {i})" for i, row in enumerate(rows[kind])]
        spark.sql(f"INSERT INTO {tables[kind]} VALUES {', '.join(texts)}")
        spark.sql(f"UPDATE {tables[kind]} SET v = v + 10")

    def look(kind: str) -> None:
        for i, row in enumerate(rows[kind]):
            where = condition(row)
            one = spark.sql(
                f"SELECT '{kind}' AS kind, {i} AS row, v, {where} AS keys FROM {tables[kind]} WHERE {where}"
            )
            # Of booleans Spark makes another condition.
            assert extent(one) == "1 keys looked up in 1 partitions" or kind in ("BOOLEAN", "all"), (
                kind,
                extent(one),
            )
            lookups.append(one)

    def delete(kind: str) -> None:
        spark.sql(f"DELETE FROM {tables[kind]} WHERE {condition(rows[kind][0])}")

    wanted = [(kind, row, row + 10, True) for kind in rows for row in (0, 1)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, rows))
        list(threads.map(look, rows))
        assert sorted(tuple(row) for row in reduce(DataFrame.union, lookups).collect()) == sorted(wanted)
        list(threads.map(delete, rows))
    left = spark.sql(" UNION ALL ".join(f"SELECT '{kind}' AS kind, v FROM {t}" for kind, t in tables.items()))
    assert sorted(tuple(row) for row in left.collect()) == sorted((kind, 11) for kind in rows)
