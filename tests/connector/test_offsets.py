"""Offsets as values and texts, what they are made of in checkpoints, and the options of reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import Stream, StreamCut
from pyspark_pravega.connector.option_names import READ_KEYS
from pyspark_pravega.connector.options import ReadOptions, canonical
from pyspark_pravega.connector.stream.changes import ChangesOffset
from pyspark_pravega.connector.stream.offsets import SourceOffset, StreamPosition
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.sql.checkpoints import Folder, read_checkpoint
from pyspark_pravega.values import time_ms

CHECKPOINTS = Path(__file__).parent / "checkpoints"
"""Written by released versions, and by those on the way to a release: what is here must open for ever."""

NAMES = st.from_regex(r"[A-Za-z0-9.\-]{1,12}", fullmatch=True)
STREAMS = st.builds(Stream, NAMES, NAMES)
OFFSETS = st.integers(0, 2**63 - 1)
SEGMENTS = st.builds(lambda epoch, number: epoch << 32 | number, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
CUTS = st.dictionaries(SEGMENTS, OFFSETS, min_size=1, max_size=5)


@given(st.dictionaries(STREAMS, st.tuples(CUTS, st.integers(0, 2**62), st.none() | CUTS), max_size=4))
def test_an_offset_comes_back_from_its_text(
    positions: dict[Stream, tuple[dict[int, int], int, dict[int, int] | None]],
) -> None:
    offset = SourceOffset(
        {
            stream: StreamPosition(
                cut=StreamCut(stream, cut), made_ms=made_ms, end=None if end is None else StreamCut(stream, end)
            )
            for stream, (cut, made_ms, end) in positions.items()
        }
    )
    text = offset.to_json()
    assert SourceOffset.from_json(text) == offset
    assert SourceOffset.from_json(text).to_json() == text
    backwards = SourceOffset(dict(reversed(list(offset.items()))))
    assert backwards.to_json() == text


def test_the_text_is_what_the_docs_show() -> None:
    text = '{"version":1,"streams":{"shop/orders":{"made":1795278750762,"cut":{"0":33060,"1":30740}}}}'
    offset = SourceOffset.from_json(text)
    assert offset[Stream("shop", "orders")].cut == {0: 33060, 1: 30740}
    assert offset.to_json() == text
    page = Path(__file__).parents[2] / "docs" / "streaming.md"
    assert text in page.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no offset of a Pravega source"),
        ("[]", '"version" and "streams"'),
        ('{"version":3,"streams":{}}', "a later version of pyspark-pravega (version 3, known is 2)"),
        ('{"version":2,"streams":{"a/b":{"made":0,"cut":{"0":0},"lake":7}}}', "in the lake is none"),
        ('{"version":2,"streams":{"a/b":{"made":0,"cut":{"0":0},"lake":{"last":7}}}}', "in the lake is none"),
        ('{"version":"1","streams":{}}', "its version is no number"),
        ('{"version":1,"streams":{"a":{}}}', "no scope"),
        ('{"version":1,"streams":{"a/b":{"made":0}}}', "has no cut"),
        ('{"version":1,"streams":{"a/b":{"made":null,"cut":{"0":0}}}}', '"made"'),
        ('{"version":1,"streams":{"a/b":{"made":0,"cut":{"0":"0"}}}}', "must be a whole number"),
        ('{"version":1,"streams":{"a/b":{"made":0,"cut":{"0":0},"end":7}}}', 'the end of stream "a/b" is no cut'),
    ],
)
def test_what_is_no_offset_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SourceOffset.from_json(text)
    assert words in str(refused.value)


@pytest.mark.parametrize("folder", sorted(CHECKPOINTS.iterdir()), ids=lambda folder: folder.name)
def test_kept_checkpoints_open(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    committed = read_checkpoint(Folder.parse(str(folder / "checkpoint")))
    batch, offsets = committed.batch, committed.offsets
    assert batch == expected["batch"]
    assert [{str(stream): dict(position.cut) for stream, position in offset.items()} for offset in offsets] == [
        {stream: {int(segment): at for segment, at in cut.items()} for stream, cut in streams.items()}
        for streams in expected["cuts"]
    ]
    ends = [{str(s): dict(p.end) for s, p in offset.items() if p.end is not None} for offset in offsets]
    assert ends == [
        {stream: {int(segment): at for segment, at in cut.items()} for stream, cut in streams.items()}
        for streams in expected.get("ends", [{} for _ in offsets])
    ]
    # Not only do they open: what a later version writes for the same position, earlier ones have written.
    lines = (folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[2:]
    assert [offset.to_dict() for offset in offsets] == [json.loads(line) for line in lines]


def test_offsets_over_changes_stay_as_they_are() -> None:
    """Checkpoints hold this text: it must be read for ever."""
    text = '{"version":1,"changes":{"stream":"shop/orders","commit":17,"at":1795278750762}}'
    offset = ChangesOffset(stream=Stream("shop", "orders"), commit=17, at=1795278750762)
    assert offset.to_json() == text
    assert ChangesOffset.from_json(text) == offset


@pytest.mark.parametrize(
    "text",
    [
        *("", "7", "[]", "[" * 100_000, '{"version":1}', '{"version":"x","changes":{}}', '{"version":1,"streams":{}}'),
        *('{"version":1,"changes":{"stream":"a","commit":1,"at":0}}', '{"version":1,"changes":{"stream":"a/b"}}'),
    ],
)
def test_what_is_no_offset_over_changes_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is no offset of a query over CHANGES"):
        ChangesOffset.from_json(text)


def test_a_place_in_the_lake_is_of_a_version_that_earlier_releases_refuse() -> None:
    text = (
        '{"version":2,"streams":{"shop/orders":{"made":1795278750762,"cut":{"0":33060,"1":30740},"lake":{"id":"x",'
        '"since":0,"snapshot":7,"metadata":"file:///lake/7.json","last":9,"version":4,"after":3,"whole":0,'
        '"behind":{"0":120},"until":{"0":33000}}}}}'
    )
    offset = SourceOffset.from_json(text)
    assert offset.to_json() == text
    place = offset[Stream("shop", "orders")].lake
    assert place is not None
    assert (place.version, place.is_read, place.behind) == (4, False, StreamCut(Stream("shop", "orders"), {0: 120}))


def test_an_offset_over_changes_of_a_later_version_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"written by a later version of pyspark-pravega \(version 2, known is 1"
    ):
        ChangesOffset.from_json('{"version":2,"changes":{}}')


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = Folder.parse(tmp_path.as_uri())
    with pytest.raises(ConfigurationError, match=r"no folder offsets$"):
        read_checkpoint(folder)
    with pytest.raises(ConfigurationError, match="it isn't there"):
        read_checkpoint(folder / "nowhere")
    (tmp_path / "several" / "orders" / "offsets").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"no folder offsets; orders in it may be meant$"):
        read_checkpoint(folder / "several")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n{}\n")
    with pytest.raises(ConfigurationError, match="committed no micro-batch yet"):
        read_checkpoint(folder)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}\n")
    with pytest.raises(ConfigurationError, match="reads no Pravega stream"):
        read_checkpoint(folder)
    (tmp_path / "offsets" / "0").rename(tmp_path / "offsets" / "1")
    with pytest.raises(ConfigurationError, match="lacks the offsets"):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "s3a://shop/c?endpoint_override=http://127.0.0.1:1",
            "s3a://shop/c/commits can't be read: When .*; set AWS_",
        ),
        ("s3://key:secret@shop/c", "s3://shop/c must be named without a password: set AWS_ACCESS_KEY_ID"),
        ("hdfs://127.0.0.1:1/c", "hdfs://127.0.0.1:1/c can't be read: .*; set JAVA_HOME, HADOOP_HOME, and CLASSPATH"),
        (
            "ftp://me:secret@there/c",
            "ftp://there/c can't be read: it must be a folder of this machine, or begin",
        ),
    ],
)
def test_a_file_system_that_cannot_be_asked_is_named(url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its user and password."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a password")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigurationError, match=words) as refused:
        read_checkpoint(Folder.parse(url))
    assert "secret" not in str(refused.value)


def test_options_may_be_spelt_in_all_ways() -> None:
    for spelling in ("maxEventsPerTrigger", "maxeventspertrigger", "max_events_per_trigger", "max-events-per-trigger"):
        assert canonical({spelling: "5"}, READ_KEYS, "read option") == {"maxEventsPerTrigger": "5"}
    with pytest.raises(ConfigurationError, match='did you mean "failOnDataLoss"'):
        canonical({"failOnDataLos": "x"}, READ_KEYS, "read option")


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("1000000", 1_000_000), ("64k", 65_536), ("64 MiB", 64 << 20), ("2g", 2 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert ReadOptions.parse({"maxBytesPerTrigger": text}).max_bytes == size


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "1x", ""])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigurationError, match="number of bytes"):
        ReadOptions.parse({"maxBytesPerTrigger": text})


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("15m", 900), ("1 h", 3600), ("250", 0.25)])
def test_delays(text: str, seconds: float) -> None:
    assert ReadOptions.parse({"maxTriggerDelay": text, "minEventsPerTrigger": "5"}).max_delay_s == seconds


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startStreamCut": "earliest", "startTimestamp": "1"}, "can't be given together"),
        ({"minEventsPerTrigger": "9", "maxEventsPerTrigger": "8"}, "must not be above"),
        ({"maxTriggerDelay": "soon", "minEventsPerTrigger": "8"}, "must be a time like"),
        ({"minPartitions": "0"}, "must be a number from 1"),
        ({"minPartitions": "1000000000"}, '"minPartitions" must be a number from 1 to 100000, not "1000000000"'),
        (
            {"startTimestamp": "2026-01-02", "endTimestamp": "2026-01-01T12:00"},
            'option "endTimestamp" .2026-01-01T12:00. lies before "startTimestamp" .2026-01-02.',
        ),
        ({"startTimestamp": "9" * 30}, 'option "startTimestamp" must be a time like'),
        # Larger than what the JVM, and a segment, can count.
        ({"maxEventsPerTrigger": "9" * 5_000}, 'must be a number from 1 to 9223372036854775807, not "999'),
        ({"maxBytesPerTrigger": "9000000000g"}, '"maxBytesPerTrigger" must be a number of bytes'),
        ({"maxTriggerDelay": "9" * 400 + "h", "minEventsPerTrigger": "8"}, "must be a time like"),
    ],
)
def test_contradictions_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ReadOptions.parse(given)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1795278750762", 1_795_278_750_762),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert time_ms("startTimestamp", text) == ms
