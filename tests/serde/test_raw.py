"""Streams without a schema: one binary column."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde.raw import RawCodec


@given(st.lists(st.binary()))
def test_events_come_back_as_they_were_written(payloads: list[bytes]) -> None:
    codec = pickle.loads(pickle.dumps(RawCodec()))
    batch = pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], schema=codec.schema)
    assert codec.decode(codec.encode(batch), ["event"]).equals(batch)
    assert codec.decode(codec.encode(batch), []).num_rows == len(payloads)


def test_the_column_is_binary_and_not_null() -> None:
    assert RawCodec().schema == pa.schema([pa.field("event", pa.binary(), nullable=False)])


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (pa.RecordBatch.from_pydict({"value": [b"x"]}), 'one column "event"'),
        (pa.RecordBatch.from_pydict({"event": [b"x"], "b": [1]}), 'one column "event"'),
        (pa.RecordBatch.from_pydict({"event": ["text"]}), "CAST"),
        (pa.RecordBatch.from_pydict({"event": [b"x", None]}), "holds null"),
    ],
)
def test_anything_else_is_refused(batch: pa.RecordBatch, reason: str) -> None:
    with pytest.raises(EventEncodeError, match=reason):
        RawCodec().encode(batch)
