"""A key that is given to a table with rows: what it may be, compared with a Python dict of each way to write them."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from since import is_missing

from pyspark_pravega.client import Client, EventWriter, Stream
from pyspark_pravega.connector.table import load_definition
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

IDS = 12
LOOKED_FOR = (0, 3, IDS - 1)
KEY = (
    "SET TBLPROPERTIES ('primary-key' = 'id')"
    if is_missing("4.1")
    else "ADD CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED"
)


@dataclass(frozen=True, kw_only=True)
class Way:
    """How the rows of a table come to be where they lie."""

    made: str = ""
    """Properties of the table."""
    option: str = ""
    """Of the writes."""
    then: str = ""
    """What is set before the key is given."""
    right: bool = False
    """Whether all rows of a key lie where readers look for it, in a stream of several segments, too."""


WAYS = {
    "as_the_key": Way(made="'routing-key' = 'id'", right=True),
    "without": Way(),
    "set_later": Way(then="'routing-key' = 'id'"),
    "by_an_option": Way(made="'routing-key' = 'id'", option="WITH ('routing-key' = 'v')"),
    "another_before": Way(made="'routing-key' = 'v'", then="'routing-key' = 'id'"),
    "no_versions": Way(made="'writer-mode' = 'at-least-once'"),
    "one_for_all": Way(made="'routing-key' = '\\'all\\''", then="'routing-key' = 'id'"),
}


def test_a_key_is_given_where_rows_lie_by_it_only(spark: SparkSession, namespace: str) -> None:
    formats = itertools.cycle(("avro", "json", "protobuf"))
    cases = [(name, 4, next(formats)) for name in WAYS] + [
        (name, 1, next(formats)) for name in ("without", "set_later")
    ]

    def told(case: tuple[str, int, str]) -> str:
        name, segments, table_format = case
        way, table = WAYS[name], f"{namespace}.{name}_{segments}"
        made = ", ".join(filter(None, (f"'segments' = '{segments}', 'format' = '{table_format}'", way.made)))
        spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ({made})")
        last = {}
        for turn in range(2):
            spark.sql(f"INSERT INTO {table} {way.option} SELECT id, {turn} * 100 + id AS v FROM range({IDS})")
            last.update({number: turn * 100 + number for number in range(IDS)})
        if way.then:
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({way.then})")
        before = spark.sql(f"SHOW CREATE TABLE {table}").collect()
        try:
            spark.sql(f"ALTER TABLE {table} {KEY}")
        except Exception as error:
            assert spark.sql(f"SHOW CREATE TABLE {table}").collect() == before
            assert spark.table(table).count() == 2 * IDS
            return "refused" if "written with another routing key" in str(error) else str(error)
        rows = spark.table(table).collect()
        found = [spark.sql(f"SELECT v FROM {table} WHERE id = {number}").collect() for number in LOOKED_FOR]
        right = found == [[(last[number],)] for number in LOOKED_FOR] and spark.table(table).count() == len(rows) == IDS
        return "accepted" if right and {row.id: row.v for row in rows} == last else f"wrong rows: {found}, {rows}"

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(cases, pool.map(told, cases), strict=True))
    expected = {case: "accepted" if case[1] == 1 or WAYS[case[0]].right else "refused" for case in cases}
    assert found == expected
    # Written once more they lie by the key.
    table = f"{namespace}.set_later_4"
    spark.sql(f"INSERT OVERWRITE {table} SELECT id, max(v) AS v FROM {table} GROUP BY id")
    spark.sql(f"ALTER TABLE {table} {KEY}")
    assert sorted(row.v for row in spark.table(table).collect()) == list(range(100, 100 + IDS))


def test_rows_that_are_there_must_have_a_key(spark: SparkSession, namespace: str) -> None:
    """NULLs, also within structs; and a column of the user's that has the name of the field of what happened."""
    cases = {
        "none": ("id BIGINT", "(1), (NULL)", KEY, "id"),
        "within": (
            "id BIGINT, s STRUCT<x: INT>",
            "(1, named_struct('x', 1)), (2, named_struct('x', NULL))",
            "SET TBLPROPERTIES ('primary-key' = 'id,s', 'routing-key' = 'id')",
            r"s\.x",
        ),
        "own": ("id BIGINT NOT NULL, _operation STRING", "(1, 'delete'), (2, 'move'), (3, '==')", KEY, "_operation"),
        "of_numbers": ("id BIGINT NOT NULL, _operation INT", "(1, 1), (2, NULL)", KEY, "_operation"),
    }
    for name, (columns, values, change, what) in cases.items():
        table = f"{namespace}.{name}"
        spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('routing-key' = 'id')")
        spark.sql(f"INSERT INTO {table} VALUES {values}")
        before = sorted(map(str, spark.table(table).collect()))
        with pytest.raises(Exception, match=rf"/{name.replace('_', '-')}.*{what}") as refused:
            spark.sql(f"ALTER TABLE {table} {change}")
        assert "\n" not in str(refused.value).split(" SQLSTATE")[0]
        assert sorted(map(str, spark.table(table).collect())) == before
    # Who says that the column is that field is believed.
    table = f"{namespace}.own"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('primary-key' = 'id', 'operation-column' = '_operation')")
    assert [row.id for row in spark.table(table).collect()] == [2, 3]
    # Rows without a key go; then it can be given.
    table = f"{namespace}.none"
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id IS NOT NULL")
    spark.sql(f"ALTER TABLE {table} {KEY}")
    assert [row.id for row in spark.table(table).collect()] == [1]


def test_a_key_without_which_rows_can_t_be_read_is_taken_back(
    spark: SparkSession, namespace: str, client: Client, settings: Settings
) -> None:
    """Programs of others write what no key allows: until then the key stays, and from then on it can go."""
    table, stream = f"{namespace}.theirs", Stream(namespace.removeprefix("pravega.").replace("_", "-"), "theirs")
    spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('routing-key' = 'id')")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"ALTER TABLE {table} {KEY}")
    take_back = f"ALTER TABLE {table} UNSET TBLPROPERTIES ('primary-key')"
    with pytest.raises(Exception, match="will stay so"):
        spark.sql(take_back)
    codec = load_definition(client, settings, stream, keyed=False).for_writing()
    (event,) = codec.encode(
        pa.record_batch({"id": pa.array([None], pa.int64()), "_operation": pa.array([None], pa.string())})
    ).to_pylist()
    with EventWriter(client, stream) as writer:
        writer.write(event, "1")
    with pytest.raises(Exception, match='no value in column "id"'):
        spark.table(table).collect()
    spark.sql(take_back)
    assert sorted(map(str, spark.table(table).collect())) == [
        "Row(id=1, _operation=None)",
        "Row(id=None, _operation=None)",
    ]
