"""Options of reads with each other: each two values of two options meet, and the rows are those of a Python dict."""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from since import is_missing
from streaming_tools import run_available, scope_of

from pyspark_pravega.client import Client, Stream, StreamCut

pytestmark = [pytest.mark.server, pytest.mark.spark]

Case = dict[str, str]
Pairs = set[tuple[tuple[str, str], ...]]
Position = tuple[int, int]
"""Segment and offset of an event."""

STARTS = ("none", "earliest", "JSON", "Java's text", "a name", "a time", "within a commit")
ENDS = ("none", "latest", "JSON", "a name", "a time", "as of a version")
MODES = ("none", "fail-fast", "permissive", "drop-malformed")
PARTITIONS = ("none", "1", "7")
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

COLUMNS = {
    "rows": ["v", "NULL AS _segment", "NULL AS _offset", "NULL AS rows"],
    "positions": ["v", "_segment", "_offset", "NULL AS rows"],
    "count": ["NULL AS v", "NULL AS _segment", "NULL AS _offset", "count(*) AS rows"],
}
"""What a way asks for; others ask for the rows."""
LIMITS = {"stream by events": {"maxEventsPerTrigger": "150"}, "stream by bytes": {"maxBytesPerTrigger": "9k"}}


def pairwise(choices: dict[str, tuple[str, ...]]) -> Iterator[Case]:
    """Cases in which each two values of two options meet at least once, if they may; few of them fail.

    Args:
        choices: each option's values.
    """
    names = list(choices)
    cases = [dict(zip(names, values, strict=True)) for values in itertools.product(*choices.values())]
    cases = [case for case in cases if means_anything(case)]
    random.Random(2).shuffle(cases)
    pairs = [(case, pairs_of(case)) for case in cases]
    missing = Pairs().union(*(some for _, some in pairs))
    while missing:
        # What fails has a query of its own, and each of its tasks is tried three times.
        case, some = max(pairs, key=lambda pair: len(pair[1] & missing) / (1.5 if fails(pair[0]) else 1))
        missing -= some
        yield case


def pairs_of(case: Case) -> Pairs:
    """Which values meet in a case; a count decodes no events, so that start and mode don't meet."""
    pairs = set(itertools.combinations(sorted(case.items()), 2))
    return {pair for pair in pairs if case["way"] != "count" or {name for name, _ in pair} != {"start", "mode"}}


def fails(case: Case) -> bool:
    """Whether a case reads the event that is no row, which lies before all others, and takes none."""
    return case["start"] in ("none", "earliest") and case["mode"] in ("none", "fail-fast") and case["way"] != "count"


def means_anything(case: Case) -> bool:
    if case["end"] == "as of a version":
        # Time travel is a bound of its own.
        return case["start"] == "none" and not is_stream(case) and case["way"] != "without the catalog"
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

    def wrong(self, cases: list[Case], checkpoint: Path) -> dict[str, str]:
        """What is wrong with the answers of cases.

        A query for each case would mostly cost the query. So those that must fail have their own, and all others share
        two: a batch and a streaming query, in which each case is a source of its own. All run at a time.
        """
        failing = [case for case in cases if fails(case)]
        others = [[case for case in cases if not fails(case) and is_stream(case) is stream] for stream in (False, True)]
        if is_missing("4.2"):
            # A source in Python takes no availableNow there, and Spark then runs one micro-batch of all.
            streams = others.pop()
            for python in (True, False):
                others.append([case for case in streams if case["way"].endswith("without the catalog") is python])
        with ThreadPoolExecutor() as threads:
            shared = [threads.submit(self.answers, some, checkpoint / f"all{n}") for n, some in enumerate(others)]
            failures = threads.map(self.failure, failing, [checkpoint / str(number) for number in range(len(failing))])
            wrong = {str(case): what for case, what in zip(failing, failures, strict=True) if what}
            for some, query in zip(others, shared, strict=True):
                for case, answer in zip(some, query.result(), strict=True):
                    if what := self.differs(case, answer):
                        wrong[str(case)] = what
        return wrong

    def failure(self, case: Case, checkpoint: Path) -> str | None:
        """What is wrong with a case that must fail, or nothing."""
        try:
            self.answers([case], checkpoint)
        except PySparkException as error:
            return None if "can't be decoded (segment " in str(error) else f"failed: {str(error)[:500]}"
        return "didn't fail, though an event is bad"

    def differs(self, case: Case, answer: list[Row]) -> str | None:
        """What is wrong with a case's answer, or nothing."""
        events = self.expected(case)
        if case["way"] == "count":
            counts = [row.rows for row in answer]
            return None if counts == [len(events)] else f"{counts} are counted, not {len(events)}"
        if case["way"] == "a filter":
            events = {position: value for position, value in events.items() if position[0] % 2 == 0 and value}
        values = [value for value in events.values() if value or case["mode"] != "drop-malformed"]
        if case["way"] == "positions" and any(
            self.rows.get((row._segment, row._offset), "no event") != row.v for row in answer
        ):
            return "a row's position isn't that of its event"
        missing, extra = Counter(values) - Counter(row.v for row in answer), Counter(row.v for row in answer)
        extra -= Counter(values)
        return (
            f"{missing.total()} of {len(values)} rows lack, {extra.total()} are too many" if missing or extra else None
        )

    def answers(self, cases: list[Case], checkpoint: Path) -> list[list[Row]]:
        """What cases read, all of them in batches or all as streams, by one query; each one's rows in no order."""
        legs = [
            self.read(case).selectExpr(f"{number} AS place", *COLUMNS.get(case["way"], COLUMNS["rows"]))
            for number, case in enumerate(cases)
        ]
        both = functools.reduce(DataFrame.union, legs)
        if is_stream(cases[0]):
            rows = [row for batch in run_available(both, checkpoint).rows.values() for row in batch]
        else:
            rows = both.collect()
        answers: list[list[Row]] = [[] for _ in cases]
        for row in rows:
            answers[row.place].append(row)
        return answers

    def read(self, case: Case) -> DataFrame:
        """A case's rows."""
        options, way = self.options(case), case["way"]
        reader = self.spark.readStream if is_stream(case) else self.spark.read
        reader = reader.options(**options, **LIMITS.get(way, {}))
        if way.endswith("without the catalog"):
            return reader.format("pravega").options(**self.source).load()
        rows = reader.table(self.table)
        return rows.where("_segment % 2 = 0 AND v IS NOT NULL") if way == "a filter" else rows


def is_stream(case: Case) -> bool:
    return case["way"].startswith("stream")


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
    spark.sql(f"CREATE TABLE {table} (k STRING, v STRING) CLUSTERED BY (k) INTO 2 BUCKETS")

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
    spark.sql(f"CALL pravega.system.scale('{table}', 3)")
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


@pytest.mark.usefixtures("interpreted")
@pytest.mark.in_turn(8)
def test_each_option_with_each_other(spark: SparkSession, namespace: str, client: Client, tmp_path: Path) -> None:
    history = make_history(spark, namespace, client)
    choices = {"start": STARTS, "end": ENDS, "mode": MODES, "partitions": PARTITIONS, "way": WAYS}
    cases = list(pairwise(choices))
    wrong = history.wrong(cases, tmp_path)
    for bound in (*list(history.starts.values())[1:], *list(history.ends.values())[1:-1]):
        refused = spark.read.options(**bound, **history.ends["as of a version"]).table(history.table)
        with pytest.raises(PySparkException, match="says where this read ends"):
            refused.count()
    moment = datetime.fromtimestamp(int(history.ends["a time"]["endTimestamp"]) / 1000, UTC).isoformat()
    earlier = spark.read.options(timestampAsOf=moment, mode="permissive").table(history.table)
    assert earlier.where("v IS NOT NULL").count() == 300
    assert not wrong, f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(f"{c}: {what}" for c, what in wrong.items())
