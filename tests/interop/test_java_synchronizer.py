"""Revisioned streams and shared state, used by turns and at once with the official client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream, StreamConfiguration
from pyspark_pravega.client.state.synchronizer import RevisionedStream, StateSynchronizer
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]


@pytest.fixture
def stream(catalog: Catalog, scope: str) -> Stream:
    stream = Stream(scope, "shared")
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    return stream


def test_each_reads_the_entries_and_the_mark_of_the_other(catalog: Catalog, stream: Stream, java: JavaPrograms) -> None:
    at = (stream.scope, stream.name)
    with RevisionedStream(catalog.client, stream) as log:
        revision: int | None = log.tail()
        for i in range(20):
            assert revision is not None
            revision = log.append_conditionally(revision, b"ours %d" % i)
        log.append(b"ours too")
        assert log.compare_and_set_mark(None, 13)

        java.run("interop.SyncTool", "append", *at, "30")
        old, new = java.run("interop.SyncTool", "mark", *at).split()
        printed = java.run("interop.SyncTool", "read", *at).splitlines()

        written = [b"ours %d" % i for i in range(20)] + [b"ours too"] + [b"java %d" % i for i in range(30)]
        entries = list(log.read_from(0))
        assert [entry for _, entry in entries] == written
        assert printed == [f"{revision} {entry.decode()}" for revision, entry in entries]
        assert (old.split(":")[1], new.split(":")[1]) == ("13", str(log.tail()))
        assert log.mark() == log.tail()


def test_both_count_together_and_compact(catalog: Catalog, stream: Stream, java: JavaPrograms) -> None:
    at = (stream.scope, stream.name)

    def counter() -> StateSynchronizer[int, int]:
        return StateSynchronizer(catalog.client, stream, initial=0, apply=lambda state, update: state + update)

    with counter() as ours, ThreadPoolExecutor(1) as thread:
        theirs = thread.submit(java.run, "interop.SyncTool", "count", *at, "200")
        while not theirs.done():
            ours.update(lambda _: [1000])
            ours.compact()
        assert int(theirs.result()) % 1000 == 200
        assert ours.fetch() % 1000 == 200
        assert int(java.run("interop.SyncTool", "compact", *at, "5")) == ours.fetch()
        with counter() as late:
            assert late.update(lambda _: [1]) == ours.state() + 1
        assert ours.fetch() % 1000 == 206
        ours.compact()
        assert int(java.run("interop.SyncTool", "count", *at)) == ours.state()
