"""`t$changes`, for a Spark without CHANGES in its SQL: it gives what CHANGES gives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from streaming_tools import run_available

pytestmark = [pytest.mark.server, pytest.mark.spark]

STARTS = ("startingVersion", "startingTimestamp")
COLUMNS = ("_commit_version", "_change_type", "id", "v", "_commit_timestamp")


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row[name] for name in COLUMNS) for row in frame.collect())


def _bounds(times: Mapping[int, str]) -> list[dict[str, str]]:
    """No bounds; each version and time as a start and an end, inclusive and not."""
    starts: list[dict[str, str]] = [{}, {"startingVersion": "2"}, {"startingTimestamp": times[2]}]
    ends: list[dict[str, str]] = [{}, {"endingVersion": "4"}, {"endingTimestamp": times[4]}]
    inclusive: list[dict[str, str]] = [
        {},
        {"startingBoundInclusive": "false", "endingBoundInclusive": "true"},
        {"startingBoundInclusive": "true", "endingBoundInclusive": "false"},
    ]
    product = itertools.product(starts, ends, inclusive)
    return [
        {**start, **end, **which} for start, end, which in product if _kinds(start) & _kinds(end) or not (start and end)
    ]


def _kinds(bound: Mapping[str, str]) -> set[str]:
    return {"version" if "Version" in key else "time" for key in bound}


@pytest.mark.since_spark("4.2")
@pytest.mark.parametrize("key", ["", "id"], ids=["plain", "keyed"])
@pytest.mark.in_turn(8)
def test_it_tells_what_changes_tell(spark: SparkSession, namespace: str, key: str, tmp_path: Path) -> None:
    t = f"{namespace}.t"
    changes = f"{namespace}.`t$changes`"
    spark.sql(f"CREATE TABLE {t} (id INT, v STRING)" + (f" TBLPROPERTIES ('primary-key' = '{key}')" if key else ""))
    for number in range(1, 6):
        later = ", NULL AS later" if number > 3 else ""
        spark.sql(f"INSERT INTO {t} BY NAME SELECT id, 'v{number}' AS v{later} FROM range({number}, {number + 3})")
        if number == 3:
            spark.sql(f"ALTER TABLE {t} ADD COLUMN later INT")
    commits = spark.sql(f"SELECT version, CAST(committed_at AS STRING) AS at FROM {namespace}.`t$commits`").collect()
    times = {row.version: f"{row.at}+00:00" for row in commits}
    expected = {
        (number, kind, id, f"v{version}")
        for number in range(1, 6)
        for id in range(number, number + 3)
        for kind, version in (
            [("insert", number)]
            if not key or number == 1 or id == number + 2
            else [("update_preimage", number - 1), ("update_postimage", number)]
        )
    }
    assert {row[:4] for row in _rows(spark.table(changes))} == expected
    assert spark.table(changes).count() == len(expected)
    for number, bounds in enumerate(_bounds(times)):
        told = _rows(spark.read.options(**bounds).table(changes))
        if bounds.keys() & {"endingVersion", "endingTimestamp"} and not bounds.keys() & set(STARTS):
            # Spark's own words for it have no end without a start.
            last = 4 - (bounds.get("endingBoundInclusive") == "false")
            assert {row[:4] for row in told} == {row for row in expected if row[0] <= last}
            continue
        assert told == _rows(spark.read.options(**bounds).changes(t)), bounds
        if number % 4 == 0:
            listed = ", ".join(f"'{name}' = '{value}'" for name, value in bounds.items())
            assert told == _rows(spark.sql(f"SELECT * FROM {changes} " + (f"WITH ({listed})" if listed else "")))
            if "Timestamp" not in str(bounds):
                frames = {
                    "named": spark.readStream.options(**bounds).table(changes),
                    "told": spark.readStream.options(**bounds).changes(t),
                }
                streamed = {
                    name: [
                        sorted(tuple(row[column] for column in COLUMNS) for row in rows)
                        for _, rows in sorted(run_available(frame, tmp_path / f"{number}-{name}").rows.items())
                    ]
                    for name, frame in frames.items()
                }
                assert streamed["named"] == streamed["told"], bounds
                assert sorted(row for rows in streamed["named"] for row in rows) == told
    pushed = spark.table(changes).where("_commit_version = 3 AND id = 3").select("v")
    assert {row.v for row in pushed.collect()} == ({"v3", "v2"} if key else {"v3"})
    assert len(spark.table(changes).limit(2).collect()) == 2


def test_what_it_refuses(spark: SparkSession, namespace: str) -> None:
    t = f"{namespace}.t"
    changes = f"{namespace}.`t$changes`"
    spark.sql(f"CREATE TABLE {t} (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    with pytest.raises(PySparkException, match="has no changes to tell"):
        spark.table(changes).collect()
    spark.sql(f"INSERT INTO {t} VALUES (1, 'a')")
    refusals: dict[Any, str] = {
        f"INSERT INTO {changes} VALUES (1, 'a', 'insert', 1, now())": "write to the table itself",
        f"DELETE FROM {changes} WHERE id = 1": 'change the rows of "t"',
        f"UPDATE {changes} SET v = 'b'": 'change the rows of "t"',
        f"TRUNCATE TABLE {changes}": r"t\$changes",
        f"ALTER TABLE {changes} SET TBLPROPERTIES ('history' = '5')": r"t\$changes",
        f"SELECT * FROM {changes} VERSION AS OF 1": "without AS OF",
        f"SELECT * FROM {changes} WITH (startStreamCut = 'earliest')": "told between versions",
        f"SELECT * FROM {changes} WITH (startingVersion = 9)": "has no version 9",
        f"SELECT * FROM {changes} WITH (startingVersion = 'one')": "one",
        f"SELECT * FROM {changes} WITH (startingVersion = 1, startingTimestamp = 0)": "can't be given together",
        f"SELECT * FROM {changes} WITH (startingBoundInclusive = 'maybe')": "startingBoundInclusive",
        f"SELECT * FROM {t} WITH (startingVersion = 1)": r"t\$changes",
        f"SELECT * FROM {namespace}.`none$changes`": "TABLE_OR_VIEW_NOT_FOUND",
    }
    for statement, text in refusals.items():
        with pytest.raises(PySparkException, match=text):
            spark.sql(statement).collect()
    assert [tuple(row) for row in spark.table(t).collect()] == [(1, "a")]
    spark.sql(f"INSERT OVERWRITE {t} SELECT id, concat(v, _commit_version) FROM {changes}")
    assert [tuple(row) for row in spark.table(t).collect()] == [(1, "a1")]
    assert "t$changes" not in str(spark.sql(f"SHOW TABLES IN {namespace}").collect())
