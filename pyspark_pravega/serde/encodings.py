"""What the ids in events' headers stand for, and the bodies behind the headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.errors import SchemaError, SchemaNotFoundError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.framing import header_ids
from pyspark_pravega.frames.ragged import Ints, binary_array, ragged_views
from pyspark_pravega.serde import compression

HEADER_SIZE = 5
"""Bytes of a header: `0x01 | int32 id`, big-endian."""


@dataclass(frozen=True, kw_only=True)
class WriterSchema:
    """What events of an encoding id were written with."""

    schema_text: str = ""
    """The schema's text (Avro and JSON)."""
    codec: str = ""
    """`""`, `application/x-gzip` or `application/x-snappy-framed`."""
    type: str = ""
    """The schema's type: an Avro record's full name, a Protobuf message's."""
    schema_data: bytes = b""
    """The schema itself where it isn't text: a FileDescriptorSet."""


class EncodingSource(Protocol):
    """Knows what encoding ids stand for. It travels to executors with the codec, pickled."""

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        """Look an encoding up; the codec asks once for each id.

        Args:
            encoding_id: the id from an event's header.

        Returns:
            Its schema and codec.

        Raises:
            SchemaNotFoundError: there's no such id; the event counts as one that can't be decoded.
        """
        ...


def header(encoding_id: int) -> bytes:
    """The header of events of an encoding id."""
    return b"\x01" + encoding_id.to_bytes(4, "big")


class Known:
    """Encodings that were looked up, and what was made of them."""

    def __init__(self, source: EncodingSource, check: Callable[[int, WriterSchema], None]) -> None:
        """Begin with none.

        Args:
            source: where ids are looked up.
            check: called once with each id and its schema; raises SchemaError when its events can't be read.
        """
        self._source, self._check = source, check
        self._schemas: dict[int, WriterSchema] = {}

    def __getitem__(self, encoding_id: int) -> WriterSchema:
        schema = self._schemas.get(encoding_id)
        if schema is None:
            schema = self._source.writer_schema(encoding_id)
            compression.check(schema.codec)
            self._check(encoding_id, schema)
            self._schemas[encoding_id] = schema
        return schema

    def plain(self, payloads: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Look at events' headers, and decompress those bodies that are compressed.

        Args:
            payloads: events with or without headers.

        Returns:
            The events with their headers, no body compressed; their ids; and where there is one.

        Raises:
            BadEventError: an encoding is unknown or can't be read, or a body isn't of its codec.
        """
        data, offsets = binary_array(payloads)
        ids, present = header_ids(data, offsets)
        packed: list[tuple[int, str]] = []
        for encoding_id in distinct(ids, present):
            try:
                codec = self[encoding_id].codec
            except (SchemaError, SchemaNotFoundError) as error:
                first = int(np.argmax(present & (ids == encoding_id)))
                raise BadEventError(str(error), index=first, encoding_id=encoding_id) from error
            if codec:
                packed.append((encoding_id, codec))
        if packed:
            payloads = _decompressed(payloads, ids, present, dict(packed))
        return payloads, ids, present


def distinct(ids: npt.NDArray[np.int32], present: npt.NDArray[np.bool_]) -> list[int]:
    """The encoding ids there are, each once.

    Args:
        ids: of events.
        present: which of them count.
    """
    if not present.any():
        return []
    if present.all() and (ids == ids[0]).all():
        return [int(ids[0])]
    return [int(one) for one in np.unique(ids[present])]


def without_headers(payloads: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """The events' bodies.

    Args:
        payloads: events.
        present: which of them have a header.
    """
    if not present.any():
        return payloads
    data, offsets = binary_array(payloads)
    starts: Ints = offsets[:-1] + np.where(present, HEADER_SIZE, 0)
    return ragged_views(data, starts, offsets[1:])


def with_header(bodies: Sequence[bytes], encoding_id: int | None, encodings: Known) -> list[bytes]:
    """Bodies as events: compressed, where the encoding says so, and behind their header.

    Args:
        bodies: what is to be in the events.
        encoding_id: the id they are written under; None: neither header nor compression.
        encodings: looks the id up.
    """
    if encoding_id is None:
        return list(bodies)
    codec, head = encodings[encoding_id].codec, header(encoding_id)
    return [head + compression.compress(codec, body) for body in bodies]


def _decompressed(
    payloads: pa.Array, ids: npt.NDArray[np.int32], present: npt.NDArray[np.bool_], codecs: dict[int, str]
) -> pa.Array:
    plain = payloads.to_pylist()
    for row, event in enumerate(plain):
        codec = codecs.get(int(ids[row])) if present[row] else None
        if codec is None:
            continue
        try:
            plain[row] = event[:HEADER_SIZE] + compression.decompress(codec, event[HEADER_SIZE:])
        except ValueError as error:
            raise BadEventError(
                f"its body, of the codec {codec}, can't be decompressed: {error}", index=row, encoding_id=int(ids[row])
            ) from None
    return pa.array(plain, type=pa.binary())
