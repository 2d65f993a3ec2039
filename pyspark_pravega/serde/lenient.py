"""What becomes of events that can't be decoded, and which events are a table's at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.errors import SchemaNotFoundError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.framing import ids_of
from pyspark_pravega.frames.ragged import Ints
from pyspark_pravega.serde.codec import Batch, Codec, arrow_batch, batch_of, decode_to_views, subschema
from pyspark_pravega.serde.encodings import EncodingSource, distinct
from pyspark_pravega.serde.native import NativeCodec

FAIL_FAST, PERMISSIVE, DROP_MALFORMED = "fail-fast", "permissive", "drop-malformed"
MODES = (FAIL_FAST, PERMISSIVE, DROP_MALFORMED)
"""An error; a row of nulls; no row."""

_FIRST_STEP = 64


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Rows of events, and which events they are."""

    held: Batch
    """The rows, as they were decoded: with `views` it may be a batch of the native module's."""
    rows: Ints | None
    """For each row the index of its event; None: a row for each event."""
    bad: Ints
    """The indexes of events that can't be decoded."""

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return arrow_batch(self.held)


def decode(codec: Codec, payloads: pa.Array, columns: Sequence[str], mode: str, *, views: bool = False) -> Decoded:
    """Decode events in a mode.

    Args:
        codec: decodes.
        payloads: events.
        columns: the wanted columns. In other modes than fail-fast events are decoded whole, so that whether one is bad
            doesn't depend on the columns.
        mode: one of MODES.
        views: whether columns of texts and bytes may be views of the events' memory (see `decode_to_views`).

    Returns:
        The rows. In permissive mode all columns may be null, and are where an event is bad.

    Raises:
        BadEventError: in mode fail-fast, an event can't be decoded.
    """
    if mode == FAIL_FAST:
        batch: Batch = decode_to_views(codec, payloads, columns) if views else codec.decode(payloads, columns)
        return Decoded(held=batch, rows=None, bad=np.empty(0, dtype=np.int64))
    good, bad = _decode_good(codec, payloads, codec.schema.names)
    schema = subschema(codec.schema, columns)
    if mode == PERMISSIVE:
        schema = pa.schema([field.with_nullable(True) for field in schema])
    arrays = [good.column(good.schema.get_field_index(name)) for name in columns]
    if not len(bad):
        return Decoded(held=batch_of(arrays, schema, len(payloads)), rows=None, bad=bad)
    is_bad = np.zeros(len(payloads), dtype=np.bool_)
    is_bad[bad] = True
    if mode == DROP_MALFORMED:
        return Decoded(held=batch_of(arrays, schema, good.num_rows), rows=np.flatnonzero(~is_bad), bad=bad)
    index = pa.array(np.cumsum(~is_bad) - 1, mask=is_bad)
    return Decoded(held=batch_of([array.take(index) for array in arrays], schema, len(payloads)), rows=None, bad=bad)


def _decode_good(codec: Codec, payloads: pa.Array, columns: Sequence[str]) -> tuple[pa.RecordBatch, Ints]:
    """The rows of good events, and the indexes of the bad ones."""
    if isinstance(codec, NativeCodec):
        good_and_bad = codec.decode_good(payloads, columns)
        if good_and_bad is not None:
            return good_and_bad
    batches: list[pa.RecordBatch] = []
    bad: list[int] = []
    start, step = 0, len(payloads)
    while start < len(payloads):
        step = min(step, len(payloads) - start)
        try:
            batches.append(codec.decode(payloads.slice(start, step), columns))
            start, step = start + step, step * 2
        except BadEventError as error:
            if error.index:
                batches.append(codec.decode(payloads.slice(start, error.index), columns))
            bad.append(start + error.index)
            # Where there's a bad event there may be more: small steps keep what is decoded in vain small.
            start, step = start + error.index + 1, _FIRST_STEP
    schema = subschema(codec.schema, columns)
    rows = sum(batch.num_rows for batch in batches)
    arrays = [
        pa.concat_arrays([batch.column(i) for batch in batches]) if batches else pa.array([], type=field.type)
        for i, field in enumerate(schema)
    ]
    return batch_of(arrays, schema, rows), np.array(bad, dtype=np.int64)


class TypeFilter:
    """Of a stream whose events are of several types, those of one."""

    def __init__(self, encodings: EncodingSource, type_name: str, *, others_are_errors: bool) -> None:
        """Choose.

        Args:
            encodings: looks encoding ids up.
            type_name: the schemas' type.
            others_are_errors: whether an event of another type is an error; else it is passed over.
        """
        self._encodings, self._type, self.others_are_errors = encodings, type_name, others_are_errors
        self._is_wanted: dict[int, bool] = {}

    def chosen(self, payloads: pa.Array) -> Ints | None:
        """The indexes of the wanted events; None when all are. Those without header count as wanted.

        Args:
            payloads: events.

        Raises:
            BadEventError: there's one of another type, and that is an error.
        """
        ids, present = ids_of(payloads)
        for encoding_id in distinct(ids, present):
            if encoding_id not in self._is_wanted:
                self._is_wanted[encoding_id] = self._look_up(encoding_id, ids, present)
        others = [encoding_id for encoding_id in distinct(ids, present) if not self._is_wanted[encoding_id]]
        if not others:
            return None
        return np.flatnonzero(~(present & np.isin(ids, others)))

    def _look_up(self, encoding_id: int, ids: npt.NDArray[np.int32], present: npt.NDArray[np.bool_]) -> bool:
        try:
            event_type = self._encodings.writer_schema(encoding_id).type
        except SchemaNotFoundError:
            # It can't be decoded; the codec says so.
            return True
        if event_type != self._type and self.others_are_errors:
            raise BadEventError(
                f"it is of type {event_type}, and the table's columns are those of {self._type}: the stream holds "
                "events of several types; choose one with the table property or read option schema-type",
                index=int(np.argmax(present & (ids == encoding_id))),
                encoding_id=encoding_id,
            )
        return event_type == self._type
