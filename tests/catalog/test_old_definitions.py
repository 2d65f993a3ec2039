"""Plans that were made of a look at a table which is old by now: nothing of one table gets into another one."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from catalog_tools import COLUMNS, ids, make, plan, rows
from pyspark.sql.types import DoubleType, LongType, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.looks import Looks
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.plans.streams import Source
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.client import Stream, StreamConfiguration
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.option_names import WRITER_MODES
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.errors import EventDecodeError, PravegaError, TableChangedError
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST, MODES
from pyspark_pravega.settings import Settings

OTHERS = StructType().add("amount", DoubleType()).add("id", LongType(), False)
LONG_S = 600.0


def of_formats() -> list[str]:
    return ["avro", "json", "protobuf"]


def made_again(catalog: Catalog, scope: str, table: str, table_format: str) -> Stream:
    """Another session's DROP and CREATE, with a row."""
    assert catalog.relations.drop([scope], table)
    stream = catalog.tables.create([scope], table, OTHERS, [], {"format": table_format}).stream
    batch = pa.record_batch({"amount": pa.array([0.5]), "id": pa.array([100])})
    job = WriteJob(plan(catalog.definition(stream, age_s=0)))
    job.commit_job([job.write_partition(0, iter([batch]))])
    return stream


@pytest.mark.parametrize("table_format", of_formats())
def test_a_plan_of_an_old_look_is_of_the_table_that_was_there_then(
    settings: Settings, scope: str, table_format: str
) -> None:
    """The analysis looks a table up, another process makes it again, and then the statement is planned."""
    one, other = CatalogMethods(settings), Catalog(settings)
    stream = one.catalog.tables.create([scope], "t", COLUMNS, [], {"format": table_format}).stream
    old = one.catalog.definition(stream, age_s=0)
    made_again(other, scope, "t", table_format)
    assert one.catalog.definition(stream, age_s=LONG_S) is old, "as it is within a second"

    def write(mode: str) -> None:
        options = WriteOptions(transaction_timeout_ms=60_000, writer_mode=mode)
        job = WriteJob(WritePlan.of(one.catalog.definition(stream, age_s=LONG_S), options))
        batch = pa.record_batch({"id": pa.array([7]), "name": pa.array(["of the old table"])})
        job.commit_job([job.write_partition(0, iter([batch]))])

    for mode in WRITER_MODES:
        with pytest.raises(TableChangedError, match=rf'"{scope}/t" was dropped and made again .*run the statement'):
            write(mode)
    with pytest.raises(TableChangedError, match=r"dropped and made again.*make the DataFrame again"):
        plan_scan(old, ScanRequest(columns=["id"]))
    assert ids(other, stream) == [100]


def test_a_scan_of_an_old_look_is_planned_again_where_its_columns_are_the_same(settings: Settings, scope: str) -> None:
    methods, other = CatalogMethods(settings), Catalog(settings)
    stream = make(methods.catalog, scope)
    for column, expected in (("id", True), ("name", False)):
        methods.catalog.forget(stream)
        methods.catalog.definition(stream)
        made_again(other, scope, "t", "avro")

        def scan(column: str = column) -> int:
            return methods.plan_scan([scope], "t", [column], {}, schema=COLUMNS)["segments"]

        if expected:
            assert scan() == 1
        else:
            with pytest.raises(TableChangedError, match='"name" isn\'t there any more'):
                scan()
        other.relations.drop([scope], "t")
        make(other, scope)


def test_a_running_query_does_not_go_on_with_a_table_that_was_made_again(settings: Settings, scope: str) -> None:
    """With failOnDataLoss false it would read the new stream from its head, by the old one's schemas."""
    methods, other = CatalogMethods(settings), Catalog(settings)
    make(methods.catalog, scope)
    options = {"failOnDataLoss": "false"}
    source: Source = {
        "id": "one",
        "namespace": [scope],
        "table": "t",
        "columns": ["id"],
        "schema": COLUMNS.json(),
        "options": options,
        "position": None,
    }
    methods.open_stream(source)
    start = methods.streams.initial(source)
    made_again(other, scope, "t", "avro")
    end = methods.streams.latest(source, start, True, None)
    with pytest.raises(TableChangedError, match="dropped and made again"):
        methods.stream_plan(source, start, end)
    with pytest.raises(TableChangedError, match="dropped and made again"):
        methods.stream_follow(source, start, 4)
    # Started again it goes on.
    again: Source = {**source, "id": "another", "schema": OTHERS.json()}
    methods.load_relation([scope], "t")
    methods.open_stream(again)
    assert len(methods.stream_plan(again, start, end)) == 1


def test_of_two_looks_the_one_that_began_last_counts() -> None:
    looks: Looks[str, str] = Looks(2)
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> str:
        begun.set()
        assert go_on.wait(60)
        return "before"

    def overtaken(meanwhile: str) -> str | None:
        begun.clear()
        go_on.clear()
        with ThreadPoolExecutor(1) as threads:
            slow = threads.submit(looks.look, "t", slowly)
            assert begun.wait(60)
            if meanwhile == "a look":
                assert looks.look("t", lambda: "after") == "after"
            elif meanwhile == "a change":
                looks.forget("t")
            elif meanwhile == "many others":
                looks.forget("t")
                for number in range(5):
                    looks.look(f"other {number}", lambda: "other")
            go_on.set()
            assert slow.result() == "before", "who looked gets what was found"
        return looks.recent("t", LONG_S)

    assert overtaken("nothing") == "before"
    assert overtaken("a look") == "after"
    assert overtaken("a change") is None
    assert overtaken("many others") is None
    assert overtaken("nothing") == "before"
    assert looks.recent("t", 0) is None
    with pytest.raises(PravegaError):
        looks.look("t", lambda: (_ for _ in ()).throw(PravegaError("no")))
    assert looks.recent("t", LONG_S) == "before"


@pytest.mark.parametrize("mode", MODES)
def test_an_event_of_a_later_schema_is_not_bad(catalog: Catalog, scope: str, mode: str) -> None:
    """Its columns are those of the plan, and yet the plan's schema doesn't read it. An event that none reads is bad."""
    stream = Stream(scope, "t")
    catalog.client.controller.create_stream(stream, StreamConfiguration())

    def register(*symbols: str) -> None:
        kind = {"type": "enum", "name": "kind", "symbols": list(symbols)}
        record = {"type": "record", "name": "t", "fields": [{"name": "kind", "type": kind}]}
        catalog.schemas.register(stream, table_format="avro", text=json.dumps(record), compatibility="AllowAny")

    def put(*kinds: str) -> None:
        events = catalog.definition(stream, age_s=0).for_writing().encode(pa.record_batch({"kind": list(kinds)}))
        with catalog.client.writer(stream) as writer:
            writer.write_batch(events.to_pylist(), [""] * len(kinds))

    register("a", "b")
    put("a")
    with catalog.client.writer(stream) as writer:
        writer.write_batch([b"\x01\x00\x00\x00\x00\x7f"], [""])
    old = catalog.definition(stream).with_mode(mode)
    register("a", "b", "c")
    put("b")

    def read() -> list[str | None]:
        return rows(old, take_snapshot(catalog.client, stream), "kind")

    if mode == DROP_MALFORMED:
        assert read() == ["a", "b"], "an event of a later schema that the plan's reads, too"
    put("c")
    with pytest.raises(EventDecodeError if mode == FAIL_FAST else TableChangedError):
        read()
