"""Options of reads with each other: each two values of two options meet, and the rows are those of a Python dict."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from streaming_tools import run_available, scope_of

from pyspark_pravega.client import Client, Stream, StreamCut

pytestmark = [pytest.mark.server, pytest.mark.spark]

Case = dict[str, str]
Position = tuple[int, int]
"""Segment and offset of an event."""

STARTS = ("none", "earliest", "JSON", "Java's text", "a name", "a time", "within a commit")
ENDS = ("none", "latest", "JSON", "a name", "a time", "as of a version")
MODES = ("none", "fail-fast", "permissive", "drop-malformed")
PARTITIONS = ("none", "1", "9")
WAYS = (
    "rows",
    "count",
    "a filter",
    "positions",
    "without the catalog",
    "stream",
    "stream by events",
    "stream by bytes",
    "stream without the catalog",
)

LIMITS = {"stream by events": {"maxEventsPerTrigger": "150"}, "stream by bytes": {"maxBytesPerTrigger": "9k"}}


def pairwise(choices: dict[str, tuple[str, ...]], allowed: Callable[[Case], bool]) -> Iterator[Case]:
    """Cases in which each two allowed values of two options meet at least once.

    Args:
        choices: each option's values.
        allowed: whether a case means anything.
    """
    names = list(choices)
    cases = [dict(zip(names, values, strict=True)) for values in itertools.product(*choices.values())]
    cases = [case for case in cases if allowed(case)]
    random.Random(17).shuffle(cases)

    def pairs(case: Case) -> set[tuple[tuple[str, str], ...]]:
        return set(itertools.combinations(sorted(case.items()), 2))

    missing = set().union(*map(pairs, cases))
    while missing:
        case = max(cases, key=lambda candidate: len(pairs(candidate) & missing))
        missing -= pairs(case)
        yield case


def means_anything(case: Case) -> bool:
    streaming = case["way"].startswith("stream")
    if case["end"] == "as of a version":
        # Time travel is a bound of its own.
        return case["start"] == "none" and not streaming and case["way"] != "without the catalog"
    return True


@dataclass
class History:
    """A table of four INSERTs, with an event within the first that is no row, and a scale between second and third."""

    spark: SparkSession
    table: str
    source: dict[str, str]
    starts: dict[str, dict[str, str]]
    ends: dict[str, dict[str, str]]
    rows: dict[Position, str | None]
    """Each event's row: its `v`, or None where it is none."""
    cuts: dict[str, StreamCut]

    def expected(self, case: Case) -> dict[Position, str | None]:
        """The events between start and end."""
        first = self.cuts[{"none": "head", "earliest": "head", "within a commit": "within"}.get(case["start"], "first")]
        last = self.cuts[{"none": "tail", "latest": "tail"}.get(case["end"], "third")]
        return {
            position: value
            for position, value in self.rows.items()
            if not lies_before(position, first) and lies_before(position, last)
        }

    def options(self, case: Case) -> dict[str, str]:
        options = {**self.starts[case["start"]], **self.ends[case["end"]]}
        if case["mode"] != "none":
            options["mode"] = case["mode"]
        if case["partitions"] != "none":
            options["minPartitions"] = case["partitions"]
        return options

    def check(self, case: Case, checkpoint: Path) -> str | None:
        """What is wrong with a case's answer, or nothing."""
        events = self.expected(case)
        bad_events = list(events.values()).count(None)
        fails = bad_events and case["mode"] in ("none", "fail-fast") and case["way"] != "count"
        try:
            answer = self.read(case, checkpoint)
        except PySparkException as error:
            if fails and "can't be decoded (segment " in str(error):
                return None
            return f"failed: {str(error)[:500]}"
        if fails:
            return "didn't fail, though an event is bad"
        if case["way"] == "a filter":
            events = {position: value for position, value in events.items() if position[0] % 2 == 0 and value}
        values = [value for value in events.values() if value or case["mode"] != "drop-malformed"]
        if case["way"] == "count":
            values = ["counted"] * len(values)
        missing, extra = Counter(values) - Counter(answer), Counter(answer) - Counter(values)
        return (
            f"{missing.total()} of {len(values)} rows lack, {extra.total()} are too many" if missing or extra else None
        )

    def read(self, case: Case, checkpoint: Path) -> list[str | None]:
        """What a case reads, in no order."""
        options, way = self.options(case), case["way"]
        if way.startswith("stream"):
            limits = {
                "stream by events": {"maxEventsPerTrigger": "150"},
                "stream by bytes": {"maxBytesPerTrigger": "9k"},
            }
            reader = self.spark.readStream.options(**options, **limits.get(way, {}))
            if way == "stream without the catalog":
                rows = reader.format("pravega").options(**self.source).load()
            else:
                rows = reader.table(self.table)
            batches = run_available(rows.select("v"), checkpoint).rows.values()
            return [row.v for batch in batches for row in batch]
        if way == "without the catalog":
            rows = self.spark.read.format("pravega").options(**self.source, **options).load()
        else:
            rows = self.spark.read.options(**options).table(self.table)
        if way == "count":
            return ["counted"] * rows.count()
        if way == "a filter":
            rows = rows.where("_segment % 2 = 0 AND v IS NOT NULL")
        if way == "positions":
            at = {(row._segment, row._offset): row.v for row in rows.select("v", "_segment", "_offset").collect()}
            assert at.items() <= self.rows.items()
            return list(at.values())
        return [row.v for row in rows.select("v").collect()]


def lies_before(position: Position, cut: StreamCut) -> bool:
    """Whether an event lies before a cut; a scale replaces all segments of the table at once."""
    segment, offset = position
    return offset < cut[segment] if segment in cut else segment < min(cut)


def now() -> str:
    """Later than all that was done, and earlier than what comes: the log's times are whole milliseconds."""
    time.sleep(0.01)
    moment = str(int(time.time() * 1000))
    time.sleep(0.01)
    return moment


def make_history(spark: SparkSession, namespace: str, client: Client) -> History:
    table, stream = f"{namespace}.history", Stream(scope_of(namespace), "history")
    spark.sql(f"CREATE TABLE {table} (k STRING, v STRING) CLUSTERED BY (k) INTO 3 BUCKETS")

    def insert(first: int) -> None:
        spark.sql(
            f"INSERT INTO {table} SELECT concat('k', id % 20), concat('v', id) FROM range({first}, {first + 100})"
        )

    cuts = {"head": client.controller.head(stream)}
    with client.writer(stream) as writer:
        writer.write_batch([b"\xff" * 9], ["k1"])
    insert(0)
    cuts["first"] = client.tail(stream)
    spark.sql(f"CALL pravega.system.create_cut('{table}', 'after_first')")
    after_first = now()
    insert(100)
    spark.sql(f"CALL pravega.system.scale('{table}', 4)")
    insert(200)
    cuts["third"] = client.tail(stream)
    spark.sql(f"CALL pravega.system.create_cut('{table}', 'after_third')")
    after_third = now()
    insert(300)
    cuts["tail"] = client.tail(stream)
    permissive = spark.read.option("mode", "permissive").table(table).select("v", "_segment", "_offset").collect()
    rows = {(row._segment, row._offset): row.v for row in permissive}
    assert Counter(rows.values()) == Counter([None, *(f"v{number}" for number in range(400))])
    second = [position for position, value in rows.items() if value is not None and 100 <= int(value[1:]) < 200]
    within = {}
    for segment in cuts["first"]:
        offsets = sorted(offset for number, offset in second if number == segment)
        within[segment] = offsets[len(offsets) // 2]
    cuts["within"] = StreamCut(stream, within)
    starts = {
        "none": {},
        "earliest": {"startStreamCut": "earliest"},
        "JSON": {"startStreamCut": cuts["first"].to_json()},
        "Java's text": {"startStreamCut": cuts["first"].to_text()},
        "a name": {"startStreamCut": "after_first"},
        "a time": {"startTimestamp": after_first},
        "within a commit": {"startStreamCut": cuts["within"].to_json()},
    }
    ends = {
        "none": {},
        "latest": {"endStreamCut": "latest"},
        "JSON": {"endStreamCut": cuts["third"].to_json()},
        "a name": {"endStreamCut": "after_third"},
        "a time": {"endTimestamp": after_third},
        "as of a version": {"versionAsOf": "3"},
    }
    source = {"stream": str(stream), **client.settings.to_options()}
    return History(spark, table, source, starts, ends, rows, cuts)


def test_each_option_with_each_other(spark: SparkSession, namespace: str, client: Client, tmp_path: Path) -> None:
    history = make_history(spark, namespace, client)
    choices = {"start": STARTS, "end": ENDS, "mode": MODES, "partitions": PARTITIONS, "way": WAYS}
    cases = list(pairwise(choices, means_anything))
    wrong = {}
    for number, case in enumerate(cases):
        if what := history.check(case, tmp_path / str(number)):
            wrong[str(case)] = what
    for bound in (*list(history.starts.values())[1:], *list(history.ends.values())[1:-1]):
        refused = spark.read.options(**bound, **history.ends["as of a version"]).table(history.table)
        with pytest.raises(PySparkException, match="says where this read ends"):
            refused.count()
    moment = datetime.fromtimestamp(int(history.ends["a time"]["endTimestamp"]) / 1000, UTC).isoformat()
    earlier = spark.read.options(timestampAsOf=moment, mode="permissive").table(history.table)
    assert earlier.where("v IS NOT NULL").count() == 300
    assert not wrong, f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(f"{c}: {what}" for c, what in wrong.items())
