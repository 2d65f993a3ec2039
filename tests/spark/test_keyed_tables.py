"""Tables with keys: what SQL changes in them, compared with a Python dict."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path

import pytest
from changes_tools import changes_in
from keyed_tables import FORMATS, KeyedRun
from pauses import Pause
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from since import is_missing

from pyspark_pravega.client import Client
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

FIRST_SEED, RUNS = int(os.environ.get("KEYED_FIRST_SEED", "1")), int(os.environ.get("KEYED_RUNS", "5"))
"""The first eight seeds have each format, one segment and three, and a key by SQL and by property; `make nightly` has
more of them."""
AT_ONCE = 4
"""So many statements on different tables run at a time: each waits for Pravega and for workers most of its time."""


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
@pytest.mark.in_turn(8)
def test_random_statements_give_what_a_dict_gives(
    spark: SparkSession, client: Client, settings: Settings, namespace: str, seed: int
) -> None:
    run = KeyedRun(spark=spark, client=client, settings=settings, namespace=namespace, seed=seed)
    run.steps(8)
    assert run.in_spark() == run.rows, run.story()


KEYS: dict[str, tuple[str, list[str]]] = {
    "string": ("STRING", ["'a'", "''", "'Ä🎈'", "'a,b'", "'5'"]),
    "varchar": ("VARCHAR(4)", ["'a'", "'b'"]),
    "boolean": ("BOOLEAN", ["true", "false"]),
    "tinyint": ("TINYINT", ["1Y", "-128Y"]),
    "int": ("INT", ["1", "-1", "0"]),
    "bigint": ("BIGINT", ["1L", "9223372036854775807L"]),
    "decimal": ("DECIMAL(20,3)", ["1.500BD", "-12345678901234567.125BD"]),
    "date": ("DATE", ["DATE'2026-01-02'", "DATE'1912-06-23'"]),
    "timestamp": ("TIMESTAMP", ["TIMESTAMP'2026-01-02 03:04:05.678901'", "TIMESTAMP'1969-12-31 00:00:00'"]),
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.in_turn(8)
def test_keys_of_every_type(spark: SparkSession, namespace: str, table_format: str) -> None:
    """Each type alone in a key, and all in one: written, changed, deleted, and found by their values.

    One query looks in all tables, and another one behind the DELETEs.
    """
    all_types = {f"k{number}": kind for number, (kind, _) in enumerate(KEYS.values())}
    cases = {name: ({"k0": kind}, [[value] for value in values]) for name, (kind, values) in KEYS.items()}
    several = [[values[0] for _, values in KEYS.values()], [values[1] for _, values in KEYS.values()]]
    if table_format != "avro":
        cases = {name: cases[name] for name in ("string", "decimal", "timestamp")}
    cases["all_types"] = (all_types, several)
    looks, given = list[DataFrame](), list[tuple[str, str, int]]()

    def make(name: str) -> None:
        kinds, rows = cases[name]
        columns = ", ".join(f"{column} {kind} NOT NULL" for column, kind in kinds.items())
        spark.sql(
            f"CREATE TABLE {namespace}.by_{name} (v INT, {columns}) "
            f"TBLPROPERTIES ('primary-key' = '{', '.join(kinds)}', 'format' = '{table_format}', 'segments' = '4')"
        )
        for value in (1, 2):
            texts = [f"({index + 10 * value}, {', '.join(row)})" for index, row in enumerate(rows)]
            spark.sql(f"INSERT INTO {namespace}.by_{name} VALUES {', '.join(texts)}")
        spark.sql(f"UPDATE {namespace}.by_{name} SET v = v + 100 WHERE v % 10 > 0")

    def look(name: str) -> None:
        (kinds, rows), table = cases[name], f"{namespace}.by_{name}"
        expected = [index + 20 + 100 * (index > 0) for index in range(len(rows))]
        looks.append(spark.sql(f"SELECT '{name}' AS name, 'all' AS rows, v FROM {table}"))
        given.extend((name, "all", v) for v in expected)
        for index, (row, v) in enumerate(zip(rows, expected, strict=True)):
            condition = of_row(kinds, row)
            one = spark.sql(f"SELECT '{name}' AS name, 'row {index}' AS rows, v FROM {table} WHERE {condition}")
            # Of booleans Spark makes another condition.
            assert segments_read(one) == 1 or name in ("boolean", "all_types"), (name, condition)
            looks.append(one)
            given.append((name, f"row {index}", v))
        every = " AND ".join(
            f"{column} IN ({', '.join(row[number] for row in rows)})" for number, column in enumerate(kinds)
        )
        looks.append(spark.sql(f"SELECT '{name}' AS name, 'every' AS rows, v FROM {table} WHERE {every}"))
        given.extend((name, "every", v) for v in expected)

    def delete(name: str) -> None:
        kinds, rows = cases[name]
        spark.sql(f"DELETE FROM {namespace}.by_{name} WHERE {of_row(kinds, rows[0])}")

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(make, cases))
        list(threads.map(look, cases))
        assert sorted(tuple(row) for row in reduce(DataFrame.union, looks).collect()) == sorted(given)
        list(threads.map(delete, cases))
    counts = [f"SELECT '{name}' AS name, count(*) AS rows FROM {namespace}.by_{name}" for name in cases]
    left = {row.name: row.rows for row in spark.sql(" UNION ALL ".join(counts)).collect()}
    assert left == {name: len(rows) - 1 for name, (_, rows) in cases.items()}


def of_row(columns: Iterable[str], row: list[str]) -> str:
    """The condition that a row's key fulfils."""
    return " AND ".join(f"{column} = {value}" for column, value in zip(columns, row, strict=True))


@pytest.mark.in_turn(8)
def test_structs_in_keys_and_routing_keys_of_a_part(spark: SparkSession, namespace: str) -> None:
    """A row for each customer and struct; a customer's rows lie in one segment: each statement, against a dict."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(partial(change_rows_of_structs, spark, namespace), FORMATS))


def change_rows_of_structs(spark: SparkSession, namespace: str, table_format: str) -> None:
    t, rows = f"{namespace}.{table_format}", dict[tuple[int, str, int], int | None]()
    words, named = ", PRIMARY KEY (customer, place) NOT ENFORCED", "'primary-key' = 'customer, place', "
    by_words = table_format == "avro" and not is_missing("4.1")
    spark.sql(
        f"CREATE TABLE {t} (v INT, place STRUCT<city: STRING, number: INT>, customer BIGINT NOT NULL"
        f"{words if by_words else ''}) CLUSTERED BY (customer) INTO 8 BUCKETS "
        f"TBLPROPERTIES ({'' if by_words else named}'format' = '{table_format}')"
    )
    if not is_missing("4.1"):
        assert words.strip(", ") in spark.sql(f"SHOW CREATE TABLE {t}").collect()[0][0]

    def table(options: str = "") -> dict[tuple[int, str, int], int | None]:
        found = spark.sql(f"SELECT * FROM {t} {options}").collect()
        made = {(row.customer, row.place.city, row.place.number): row.v for row in found}
        assert len(made) == len(found)
        return made

    def struct(city: str, number: int) -> str:
        return f"named_struct('city', '{city}', 'number', {number})"

    def insert(some: dict[tuple[int, str, int], int | None]) -> None:
        texts = [f"({v}, {struct(city, number)}, {customer})" for (customer, city, number), v in some.items()]
        spark.sql(f"INSERT INTO {t} VALUES {', '.join(texts)}")
        rows.update(some)

    insert({(customer, city, number): 0 for customer in range(10) for city in ("Ä", "b") for number in (1, 2)})
    insert({(3, "Ä", 1): 1, (4, "b", 2): 1})
    spark.sql(f"UPDATE {t} SET v = v + 10 WHERE customer = 3")
    rows |= {key: (v or 0) + 10 for key, v in rows.items() if key[0] == 3}
    assert table() == rows
    spark.sql(f"DELETE FROM {t} WHERE place.city = 'b' AND customer % 2 = 0")
    rows = {key: v for key, v in rows.items() if key[1] != "b" or key[0] % 2}
    assert table() == rows
    spark.sql(
        f"MERGE INTO {t} USING (SELECT id AS customer, {struct('b', 2)} AS place, 5 AS v FROM range(12)) s "
        f"ON {t}.customer = s.customer AND {t}.place.city <=> s.place.city AND {t}.place.number = s.place.number "
        "WHEN MATCHED AND s.customer > 7 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v, place = s.place "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    before = dict(rows)
    for customer in range(12):
        if rows.pop((customer, "b", 2), None) is None or customer <= 7:
            rows[customer, "b", 2] = 5
    assert table() == rows
    assert table("VERSION AS OF 4") == before
    assert spark.sql(f"SELECT count(*) FROM {t}").collect()[0][0] == len(rows)
    assert {(row.customer, *row.place) for row in spark.sql(f"SELECT customer, place FROM {t}").collect()} == {*rows}
    assert table("WITH ('maxKeysInMemory' = '3')") == rows
    of_one = spark.sql(f"SELECT * FROM {t} WHERE customer = 3")
    assert {row.v for row in of_one.collect()} == {10, 11, 5}
    assert segments_read(of_one) == 1

    changes = spark.sql(f"SELECT * FROM {changes_in(t, 5)}").collect()
    removed = {
        (row.customer, *row.place): row.v for row in changes if row._change_type in ("delete", "update_preimage")
    }
    added = {(row.customer, *row.place): row.v for row in changes if row._change_type in ("insert", "update_postimage")}
    assert {key: v for key, v in before.items() if key not in removed} | added == rows
    assert all(before[key] == v for key, v in removed.items())

    compacted = spark.sql(f"CALL pravega.system.compact(table => '{t.removeprefix('pravega.')}')").collect()[0]
    assert compacted.rows == len(rows)
    assert table() == rows
    insert({(3, "Ä", 1): 7, (20, "Ä", 1): 7})
    spark.sql(f"ALTER TABLE {t} ADD COLUMN more STRING")
    spark.sql(f"UPDATE {t} SET more = 'm' WHERE customer = 20")
    assert table() == rows
    assert "is in its primary key" in _error(spark, f"ALTER TABLE {t} ADD COLUMN place.street STRING")
    moved = f"UPDATE {t} SET place = {struct('c', 1)} WHERE customer = 20"
    assert "would change the primary key" in _error(spark, moved)
    null = f"INSERT INTO {t} VALUES (1, named_struct('city', CAST(NULL AS STRING), 'number', 1), 1, 'm')"
    assert 'column "place.city" is in the primary key' in _error(spark, null)
    assert table() == rows


def segments_read(rows: DataFrame) -> int:
    """How many segments with events a query reads, as EXPLAIN says."""
    plan = rows._jdf.queryExecution().toString()
    found = re.search(r"\[(\d+) segments with events", plan)
    assert found, plan
    return int(found[1])


def test_what_others_wrote_meanwhile_is_a_conflict(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Under `serializable` nothing is lost that a statement hasn't read; under `snapshot` its rows win."""
    other = spark.newSession()
    statements = {
        "update": "UPDATE {t} SET v = paused(v) + 1 WHERE id <= 2",
        "delete": "DELETE FROM {t} WHERE held(id) <= 2",
        "merge": "MERGE INTO {t} t USING (SELECT id FROM range(3)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = held(t.v) + 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0)",
    }
    won = {"update": {1: 2, 2: 2, 3: 3}, "delete": {3: 3}, "merge": {0: 0, 1: 2, 2: 2, 3: 3}}
    with ThreadPoolExecutor(1) as pool:
        for name, statement in statements.items():
            for level in ("serializable", "snapshot"):
                table = f"{namespace}.{name}_{level}"
                spark.sql(
                    f"CREATE TABLE {table} (id BIGINT NOT NULL, v BIGINT) "
                    f"TBLPROPERTIES ('primary-key' = 'id', 'isolation-level' = '{level}')"
                )
                spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 1)")
                folder = tmp_path / f"{name}_{level}"
                folder.mkdir()
                pause = Pause(folder)
                pause.register(spark)
                text, meanwhile = statement.format(t=table), f"INSERT INTO {table} VALUES (2, 20), (3, 3)"

                def run(text: str = text) -> object:
                    return spark.sql(text)

                def insert(meanwhile: str = meanwhile) -> object:
                    return other.sql(meanwhile)

                if level == "serializable":
                    with pytest.raises(Exception, match=r"PRAVEGA_WRITE_CONFLICT.*Nothing was written"):
                        pause.around(pool, run, insert)
                    expected = {1: 1, 2: 20, 3: 3}
                else:
                    pause.around(pool, run, insert)
                    expected = won[name]
                assert {row.id: row.v for row in spark.table(table).collect()} == expected, (name, level)


def test_only_what_a_statement_has_read_is_a_conflict(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Under `serializable`: of the keys that it names, if it names them; and a compaction changes nothing."""
    other, t = spark.newSession(), f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ('primary-key' = 'id', 'segments' = '3')")
    update, delete = (
        f"UPDATE {t} SET v = held(v) + 1 WHERE id IN (1, 2)",
        f"DELETE FROM {t} WHERE id = 1 AND held(v) > 0",
    )
    everything = f"UPDATE {t} SET v = held(v) + 1"
    insert, compact = f"INSERT INTO {t} VALUES ", f"CALL pravega.system.compact('{t.removeprefix('pravega.')}')"
    changed, gone, incremented = {1: 2, 2: 2, 3: 1}, {2: 1, 3: 1}, {1: 2, 2: 2, 3: 2}
    cases: list[tuple[str, list[str], dict[int, int] | None]] = [
        (update, [insert + "(3, 30), (4, 4)"], {**changed, 3: 30, 4: 4}),
        (update, [insert + "(3, 30)", insert + "(2, 20)"], None),
        (update, [f"DELETE FROM {t} WHERE id = 3"], {1: 2, 2: 2}),
        (update, [f"DELETE FROM {t} WHERE id = 1"], None),
        (update, [f"INSERT OVERWRITE {t} SELECT * FROM {t}"], None),
        (update, [compact, insert + "(3, 30)"], {**changed, 3: 30}),
        (update, [compact, insert + "(1, 10)"], None),
        (delete, [insert + "(2, 20)"], {**gone, 2: 20}),
        (delete, [insert + "(1, 10)"], None),
        (everything, [compact], incremented),
        (everything, [compact, insert + "(4, 4)"], None),
    ]
    with ThreadPoolExecutor(1) as pool:
        for number, (statement, meanwhile, expected) in enumerate(cases):
            spark.sql(f"INSERT OVERWRITE {t} VALUES (1, 1), (2, 1), (3, 1)")
            folder = tmp_path / str(number)
            folder.mkdir()
            pause = Pause(folder)
            pause.register(spark)

            def run(text: str = statement) -> object:
                return spark.sql(text)

            def others(texts: list[str] = meanwhile) -> None:
                for text in texts:
                    other.sql(text)

            if expected is None:
                with pytest.raises(Exception, match=r"PRAVEGA_WRITE_CONFLICT.*Nothing was written"):
                    pause.around(pool, run, others)
                continue
            pause.around(pool, run, others)
            assert {row.id: row.v for row in spark.table(t).collect()} == expected, (statement, meanwhile)


def _error(spark: SparkSession, statement: str) -> str:
    try:
        spark.sql(statement).collect()
    except PySparkException as error:
        return str(error)
    return "it is possible"


def test_what_a_table_with_a_key_refuses(spark: SparkSession, namespace: str, settings: Settings) -> None:
    """Each with a sentence that says what to do; nothing is changed."""
    t = f"{namespace}.t"
    stream = t.removeprefix("pravega.").replace("_", "-").replace(".", "/")
    spark.sql(f"CREATE TABLE {t} (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"CREATE TABLE {namespace}.plain (id INT, v INT) TBLPROPERTIES ('segments' = '4')")
    spark.sql(f"INSERT INTO {t} VALUES (1, 1), (2, 2)")
    spark.sql(f"INSERT INTO {namespace}.plain SELECT CAST(id AS INT), 1 FROM range(20)")
    create = f"CREATE TABLE {namespace}.n"
    refused = {
        f"{create} (id INT, _operation INT) TBLPROPERTIES ('primary-key' = 'id')": 'can\'t have a column "_operation"',
        f"{create} (id INT) TBLPROPERTIES ('primary-key' = 'idd')": 'not a column.*"id"',
        f"{create} (id DOUBLE) TBLPROPERTIES ('primary-key' = 'id')": "type double can't be in a key",
        f"{create} (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'routing-key' = 'v')": "must be made",
        f"{create} (id INT, v INT) CLUSTERED BY (v) INTO 2 BUCKETS TBLPROPERTIES ('primary-key' = 'id')": "must be",
        f"{create} (id INT) TBLPROPERTIES ('primary-key' = 'id', 'mode' = 'permissive')": "mode permissive",
        f"{create} (id INT) TBLPROPERTIES ('primary-key' = 'id', 'retention' = '1 day')": '"retention"',
        f"{create} (event BINARY) TBLPROPERTIES ('primary-key' = 'event', 'format' = 'raw')": "format raw can't have",
        f"{create} (id INT) TBLPROPERTIES ('delete-values' = 'd')": 'goes with "primary-key"',
        f"{create} (id INT, op INT) TBLPROPERTIES ('primary-key' = 'id', 'operation-column' = 'op')": 'a column "op"',
        f"ALTER TABLE {t} UNSET TBLPROPERTIES ('primary-key')": "can't be removed",
        f"ALTER TABLE {t} SET TBLPROPERTIES ('primary-key' = 'v')": "can't be changed any more",
        f"ALTER TABLE {t} SET TBLPROPERTIES ('routing-key' = 'v')": "can't be changed any more",
        f"ALTER TABLE {t} SET TBLPROPERTIES ('retention' = '1 day')": '"retention"',
        f"ALTER TABLE {t} SET TBLPROPERTIES ('mode' = 'permissive')": "permissive",
        f"ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT": "is in its primary key",
        f"ALTER TABLE {t} DROP COLUMN id": "is in its primary key",
        f"ALTER TABLE {namespace}.plain SET TBLPROPERTIES ('primary-key' = 'id')": "written with another routing key",
        f"ALTER TABLE {namespace}.plain SET TBLPROPERTIES ('delete-values' = 'd')": 'goes with "primary-key"',
        f"UPDATE {t} SET id = 7 WHERE id = 1": "would change the primary key",
        f"UPDATE {t} SET id = id + 1": 'primary key of rows of .* .column "id".',
        f"MERGE INTO {t} USING (SELECT 1 AS a, 7 AS b) ON id = a WHEN MATCHED THEN UPDATE SET id = b": (
            r"would change the primary key of a row of .* to \(id = 7\)"
        ),
        f"MERGE INTO {t} USING (SELECT 1 AS a) ON id = a WHEN MATCHED THEN UPDATE SET id = 7": (
            "would change the primary key of rows"
        ),
        f"MERGE INTO {t} USING (SELECT 1 AS id FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 0": (
            "MERGE_CARDINALITY_VIOLATION"
        ),
        f"MERGE INTO {t} USING (SELECT 9 AS id, 1 AS v FROM range(2)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *": r"two rows with the primary key \(id = 9\)",
        f"{create} (s STRUCT<a: INT>) TBLPROPERTIES ('primary-key' = 's')": "names structs only",
        f"{create} (id INT, s STRUCT<a: DOUBLE>) TBLPROPERTIES ('primary-key' = 'id, s')": "struct<a:double> can't be",
        f"INSERT INTO {t} VALUES (NULL, 1)": "NULL",
        f"INSERT INTO {t} WITH ('routing-key' = 'v') VALUES (3, 1)": "has a primary key",
        f"INSERT INTO {namespace}.`t$log` VALUES (1, 1, NULL)": "write to the table itself",
        f"DELETE FROM {namespace}.`t$log` WHERE id = 1": 'change the rows of "t"',
        f"SELECT * FROM {namespace}.`plain$log`": "has no primary key",
        f"SELECT * FROM {changes_in(t, 9)}": "has no version 9",
        f"SELECT * FROM {t} WITH ('endStreamCut' = 'latest')": r"has no start or end.*`t\$log`",
        f"SELECT * FROM {t} WITH ('startTimestamp' = '2020-01-01 00:00:00')": "has no start or end",
        f"CALL pravega.system.truncate(table => '{t.removeprefix('pravega.')}', version => 1)": "primary key",
        f"CALL pravega.system.register_schema('{t.removeprefix('pravega.')}', columns => 'id INT, v INT')": "need the",
        f"CALL pravega.system.register_schema('{t.removeprefix('pravega.')}', columns => 'x INT')": "is not a column",
        f"DELETE FROM {namespace}.plain WHERE id = 1": "PRIMARY KEY",
        f"UPDATE {namespace}.plain SET v = 1": "PRIMARY KEY",
    }
    if not is_missing("4.1"):
        refused |= {
            f"{create} (id INT, v INT, PRIMARY KEY (no) NOT ENFORCED)": "no",
            f"{create} (id INT, v INT, PRIMARY KEY (id)) TBLPROPERTIES ('primary-key' = 'v')": "contradicts",
            f"{create} (id INT, UNIQUE (id) NOT ENFORCED)": "CHECK and PRIMARY KEY only",
        }
    with ThreadPoolExecutor(AT_ONCE) as threads:
        errors = dict(zip(refused, threads.map(partial(_error, spark), refused), strict=True))
    for statement, why in refused.items():
        assert re.search(why, errors[statement]), f"{statement}: {errors[statement][:500]}"
    assert sorted((row.id, row.v) for row in spark.table(t).collect()) == [(1, 1), (2, 2)]
    assert {row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()} == {"t", "plain"}
    options = {**settings.to_options(), "stream": stream, "endTimestamp": "2020-01-01 00:00:00"}
    with pytest.raises(Exception, match="has no start or end"):
        spark.read.format("pravega").options(**options).load().collect()
    with pytest.raises(Exception, match=r"t\$log"):
        spark.readStream.table(t).writeStream.format("noop").start().processAllAvailable()


def test_a_join_with_few_keys_reads_their_segments(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """And an UPDATE of few rows has read, and conflicts in, these keys only."""
    t, few, other = f"{namespace}.t", f"{namespace}.few", spark.newSession()
    spark.sql(
        f"CREATE TABLE {t} (id BIGINT NOT NULL, region STRING NOT NULL, v BIGINT) "
        "TBLPROPERTIES ('primary-key' = 'id, region', 'segments' = '16')"
    )
    spark.sql(f"INSERT INTO {t} SELECT id, 'eu', 1 FROM range(200)")
    spark.sql(f"CREATE TABLE {few} (id BIGINT, region STRING, word STRING)")
    spark.sql(f"INSERT INTO {few} VALUES (7, 'eu', 'yes'), (8, 'eu', 'yes'), (9, 'us', 'yes'), (10, 'eu', 'no')")
    wanted = f"(SELECT * FROM {few} WHERE word = 'yes')"
    small = f"SELECT t.id, t.v FROM {t} t JOIN {wanted} s ON t.id = s.id AND t.region = s.region"
    whole = spark.sql(small)
    assert sorted(row.id for row in whole.collect()) == [7, 8]
    assert segments_read(whole) == 16, "so few rows are read before the other side has told its values"
    always = "WITH ('runtimeFilterSize' = '0')"
    join = spark.sql(small.replace(f"{t} t", f"{t} {always} t"))
    assert sorted(row.id for row in join.collect()) == [7, 8]
    assert segments_read(join) <= 6
    # With one of the key's columns alone nothing is known.
    half = spark.sql(f"SELECT t.id FROM {t} {always} t JOIN {wanted} s ON t.id = s.id")
    assert sorted(row.id for row in half.collect()) == [7, 8, 9]
    assert segments_read(half) == 16
    # If routing keys are made of it, that is enough.
    spark.sql(
        f"CREATE TABLE {namespace}.by_id (id BIGINT NOT NULL, region STRING NOT NULL, v BIGINT) "
        "TBLPROPERTIES ('primary-key' = 'id, region', 'segments' = '16', 'routing-key' = 'id')"
    )
    spark.sql(f"INSERT INTO {namespace}.by_id SELECT id, 'eu', 1 FROM range(200)")
    half = spark.sql(f"SELECT t.id FROM {namespace}.by_id {always} t JOIN {wanted} s ON t.id = s.id")
    assert sorted(row.id for row in half.collect()) == [7, 8, 9]
    assert segments_read(half) <= 6
    old = spark.sql(f"SELECT t.v FROM {t} VERSION AS OF 1 {always} t JOIN {wanted} s USING (id, region)")
    assert [row.v for row in old.collect()] == [1, 1]

    update = f"UPDATE {t} SET v = held(v) + 1 WHERE (id, region) IN (SELECT id, region FROM {few} WHERE word = 'yes')"
    with ThreadPoolExecutor(1) as pool:
        for name, meanwhile in (("another", "(50, 'eu', 50)"), ("one of them", "(8, 'eu', 80)")):
            folder = tmp_path / name
            folder.mkdir()
            pause = Pause(folder)
            pause.register(spark)

            def insert(rows: str = meanwhile) -> object:
                return other.sql(f"INSERT INTO {t} VALUES {rows}")

            if name == "another":
                pause.around(pool, lambda: spark.sql(update), insert)
                continue
            with pytest.raises(Exception, match=r"PRAVEGA_WRITE_CONFLICT.*rows with keys"):
                pause.around(pool, lambda: spark.sql(update), insert)
    found = {(row.id, row.region): row.v for row in spark.table(t).where("v <> 1").collect()}
    assert found == {(7, "eu"): 2, (8, "eu"): 80, (50, "eu"): 50}


@pytest.mark.since_spark("4.2")
def test_tables_become_keyed_and_back(spark: SparkSession, namespace: str, settings: Settings) -> None:
    """CTAS, LIKE, CREATE OR REPLACE, ALTER, DROP and CREATE; constraints, defaults; the source without a catalog."""
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} TBLPROPERTIES ('primary-key' = 'id') AS SELECT id % 3 AS id, id AS v FROM range(1, 4)")
    assert "CONSTRAINT t_pk PRIMARY KEY (id) NOT ENFORCED" in spark.sql(f"SHOW CREATE TABLE {t}").first()[0]  # type: ignore[index]
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {t}").collect()}
    assert described["t_pk"].startswith("PRIMARY KEY (id) NOT ENFORCED")
    assert "primary-key=id" in described["Table Properties"]
    assert "Exchange" not in spark.table(t)._jdf.queryExecution().toString()
    spark.sql(f"ALTER TABLE {t} ADD COLUMN note STRING")
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN note SET DEFAULT 'none'")
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT few CHECK (v < 100)")
    spark.sql(f"MERGE INTO {t} USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET note = DEFAULT")
    spark.sql(f"INSERT INTO {t} (id, v) VALUES (7, 7)")
    expected = [(0, 3, None), (1, 1, "none"), (2, 2, None), (7, 7, "none")]
    assert sorted(tuple(row) for row in spark.table(t).collect()) == expected
    for statement in (f"UPDATE {t} SET v = v + 93", f"INSERT INTO {t} VALUES (1, 100, '')"):
        with pytest.raises(Exception, match="few"):
            spark.sql(statement)
    spark.sql(f"ALTER TABLE {t} DROP CONSTRAINT few")
    stream = t.removeprefix("pravega.").replace("_", "-").replace(".", "/")
    options = {**settings.to_options(), "stream": stream}
    spark.sql("SELECT 1L AS id, 11L AS v, 'x' AS note").write.format("pravega").options(**options).mode("append").save()
    plain = spark.read.format("pravega").options(**options).option("maxKeysInMemory", 2).load()
    expected[1] = (1, 11, "x")
    assert sorted(tuple(row) for row in plain.collect()) == expected
    spark.sql(f"CREATE TABLE {namespace}.alike LIKE {t}")
    spark.sql(f"INSERT INTO {namespace}.alike SELECT * FROM {t}")
    spark.sql(f"DELETE FROM {namespace}.alike WHERE id = 7")
    assert spark.table(f"{namespace}.alike").count() == 3
    spark.sql(f"CREATE OR REPLACE TABLE {t} AS SELECT id % 2 AS id, id AS v FROM range(4)")
    assert spark.table(t).count() == 4
    spark.sql(
        f"CREATE OR REPLACE TABLE {t} (a STRING NOT NULL, b INT) TBLPROPERTIES ('primary-key' = 'a', 'segments' = '2')"
    )
    spark.sql(f"INSERT INTO {t} VALUES ('x', 1), ('y', 1)")
    spark.sql(f"UPDATE {t} SET b = 2 WHERE a = 'x'")
    assert sorted(tuple(row) for row in spark.table(t).collect()) == [("x", 2), ("y", 1)]
    spark.sql(f"DROP TABLE {t}")
    spark.sql(f"CREATE TABLE {t} (id INT NOT NULL, v INT) TBLPROPERTIES ('routing-key' = 'id')")
    spark.sql(f"INSERT INTO {t} VALUES (1, 1), (2, 2)")
    spark.sql(f"INSERT INTO {t} VALUES (1, 3)")
    spark.sql(f"ALTER TABLE {t} ADD CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED")
    assert sorted(tuple(row) for row in spark.table(t).collect()) == [(1, 3), (2, 2)]
    spark.sql(f"DELETE FROM {t} WHERE id = 2")
    assert [tuple(row) for row in spark.sql(f"SELECT * FROM {t} VERSION AS OF 2 ORDER BY id").collect()] == [
        (1, 3),
        (2, 2),
    ]
    assert [tuple(row) for row in spark.table(t).collect()] == [(1, 3)]
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('writer-mode' = 'at-least-once')")
    spark.sql(f"INSERT INTO {t} VALUES (1, 4)")
    assert [tuple(row) for row in spark.table(t).collect()] == [(1, 4)]
    with pytest.raises(Exception, match="writer mode at-least-once"):
        spark.sql(f"DELETE FROM {t} WHERE id = 1")
