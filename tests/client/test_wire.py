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
from pyspark_pravega.client.wire import fields, protocol
from pyspark_pravega.client.wire.command import command
from pyspark_pravega.client.wire.commands import COMMANDS, Command
from pyspark_pravega.client.wire.protocol import (
    COPIED_BYTES,
    MAX_FRAME_BYTES,
    MAX_SENT_BYTES,
    TRUSTED_BYTES,
    FrameDecoder,
    UnknownCommand,
    encode_frame,
)
from pyspark_pravega.errors import WireError

longs = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    fields.INT: st.integers(-(2**31), 2**31 - 1),
    fields.LONG: longs,
    fields.LATER_LONG: longs,
    fields.FLAG: st.booleans(),
    fields.TEXT: st.text(max_size=60),
    fields.UUID: st.uuids(),
    fields.BLOCK: st.binary(max_size=300),
    fields.TOKEN: st.text(max_size=60),
    fields.REST: st.binary(max_size=300),
    fields.EVENT: st.binary(max_size=300),
    fields.TABLE_ENTRIES: st.lists(st.tuples(st.binary(min_size=1, max_size=40), longs, st.binary(max_size=40))).map(
        tuple
    ),
    fields.TABLE_KEYS: st.lists(st.tuples(st.binary(min_size=1, max_size=40), longs, st.none())).map(tuple),
    fields.VERSIONS: st.lists(longs).map(tuple),
    fields.ATTRIBUTE_UPDATES: st.lists(
        st.builds(wire.AttributeUpdate, st.uuids(), st.integers(-(2**7), 2**7 - 1), longs, longs)
    ).map(tuple),
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
    frames = b"".join(frame(command) for command in commands)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(frames)))))
    pieces = [frames[a:b] for a, b in zip([0, *cuts], [*cuts, len(frames)], strict=True)]
    assert decoded(*pieces) == commands


@given(st.lists(any_command, max_size=3))
def test_frames_may_arrive_byte_by_byte(commands: list[Command]) -> None:
    frames = b"".join(frame(command) for command in commands)
    assert decoded(*(bytes([byte]) for byte in frames)) == commands


def ends_open(command: Command) -> bool:
    """Whether the command ends with bytes of any number."""
    return bool(command.LAYOUT) and command.LAYOUT[-1][1] is fields.REST


@given(any_command.filter(lambda command: not ends_open(command)), st.binary(max_size=20))
def test_bytes_that_a_later_version_appends_to_a_command_are_passed_over(command: Command, more: bytes) -> None:
    frames = frame(command)
    kind, size = struct.unpack_from(">ii", frames)
    assert decoded(struct.pack(">ii", kind, size + len(more)) + frames[8:] + more) == [command]


def ends_later(command: Command) -> bool:
    """Whether the command's last number is one that older servers don't send."""
    return bool(command.LAYOUT) and command.LAYOUT[-1][1] is fields.LATER_LONG


@given(any_command.filter(lambda command: not ends_open(command)), st.data())
def test_a_payload_that_ends_too_early_is_an_error(command: Command, data: st.DataObject) -> None:
    frames = frame(command)
    kind, size = struct.unpack_from(">ii", frames)
    if size == 0:
        assert isinstance(command, wire.KeepAlive)
        return
    left = data.draw(st.integers(0, size - 1).filter(lambda left: not (left == size - 8 and ends_later(command))))
    with pytest.raises(WireError, match=r"too early|announces"):
        decoded(struct.pack(">ii", kind, left) + frames[8 : 8 + left])


plausible_frames = st.builds(
    lambda kind, payload, size_off: struct.pack(">ii", kind, len(payload) + size_off) + payload,
    st.sampled_from(sorted(COMMANDS)) | st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=80),
    st.sampled_from([0, 0, 0, 1, -1]),
)


@given(st.binary(max_size=200) | st.lists(plausible_frames, max_size=5).map(b"".join))
@example(struct.pack(">iiqi", 75, 12, 1, -1))
@example(struct.pack(">iiqi", 75, 12, 1, -(2**31)))
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


@given(st.lists(any_command, min_size=1, max_size=3), st.data())
def test_damaged_frames_are_commands_or_an_error_of_ours(commands: list[Command], data: st.DataObject) -> None:
    frames = bytearray(b"".join(frame(command) for command in commands))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frames) - 1)) if frames else 0
        kind = data.draw(st.sampled_from(["change", "cut", "repeat", "insert"]))
        if kind == "change" and frames:
            frames[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del frames[at : at + data.draw(st.integers(1, 20))]
        elif kind == "repeat":
            frames[at:at] = frames[at : at + data.draw(st.integers(1, 20))]
        else:
            frames[at:at] = data.draw(st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0"]))
    try:
        results = decoded(bytes(frames))
    except WireError:
        return
    assert all(isinstance(command, (Command, UnknownCommand)) for command in results)


@pytest.mark.parametrize("size", [2**31 - 1, MAX_FRAME_BYTES + 1, -1, -(2**31)])
def test_a_frame_that_announces_an_impossible_size_is_an_error_before_any_memory_is_taken(size: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=f"announces {size} bytes"):
            decoded(struct.pack(">ii", 10, size))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_memory_is_taken_as_bytes_arrive_whatever_a_header_announces() -> None:
    tracemalloc.start()
    try:
        decoder = FrameDecoder()
        decoder.feed(struct.pack(">ii", 10, MAX_FRAME_BYTES))
        assert tracemalloc.get_traced_memory()[1] < TRUSTED_BYTES + (64 << 10)
        piece = bytes(1 << 20)
        for arrived in range(1, 32):
            tracemalloc.reset_peak()
            decoder.feed(piece)
            assert tracemalloc.get_traced_memory()[1] < 3 * (arrived << 20) + TRUSTED_BYTES + (1 << 20)
    finally:
        tracemalloc.stop()


def test_a_long_payload_arrives_as_it_was_sent() -> None:
    data = bytes(range(256)) * (20 << 12)
    command = wire.SegmentRead(
        segment="s", offset=1, at_tail=True, end_of_segment=False, data=memoryview(data), request_id=1
    )
    payload = b"".join(bytes(piece) for piece in command.encode())
    assert decoded(struct.pack(">ii", 10, len(payload)), payload) == [command]


@pytest.mark.parametrize(
    "entry",
    [struct.pack(">iiii", 12, 0, 4, 0), struct.pack(">iicqii", 13, 1, b"k", 1, 4, 0), struct.pack(">q", 1 << 40)],
)
def test_a_reply_takes_no_more_than_some_times_its_bytes(entry: bytes) -> None:
    count = (1 << 20) // len(entry)
    versions = len(entry) == 8
    payload = struct.pack(">qi" if versions else ">qhi", *((1, count) if versions else (1, 0, count))) + entry * count
    tracemalloc.start()
    try:
        (wire.TableEntriesUpdated if versions else wire.TableRead).decode(payload)
        assert tracemalloc.get_traced_memory()[1] < 16 * len(payload)
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
    block = bytes(MAX_SENT_BYTES)
    with pytest.raises(WireError, match=r"AppendBlockEnd of \d+ bytes is larger"):
        encode_frame(
            wire.AppendBlockEnd(
                writer_id=uuid.UUID(int=1), data=block, event_count=1, last_event_number=1, request_id=1
            )
        )


def test_a_command_is_sent_in_one_piece_but_for_a_large_block_which_is_not_copied() -> None:
    read = wire.ReadSegment(segment="s/s/0.#epoch.0", offset=0, suggested_length=1, token="", request_id=1)
    assert len(encode_frame(read)) == 1
    block = bytes(COPIED_BYTES + 1)
    end = wire.AppendBlockEnd(writer_id=uuid.UUID(int=1), data=block, event_count=1, last_event_number=1, request_id=1)
    before, middle, after = encode_frame(end)
    assert middle is block
    assert len(before) + len(after) < 100


UPDATE = wire.AttributeUpdate(uuid.UUID(int=1), 128, 0, 0)
"""Its kind is one more than a byte holds."""


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (wire.GetStreamSegmentInfo(request_id=1, segment="x" * 65536), "segment"),
        (wire.GetStreamSegmentInfo(request_id=2**63, segment="x"), "request_id"),
        (wire.TableEntriesUpdated(request_id=1, versions=(2**64,)), "versions"),
        (wire.MergeSegments(request_id=1, target="x", source="y", updates=(UPDATE,)), "updates"),
    ],
)
def test_a_value_that_does_not_fit_into_its_field_is_named(command: Command, field: str) -> None:
    with pytest.raises(WireError, match=f'"{field}" of {type(command).__name__} can\'t be sent'):
        encode_frame(command)


def test_no_command_shows_its_token() -> None:
    carriers = [cls for cls in COMMANDS.values() if any(layout is fields.TOKEN for _, layout in cls.LAYOUT)]
    assert len(carriers) > 10
    for cls in carriers:
        values = {name: None for name, _ in cls.LAYOUT} | {"token": "secret"}
        assert "secret" not in repr(cls(**values))


@given(st.binary(min_size=1, max_size=50))
def test_text_cut_within_a_character_is_still_text(text: bytes) -> None:
    payload = struct.pack(">q", 1) + struct.pack(">h", len(text)) + text + struct.pack(">i", 0)
    assert isinstance(wire.AuthTokenCheckFailed.decode(payload).trace, str)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [("", ""), ("a", "61"), ("\0", "c080"), ("\u00e9", "c3a9"), ("\u20ac", "e282ac"), ("\U0001f680", "eda0bdedba80")],
)
def test_text_is_laid_out_as_java_does(text: str, encoded: str) -> None:
    data = frame(wire.SegmentCreated(request_id=1, segment=text))
    assert data[18:].hex() == encoded
    assert decoded(data) == [wire.SegmentCreated(request_id=1, segment=text)]


def test_an_empty_key_has_no_version() -> None:
    data = frame(wire.RemoveTableKeys(request_id=1, segment="", keys=((b"", 5, None),)))
    assert data[8:].hex() == "0000000000000001 0000 0000 00000001 0000000c 00000000 ffffffffffffffff".replace(" ", "")
    assert decoded(data) == [wire.RemoveTableKeys(request_id=1, segment="", keys=((b"", wire.ANY_VERSION, None),))]


def test_a_conditional_append_holds_an_event_and_nothing_else() -> None:
    data = bytearray(
        frame(
            wire.ConditionalAppend(
                writer_id=uuid.UUID(int=1), event_number=1, expected_offset=0, event=b"e", request_id=1
            )
        )
    )
    data[8 + 32 + 3] = 1
    with pytest.raises(WireError, match="a frame of type 1 where an event was expected"):
        decoded(bytes(data))


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


def test_before_pravega_0_13_an_invalid_event_number_is_told_without_a_request() -> None:
    payload = bytes.fromhex(f"{WRITER_BYTES} 0000000000000007 0001 74")
    assert wire.InvalidEventNumber.decode(payload) == wire.InvalidEventNumber(
        writer_id=WRITER, request_id=7, trace="t", event_number=-1
    )


@pytest.mark.parametrize(
    ("version", "release"),
    [
        (14, "Pravega 0.10 or older"),
        (15, "Pravega 0.11 or 0.12"),
        (wire.WIRE_VERSION, "Pravega 0.13"),
        (18, "newer than Pravega 0.14"),
    ],
)
def test_a_greeting_tells_the_release(version: int, release: str) -> None:
    assert wire.Hello(high_version=version).release == release


def test_large_pieces_are_not_copied_wherever_they_stand() -> None:
    large, small = bytes(COPIED_BYTES + 1), b"small"
    for pieces in ([large], [large, large], [large, small], [small, large]):
        assert list(protocol._gathered(list(pieces))) == pieces
    assert list(protocol._gathered([small, small, large, small, small])) == [2 * small, large, 2 * small]


def test_a_value_of_less_than_no_bytes_is_an_error() -> None:
    with pytest.raises(WireError, match="announces a value of -1 bytes"):
        fields.Cursor(b"abc").take(-1)


def test_two_commands_can_not_have_one_number() -> None:
    with pytest.raises(WireError, match="number -127 is taken by Hello"):

        @command(-127)
        class Another(Command):
            """Never a command."""
