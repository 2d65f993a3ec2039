"""The wire protocol's core: commands to bytes and back, however the bytes arrive."""

from __future__ import annotations

import struct
import tracemalloc
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire import fields
from pyspark_pravega.client.wire.commands import COMMANDS, Command
from pyspark_pravega.client.wire.protocol import MAX_FRAME_BYTES, FrameDecoder, UnknownCommand, encode_frame
from pyspark_pravega.errors import WireError

longs = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    fields.INT: st.integers(-(2**31), 2**31 - 1),
    fields.LONG: longs,
    fields.FLAG: st.booleans(),
    fields.TEXT: st.text(max_size=60),
    fields.UUID: st.uuids(),
    fields.BLOCK: st.binary(max_size=300),
    fields.TABLE_ENTRIES: st.lists(st.tuples(st.binary(max_size=40), longs, st.binary(max_size=40))).map(tuple),
    fields.TABLE_KEYS: st.lists(st.tuples(st.binary(max_size=40), longs, st.none())).map(tuple),
    fields.VERSIONS: st.lists(longs).map(tuple),
}


def of_class(cls: type[Command]) -> st.SearchStrategy[Command]:
    return st.builds(cls, **{name: VALUES[layout] for name, layout in cls.LAYOUT})


any_command = st.sampled_from(sorted(COMMANDS)).flatmap(lambda number: of_class(COMMANDS[number]))


def frame(command: Command) -> bytes:
    return b"".join(bytes(piece) for piece in encode_frame(command))


def decoded(*pieces: bytes) -> list[Command | UnknownCommand]:
    decoder = FrameDecoder()
    return [command for piece in pieces for command in decoder.feed(piece)]


@pytest.mark.parametrize("number", sorted(COMMANDS), ids=lambda number: COMMANDS[number].__name__)
@given(data=st.data())
def test_every_command_survives_encoding_and_decoding(number: int, data: st.DataObject) -> None:
    command = data.draw(of_class(COMMANDS[number]))
    assert decoded(frame(command)) == [command]


@given(st.lists(any_command, max_size=5), st.data())
def test_frames_may_arrive_cut_at_any_position(commands: list[Command], data: st.DataObject) -> None:
    sent = b"".join(frame(command) for command in commands)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)))))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert decoded(*pieces) == commands


@given(st.lists(any_command, max_size=3))
def test_frames_may_arrive_byte_by_byte(commands: list[Command]) -> None:
    sent = b"".join(frame(command) for command in commands)
    assert decoded(*(bytes([byte]) for byte in sent)) == commands


@given(any_command, st.binary(max_size=20))
def test_bytes_that_a_later_version_appends_to_a_command_are_passed_over(command: Command, more: bytes) -> None:
    sent = frame(command)
    kind, size = struct.unpack_from(">ii", sent)
    assert decoded(struct.pack(">ii", kind, size + len(more)) + sent[8:] + more) == [command]


@given(any_command, st.data())
def test_a_payload_that_ends_too_early_is_an_error(command: Command, data: st.DataObject) -> None:
    sent = frame(command)
    kind, size = struct.unpack_from(">ii", sent)
    if size == 0:
        assert isinstance(command, wire.KeepAlive)
        return
    left = data.draw(st.integers(0, size - 1))
    with pytest.raises(WireError, match=r"too early|announces"):
        decoded(struct.pack(">ii", kind, left) + sent[8 : 8 + left])


plausible_frames = st.builds(
    lambda kind, payload, size_off: struct.pack(">ii", kind, len(payload) + size_off) + payload,
    st.sampled_from(sorted(COMMANDS)) | st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=80),
    st.sampled_from([0, 0, 0, 1, -1]),
)


@given(st.binary(max_size=200) | st.lists(plausible_frames, max_size=5).map(b"".join))
@example(struct.pack(">iiqi", 75, 12, 1, -1))
@example(struct.pack(">iiqi", 75, 12, 1, 2**31 - 1))
@example(struct.pack(">iiqhi", 79, 14, 1, 0, 2**31 - 1))
@example(struct.pack(">iiqhiii", 79, 22, 1, 0, 1, 2**31 - 1, -1))
def test_any_bytes_are_commands_unknown_commands_or_an_error_of_ours(data: bytes) -> None:
    decoder = FrameDecoder()
    try:
        commands = decoder.feed(data)
    except WireError:
        return
    assert all(isinstance(command, (Command, UnknownCommand)) for command in commands)
    assert len(commands) <= len(data) // 8


@pytest.mark.parametrize("size", [2**31 - 1, MAX_FRAME_BYTES + 1, -1, -(2**31)])
def test_a_frame_that_announces_an_impossible_size_is_an_error_before_any_memory_is_taken(size: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=f"announces {size} bytes"):
            decoded(struct.pack(">ii", 10, size))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_list_that_announces_more_than_its_frame_holds_is_an_error_before_any_memory_is_taken() -> None:
    tracemalloc.start()
    try:
        for payload in (struct.pack(">qhi", 1, 0, 2**31 - 1), struct.pack(">qhi", 1, 0, -1)):
            with pytest.raises(WireError):
                wire.TableRead.decode(payload)
        with pytest.raises(WireError):
            wire.TableEntriesUpdated.decode(struct.pack(">qi", 1, 2**31 - 1))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_of_an_unknown_type_is_handed_on_with_its_payload() -> None:
    (command,) = decoded(struct.pack(">ii", 4711, 3) + b"abc")
    assert isinstance(command, UnknownCommand)
    assert (command.type, bytes(command.payload)) == (4711, b"abc")


def test_a_command_larger_than_a_server_takes_is_refused_before_it_is_sent() -> None:
    block = bytes(MAX_FRAME_BYTES)
    with pytest.raises(WireError, match=r"AppendBlockEnd of \d+ bytes is larger"):
        encode_frame(
            wire.AppendBlockEnd(
                writer_id=uuid.UUID(int=1), data=block, event_count=1, last_event_number=1, request_id=1
            )
        )


def test_a_block_of_data_is_not_copied() -> None:
    block = bytes(1000)
    pieces = encode_frame(
        wire.AppendBlockEnd(writer_id=uuid.UUID(int=1), data=block, event_count=1, last_event_number=1, request_id=1)
    )
    assert any(piece is block for piece in pieces)


@given(st.binary(min_size=1, max_size=50))
def test_text_cut_within_a_character_is_still_text(text: bytes) -> None:
    payload = struct.pack(">q", 1) + struct.pack(">h", len(text)) + text + struct.pack(">i", 0)
    assert isinstance(wire.AuthTokenCheckFailed.decode(payload).trace, str)


WRITER = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
WRITER_BYTES = "00112233445566778899aabbccddeeff"
SEGMENT = "s/t/0.#epoch.0"
SEGMENT_BYTES = "000e" + SEGMENT.encode().hex()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (wire.Hello(), "ffffff81 00000008 00000010 00000005"),
        (wire.KeepAlive(), "00000064 00000000"),
        (
            wire.SetupAppend(request_id=1, writer_id=WRITER, segment=SEGMENT),
            f"00000001 0000002a 0000000000000001 {WRITER_BYTES} {SEGMENT_BYTES} 0000",
        ),
        (
            wire.AppendBlockEnd(writer_id=WRITER, data=b"\1\2\3", event_count=2, last_event_number=7, request_id=1),
            f"00000004 0000002f {WRITER_BYTES} 00000000 00000003 010203 00000002 0000000000000007 0000000000000001",
        ),
        (
            wire.ReadSegment(segment=SEGMENT, offset=258, suggested_length=1 << 20, token="t", request_id=9),
            f"00000009 00000027 {SEGMENT_BYTES} 0000000000000102 00100000 0001 74 0000000000000009",
        ),
        (
            wire.SegmentRead(
                segment=SEGMENT, offset=0, at_tail=True, end_of_segment=False, data=memoryview(b"ab"), request_id=9
            ),
            f"0000000a 00000028 {SEGMENT_BYTES} 0000000000000000 01 00 00000002 6162 0000000000000009",
        ),
        (
            wire.UpdateTableEntries(request_id=3, segment="k", entries=((b"key", wire.NOT_EXISTS, b"v"),)),
            "0000004a 00000035 0000000000000003 0001 6b 0000 00000001"
            " 0000000f 00000003 6b6579 ffffffffffffffff 00000005 00000001 76 ffffffffffffffff",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Command) else "",
)
def test_the_bytes_are_those_of_the_protocol(command: Command, expected: str) -> None:
    assert frame(command).hex() == expected.replace(" ", "")
    assert decoded(bytes.fromhex(expected)) == [command]
