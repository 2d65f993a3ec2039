"""Errors about an option call it what its user called it: each one that has a twin, with each kind of wrong value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from client_tools import make_stream

from pyspark_pravega.client import Client
from pyspark_pravega.connector.datasource import DefaultSource
from pyspark_pravega.connector.foreign_options import names
from pyspark_pravega.connector.official import streaming_options
from pyspark_pravega.connector.option_names import (
    CATALOG_WRITE_KEYS,
    OFFICIAL_WRITE_KEYS,
    READ_KEYS,
    WRITE_KEYS,
    dashed,
)
from pyspark_pravega.connector.options import ReadOptions, WriteOptions, canonical
from pyspark_pravega.connector.read import resolve_extents
from pyspark_pravega.connector.stream import check_real_time
from pyspark_pravega.errors import ConfigurationError, PravegaError

CUTS = ['{"0":', '{"0": "x"}', '{"0": -7}', '{"a/b": {"c/d": {"0": 1}}}']
TIMES = ["yesterday", "1.5", "2026-13-01", "9" * 30]
NUMBERS = ["0", "-1", "many", "1.5", "9" * 30]
SIZES = ["-1", "many", "5 parsecs"]
OURS = {
    "startingOffsets": "startStreamCut",
    "endingOffsets": "endStreamCut",
    "maxOffsetsPerTrigger": "maxEventsPerTrigger",
    "minOffsetsPerTrigger": "minEventsPerTrigger",
    "startTimestamp": "startingTimestamp",
    "endTimestamp": "endingTimestamp",
    "startingTimestamp": "startTimestamp",
    "endingTimestamp": "endTimestamp",
    "approxBytesPerTrigger": "maxBytesPerTrigger",
    "txnAppId": "query",
    "txnVersion": "epoch",
    "path": "stream",
}
"""Each option that another one's name is taken for, and that one."""
WRONG_READS: list[tuple[str, Mapping[str, str]]] = [
    *((word, {word: value}) for word in ("startingOffsets", "endingOffsets") for value in CUTS),
    *((word, {word: value}) for word in OURS if word.endswith("Timestamp") for value in TIMES),
    *((word, {word: value}) for word in OURS if word.endswith("OffsetsPerTrigger") for value in NUMBERS),
    *(("approxBytesPerTrigger", {"approxBytesPerTrigger": value}) for value in SIZES),
    *(
        (word, {f"{edge}ingOffsets": "earliest", f"{edge}{ing}Timestamp": "1000"})
        for edge in ("start", "end")
        for ing in ("", "ing")
        for word in (f"{edge}ingOffsets", f"{edge}{ing}Timestamp")
    ),
    *(
        (word, {"startingTimestamp": "2000", "endingTimestamp": "1000"})
        for word in ("startingTimestamp", "endingTimestamp")
    ),
    *(
        (word, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"})
        for word in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger")
    ),
    ("minOffsetsPerTrigger", {"minOffsetsPerTrigger": "9", "minEventsPerTrigger": "5"}),
    ("startingOffsets", {"startingOffsets": "latest", "startStreamCut": "earliest"}),
]
WRONG_WRITES: list[tuple[str, Mapping[str, str]]] = [
    *(("txnVersion", {"txnAppId": "load", "txnVersion": value}) for value in NUMBERS[1:]),
    ("txnAppId", {"txnAppId": "load"}),
    ("txnVersion", {"txnVersion": "1"}),
    *(
        (word, {"txnAppId": "load", "txnVersion": "1", "writerMode": "best-effort"})
        for word in ("txnAppId", "txnVersion")
    ),
]
Spelling = Callable[[str], str]
SPELLINGS: dict[str, Spelling] = {"as it is": str, "dashes": dashed, "as Spark hands it on": str.lower}


def test_each_twin_is_in_the_product() -> None:
    twins = {word.lower() for word in OURS} & set(names())
    assert twins == {"path", "startingoffsets", "endingoffsets", "maxoffsetspertrigger", "minoffsetspertrigger",
                     "txnappid", "txnversion"}  # fmt: skip


def check(word: str, given: Mapping[str, str], spell: Spelling, call: Callable[[dict[str, str]], object]) -> None:
    with pytest.raises(PravegaError) as refused:
        call({spell(key): value for key, value in given.items()})
    # Those in lower case may be a user's own spelling: they are shown as they are usually written.
    written = word if spell is str.lower else spell(word)
    named = set(re.findall(r'"([\w-]+)"', str(refused.value)))
    assert written in named or (word not in FOREIGN and word in named), str(refused.value)
    assert OURS[word] not in named or OURS[word] in given, str(refused.value)


FOREIGN = {"startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "txnAppId", "txnVersion"}
"""The others are options of ours, too, which have one spelling in messages."""


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize(("word", "given"), WRONG_READS, ids=str)
def test_wrong_values_of_reads(word: str, given: Mapping[str, str], how: str) -> None:
    def without_catalog(options: dict[str, str]) -> None:
        ReadOptions.of_streams(streaming_options(canonical(options, READ_KEYS, "read option"), options))

    spell = SPELLINGS[how]
    if word not in ("startTimestamp", "endTimestamp") or len(given) > 1:
        check(word, given, spell, without_catalog)
    if word == "approxBytesPerTrigger":
        return
    check(word, given, spell, ReadOptions.of_table) if not word.startswith(("startT", "endT")) else None
    if word.endswith("Timestamp") and len(given) == 1:
        # There a time of rows is one of versions, and says so in its user's word.
        check(word, given, spell, lambda options: ReadOptions.of_table(options, versions=True))


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize(("word", "given"), WRONG_WRITES, ids=str)
def test_wrong_values_of_writes(word: str, given: Mapping[str, str], how: str) -> None:
    spell = SPELLINGS[how]
    check(word, given, spell, WriteOptions.parse)
    check(word, given, spell, lambda options: WriteOptions.parse(options, known=CATALOG_WRITE_KEYS))
    known = WRITE_KEYS | OFFICIAL_WRITE_KEYS
    check(word, given, spell, lambda options: WriteOptions.parse(canonical(options, known, "write option")))


@pytest.mark.server
@pytest.mark.parametrize("how", SPELLINGS)
def test_values_that_only_the_stream_refutes(client: Client, scope: str, how: str) -> None:
    streams = [make_stream(client, scope, name) for name in ("one", "two")]
    spell = SPELLINGS[how]

    def resolved(*of: int, real_time: bool = False) -> Callable[[dict[str, str]], object]:
        def call(options: dict[str, str]) -> None:
            read = ReadOptions.of_streams(canonical(options, READ_KEYS, "read option"))
            if real_time:
                check_real_time(streams[0], read)
            resolve_extents(client, [streams[number] for number in of], read)

        return call

    for word in ("startingOffsets", "endingOffsets"):
        for value, of in (
            ("no-such-cut", (0,)),
            ('{"0": 0}', (0, 1)),
            (f'{{"{scope}/three": {{"0": 0}}}}', (0,)),
            (f'{{"{scope}/one": {{"0": 0}}}}', (0, 1)),
        ):
            check(word, {word: value}, spell, resolved(*of))
    check("endingOffsets", {"endingOffsets": "earliest"}, spell, resolved(0))
    check("startingOffsets", {"startingOffsets": "latest", "endingOffsets": "latest"}, spell, resolved(0))
    for word, value in (("endingOffsets", "latest"), ("endingTimestamp", "1000"), ("maxOffsetsPerTrigger", "5"),
                        ("minOffsetsPerTrigger", "5")):  # fmt: skip
        check(word, {word: value}, spell, resolved(0, real_time=True))
    for word in ("startingTimestamp", "endingTimestamp"):
        with client.writer(streams[0]) as writer:
            writer.write(b"of nobody's version")
        check(word, {word: "1000"}, spell, resolved(0))


@pytest.mark.server
def test_a_batch_read_that_begins_at_the_tail(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "one")
    own = {"path": str(stream), "startingOffsets": "latest", **client.settings.to_options()}
    source = DefaultSource(own)
    with pytest.raises(ConfigurationError, match='option "startingOffsets" can\'t be latest in a batch read'):
        source.reader(source.schema()).partitions()
    several = DefaultSource({**client.settings.to_options(), "path": f"{stream},{scope}/two"})
    with pytest.raises(ConfigurationError, match='option "path" names 2 streams'):
        several.writer(source.schema(), overwrite=False)
