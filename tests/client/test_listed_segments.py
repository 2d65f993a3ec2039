"""Which segments a stream has, as a client remembers it: never other ones than a client that has just come sees."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from client_tools import append, framed, make_stream

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.positions import tail_cut, truncate_stream
from pyspark_pravega.client.segments import SegmentState, current_ids, segment_states, states_of_stream
from pyspark_pravega.errors import StreamNotFoundError
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from pyspark_pravega.together import Begun

pytestmark = pytest.mark.server

CHANGES = ("write", "scale", "scale", "truncate a part", "truncate all", "make again", "nothing")


def seen(client: Client, stream: Stream) -> tuple[set[int], dict[int, SegmentState]]:
    """The segments that take events, and those that hold some, with their states."""
    while (listed := states_of_stream(client.pool, stream)) is None:
        pass
    segments, states = listed
    held = {
        segment: state
        for segment, state in states.items()
        if state.write_offset > max(state.start_offset, segments.head.get(segment, 0))
    }
    return set(segments.current.ids), held


def change(client: Client, stream: Stream, what: str, dice: random.Random) -> None:
    """Do something to a stream by a client that knows nothing of others."""
    controller = client.controller
    if what == "write":
        for segment in controller.current_segments(stream).ids:
            append(client, stream, segment, framed(b"x" * dice.randrange(1, 50)))
    elif what == "scale":
        controller.scale_to(stream, dice.randrange(1, 7))
    elif what.startswith("truncate"):
        cut = tail_cut(client.pool, stream)
        if what == "truncate a part":
            states = segment_states(client.pool, stream, cut)
            begins = {segment: state.start_offset for segment, state in states.items() if state is not None}
            cut = StreamCut(stream, {segment: dice.choice((end, begins[segment])) for segment, end in cut.items()})
        truncate_stream(client.pool, cut)
    elif what == "make again":
        controller.seal_stream(stream)
        controller.delete_stream(stream)
        make_stream(client, stream.scope, stream.name, segments=dice.randrange(1, 6))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changes_between", [1, 4])
def test_what_is_remembered_is_what_is_there(settings: Settings, scope: str, seed: int, changes_between: int) -> None:
    dice = random.Random(seed)
    with Client(settings) as client, Client(settings) as other:
        stream = make_stream(other, scope, "t", segments=dice.randrange(1, 5))
        for _ in range(10):
            for _ in range(changes_between):
                change(other, stream, dice.choice(CHANGES), dice)
            with Client(settings) as fresh:
                assert seen(client, stream) == seen(fresh, stream)
                assert set(current_ids(client.pool, stream)) == set(fresh.controller.current_segments(stream).ids)
        other.controller.seal_stream(stream)
        sealed = seen(client, stream)
        assert sealed == seen(other, stream)
        assert not sealed[0]
        assert current_ids(client.pool, stream) == ()
        other.controller.delete_stream(stream)
        for look in (states_of_stream, current_ids):
            with pytest.raises(StreamNotFoundError):
                look(client.pool, stream)


@pytest.mark.parametrize("others_begin", [False, True])
def test_what_lies_before_a_cut_is_gone_once_truncated(settings: Settings, scope: str, others_begin: bool) -> None:
    with Client(settings) as client, Client(settings) as other:

        def truncated(name: str) -> list[int]:
            """The segments that held events when all had been truncated, of each round."""
            stream = make_stream(other, scope, name, segments=8)
            left: list[int] = []
            for segments in (5, 8, 5, 8):
                change(other, stream, "write", random.Random(0))
                other.controller.scale_to(stream, segments)
                assert seen(client, stream)[1]
                cut = tail_cut(other.pool, stream)
                begun = Begun(partial(client.controller.truncate_stream, stream, cut)) if others_begin else None
                while begun is not None and not begun.done() and other.controller.head(stream) != cut:
                    pass
                truncate_stream(other.pool, cut)
                left.extend(seen(client, stream)[1])
                if begun is not None:
                    begun.result()
            return left

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(truncated, "abcdefgh")) == [[]] * 8


def test_the_controller_is_asked_once(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=3)
    # The first look may have opened the connection by which later ones are told.
    first = [states_of_stream(client.pool, stream) for _ in range(3)][-1]
    assert first is not None
    asked = client.pool.segment_lists[stream]
    for _ in range(3):
        assert states_of_stream(client.pool, stream) == first
        assert current_ids(client.pool, stream) == asked.current.ids
    assert client.pool.segment_lists[stream] is asked


def test_another_cluster_at_the_same_address_has_other_segments() -> None:
    with Sandbox(heap="256m") as first:
        port = int(first.controller_uri.rsplit(":", 1)[1])
        client = Client(Settings.resolve(environ=first.environment()))
        client.controller.create_scope("s")
        stream = make_stream(client, "s", "t", segments=2)
        for _ in range(3):
            assert seen(client, stream) == ({0, 1}, {})
    with (
        client,
        Sandbox(heap="256m", controller_port=port) as second,
        Client(Settings.resolve(environ=second.environment())) as own,
    ):
        own.controller.create_scope("s")
        make_stream(own, "s", "t", segments=4)
        assert seen(client, stream) == ({0, 1, 2, 3}, {})
