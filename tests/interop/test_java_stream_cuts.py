"""Stream cuts' texts are the Java client's, both ways, and so are the heads and tails of streams."""

from __future__ import annotations

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.positions.cuts import tail_cut, truncate_stream
from pyspark_pravega.client.segments.writing import SegmentWriter
from pyspark_pravega.client.stream_cut import NOT_REACHED, UNBOUNDED, StreamCut
from pyspark_pravega.errors import ConfigurationError
from tests.jars.java_client import JavaPrograms

pytestmark = [pytest.mark.server, pytest.mark.dropped]

CUTS = [
    StreamCut(Stream("s", "t"), {0: 0}),
    StreamCut(Stream("a.b-c", "x" * 255), {0: 2**63 - 1, (2**31 - 1) << 32 | 2**31 - 1: 5}),
    StreamCut(Stream("s", "t"), {0: 7, 1 << 32 | 2: NOT_REACHED, 1 << 32 | 3: NOT_REACHED}),
    StreamCut(Stream("s", "_MARKt"), {epoch << 32 | epoch * 3: epoch * 1_000 for epoch in range(1_000)}),
]


def plain(cut: StreamCut) -> str:
    return f"{cut.stream} " + ",".join(f"{segment_id}={offset}" for segment_id, offset in cut.items())


def test_texts_of_cuts_are_understood_both_ways(java: JavaPrograms) -> None:
    lines = [f"read {cut.to_text()}" for cut in CUTS] + [f"make {plain(cut)}" for cut in CUTS]
    answers = java.run("interop.StreamCutTexts", stdin="\n".join([*lines, "read UNBOUNDED"]) + "\n").splitlines()
    assert answers[: len(CUTS)] == [plain(cut) for cut in CUTS]
    assert [StreamCut.from_text(text) for text in answers[len(CUTS) : -1]] == CUTS
    assert answers[-1] == "unbounded"
    assert StreamCut.from_text("UNBOUNDED") is UNBOUNDED


def test_heads_and_tails_are_where_java_finds_them(catalog: Catalog, scope: str, java: JavaPrograms) -> None:
    controller, pool = catalog.client.controller, catalog.client.pool
    stream = Stream(scope, "t")
    controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    for segment_id in (0, 1):
        writer = SegmentWriter(pool, stream, segment_id)
        writer.append(bytes(20), 1)
        writer.flush()
        writer.close()
    truncate_stream(pool, StreamCut(stream, {0: 0, 1: 10}))
    controller.split_segment(stream, 1)
    sealed = Stream(scope, "sealed")
    controller.create_stream(sealed, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    controller.split_segment(sealed, 0)
    controller.seal_stream(sealed)
    asked = [(what, one) for one in (stream, sealed) for what in ("head", "tail")]
    lines = [f"{what} {one.scope} {one.name}" for what, one in asked]
    answers = java.run("interop.StreamCutTexts", stdin="\n".join(lines) + "\n").splitlines()
    assert StreamCut.from_text(answers[0]) == controller.head(stream)
    assert StreamCut.from_text(answers[1]) == tail_cut(pool, stream)
    assert StreamCut.from_text(answers[2]) == controller.head(sealed)
    # Java takes the current segments for the tail, and a sealed stream has none; it can't read this text itself.
    with pytest.raises(ConfigurationError, match="the Java client makes such a tail of a sealed stream"):
        StreamCut.from_text(answers[3])
    assert len(tail_cut(pool, sealed)) == 3
