"""The controller says that a call has failed, as it does while it can't reach what it needs: it is called again."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from controller_relay import FAILURE, ControllerRelay, relayed

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.errors import InvalidStreamCutError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

ANSWERS = {
    "getReaderGroupConfig": pb.ReaderGroupConfigResponse(status=1).SerializeToString(),
    "listSubscribers": pb.SubscribersResponse(status=1).SerializeToString(),
    "getKeyValueTableConfiguration": pb.KeyValueTableConfigResponse(status=1).SerializeToString(),
    # Of writers it says INTERNAL_ERROR instead.
    "noteTimestampFromWriter": b"\x08\x03",
    "removeWriter": b"\x08\x03",
}
"""That a call has failed, where the answer isn't a status alone or that is another one."""
TIMES = 2


@dataclass
class Case:
    """One scope with a stream, a key-value table and a group, by a client to whom it is said."""

    client: Client
    scope: str

    @property
    def stream(self) -> Stream:
        return Stream(self.scope, "s")

    def group(self, name: str = "g") -> ReaderGroup:
        streams = (ReaderGroupStream(stream=self.stream),)
        return ReaderGroup(scope=self.scope, name=name, streams=streams, retention=ReaderGroupRetention.MANUAL)

    def tail(self) -> dict[int, int]:
        return dict(self.client.tail(self.stream))

    def group_names(self) -> list[str]:
        return sorted(self.client.controller.list_reader_groups(self.scope))


def _update_group(case: Case) -> object:
    def without_retention(group: ReaderGroup) -> ReaderGroup:
        return replace(group, retention=ReaderGroupRetention.NONE)

    changed = case.client.controller.update_reader_group(case.scope, "g", without_retention)
    assert case.client.controller.reader_group(case.scope, "g") == changed
    return changed.retention


def _update_subscriber(case: Case) -> object:
    for _ in range(2):
        case.client.controller.update_subscriber(case.stream, f"{case.scope}/g", case.tail())
    return None


def _truncate(case: Case) -> object:
    case.client.controller.truncate_stream(case.stream, case.tail())
    return dict(case.client.controller.head(case.stream)) == case.tail()


def _note(case: Case) -> object:
    case.client.controller.note_timestamp(case.stream, "w", 1, case.tail())
    return None


def _remove_writer(case: Case) -> object:
    case.client.controller.note_timestamp(case.stream, "w", 1, case.tail())
    return case.client.controller.remove_writer(case.stream, "w")


def _create_group(case: Case) -> object:
    made = case.client.controller.create_reader_group(case.group("new"))
    assert case.client.controller.reader_group(case.scope, "new") == made
    return case.group_names()


def _delete_group(case: Case) -> object:
    return case.client.controller.delete_reader_group(case.scope, "g"), case.group_names()


CALLS: dict[str, tuple[Callable[[Case], object], object]] = {
    "getReaderGroupConfig": (lambda case: case.client.controller.reader_group(case.scope, "g").name, "g"),
    "createReaderGroup": (_create_group, ["g", "new"]),
    "updateReaderGroup": (_update_group, ReaderGroupRetention.NONE),
    "deleteReaderGroup": (_delete_group, (True, [])),
    "listSubscribers": (lambda case: len(case.client.controller.subscribers(case.stream)), 1),
    "updateSubscriberStreamCut": (_update_subscriber, None),
    "truncateStream": (_truncate, True),
    "noteTimestampFromWriter": (_note, None),
    "removeWriter": (_remove_writer, True),
    "getKeyValueTableConfiguration": (
        lambda case: case.client.controller.key_value_table_configuration(case.scope, "kvt").partitions,
        1,
    ),
}
"""By the controller's methods: what calls it, and what comes out of that."""


@pytest.fixture(scope="module")
def relay(settings: Settings) -> Iterator[ControllerRelay]:
    with relayed(settings.controller_uri) as relay:
        yield relay


@pytest.fixture
def case(client: Client, settings: Settings, relay: ControllerRelay) -> Iterator[Case]:
    with Client(replace(settings, controller_uri=relay.uri)) as through:
        made = Case(through, f"test-{uuid.uuid4().hex[:12]}")
        client.controller.create_scope(made.scope)
        client.controller.create_stream(made.stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=2)))
        client.create_key_value_table(made.scope, "kvt", partitions=1, key_bytes=1)
        client.controller.create_reader_group(made.group())
        with client.writer(made.stream) as writer:
            writer.write_batch([b"one", b"two"], keys=["one", "two"])
        yield made
        relay.answer = lambda _, call: call()


@pytest.mark.parametrize(("method", "done"), list(itertools.product(CALLS, [True, False])))
def test_a_call_that_is_said_to_have_failed_is_made_again(
    case: Case, relay: ControllerRelay, method: str, done: bool
) -> None:
    """Whether the controller has done it or not."""
    action, expected = CALLS[method]
    left = TIMES

    def fails(called: str, call: Callable[[], bytes]) -> bytes:
        nonlocal left
        if called != method or not left:
            return call()
        left -= 1
        if done:
            call()
        return ANSWERS.get(method, FAILURE)

    relay.answer = fails
    assert action(case) == expected
    assert left == 0


def test_what_can_never_be_done_is_refused_at_once(case: Case) -> None:
    """The controller says the same of cuts that aren't the stream's, or lie before its head."""
    controller, begin, tail = case.client.controller, dict(case.client.controller.head(case.stream)), case.tail()
    wrong = {segment_id + 77: 0 for segment_id in tail}
    with pytest.raises(InvalidStreamCutError, match="must be one of the stream"):
        controller.update_subscriber(case.stream, f"{case.scope}/g", wrong)
    with pytest.raises(InvalidStreamCutError, match="must be one of the stream"):
        controller.truncate_stream(case.stream, wrong)
    controller.truncate_stream(case.stream, tail)
    with pytest.raises(InvalidStreamCutError, match="not lie before its head"):
        controller.truncate_stream(case.stream, begin)
    controller.scale_to(case.stream, 1)
    controller.truncate_stream(case.stream, case.tail())
    with pytest.raises(InvalidStreamCutError, match="not lie before its head"):
        controller.truncate_stream(case.stream, tail)
