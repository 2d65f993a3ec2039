"""The native codec: the same answers as the plain one, faster.

The plain codec stays at hand. It answers for schemas that the native one doesn't do, and says what is wrong with an
event or a row that the native one has refused.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError, SchemaError, SchemaNotFoundError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.framing import compact
from pyspark_pravega.frames.native_module import SWITCH, module
from pyspark_pravega.serde import compression
from pyspark_pravega.serde.avro import AvroCodec
from pyspark_pravega.serde.codec import Batch, Codec, arrow_batch, batch_of, subschema
from pyspark_pravega.serde.custom import CustomCodec
from pyspark_pravega.serde.documents import DocumentCodec
from pyspark_pravega.serde.encodings import Known, WriterSchema, header
from pyspark_pravega.serde.json import JsonCodec
from pyspark_pravega.serde.native.avro_plan import NoPlanError, Plan, record_plan, write_plan
from pyspark_pravega.serde.native.plans import json_plan, protobuf_plan
from pyspark_pravega.serde.protobuf import ProtobufCodec
from pyspark_pravega.serde.stored import StoredCodec
from pyspark_pravega.serde.types import fit

_log = logging.getLogger(__name__)

SLOWER = "Avro takes 2 to 5 times as long as with the native one, JSON and Protobuf 20 to 50 times"
"""What the plain codec costs."""

_FAILED = (ValueError, RuntimeError, pa.ArrowException)
"""What the native module raises when it can't go on; the plain codec then answers."""

TOLD_FROM = 100_000
"""Events that a process does by the plain codec before it says so: with fewer nobody waits for it."""

VIEWS_FROM_BYTES = 64
"""Values that are shorter on average are copied when they are decoded: of them a view costs more than a copy."""


def faster(plain: Codec) -> Codec:
    """The native codec for what a plain one does, or that one where there's none.

    Args:
        plain: a codec.
    """
    if not isinstance(plain, (AvroCodec, JsonCodec, ProtobufCodec)):
        return plain
    native = NativeCodec(plain)
    return native if native.is_native or native.is_missing else plain


def describe(codec: Codec | None = None) -> str:
    """Which codec serves, in words for people.

    Args:
        codec: a table's; None for what there is in this process.

    Returns:
        Such as `avro, native 0.1.0` and `json, plain`; of the process `native 0.1.0`, or why it isn't used.
    """
    native = module()
    version = f"native {native.__version__}" if native is not None else "plain"
    if codec is None:
        why = (
            f"switched off by {SWITCH}"
            if os.environ.get(SWITCH) == "0"
            else "pyspark-pravega-native isn't installed, or of another release"
        )
        return version if native is not None else f"plain ({why})"
    codec = codec.inner if isinstance(codec, StoredCodec) else codec
    plain = codec.plain if isinstance(codec, NativeCodec) else codec
    names: dict[type, str] = {AvroCodec: "avro", JsonCodec: "json", ProtobufCodec: "protobuf", DocumentCodec: "json"}
    if isinstance(plain, CustomCodec):
        return plain.name
    name = names.get(type(plain))
    if name is None:
        return "none is needed"
    return f"{name}, {version if isinstance(codec, NativeCodec) and codec.is_native else 'plain'}"


class _Missing:
    """What this process has done by the plain codec that a native one would have done."""

    events = 0

    @classmethod
    def count(cls, events: int) -> None:
        """Warn, once, where it is much; who has switched the native codec off knows."""
        before, cls.events = cls.events, cls.events + events
        if before < TOLD_FROM <= cls.events and os.environ.get(SWITCH) != "0":
            _log.warning(
                "the codec of Pravega's events is %s: %s; `pravega-spark doctor` says more", describe(), SLOWER
            )


class NativeCodec:
    """Decodes and encodes natively what it can, the rest as the plain codec does.

    Args:
        plain: the plain codec for the same table.
    """

    takes_views = True
    """`decode` takes views of a buffer, too."""
    is_missing: bool
    """Whether only the native module is missing to decode events natively."""

    def __init__(self, plain: AvroCodec | JsonCodec | ProtobufCodec) -> None:
        self.plain = plain
        self._prepare()

    def __getstate__(self) -> dict[str, Any]:
        return {"plain": self.plain}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.plain = state["plain"]
        # The wheel may be missing where this is unpickled; the plain codec is enough.
        self._prepare()

    def _prepare(self) -> None:
        self._native: Any = module()
        self._plans = _plans_of(self.plain)
        self._known_encodings = Known(self.plain.encodings, self._plans.check)
        self._decoders: dict[tuple[str, ...], Any] = {}
        self._encoder: Any = None
        self._packed = False
        self.is_missing = False
        try:
            self._plans.own(self.schema)
        except (NoPlanError, SchemaError):
            self._native = None
        else:
            self.is_missing = self._native is None

    @property
    def is_native(self) -> bool:
        """Whether events of the table's own schema are decoded natively."""
        return self._native is not None

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self.plain.schema

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        return arrow_batch(self._decode(payloads, columns, views=False))

    def decode_to_views(self, payloads: pa.Array, columns: Sequence[str]) -> Batch:
        """See `decode_to_views` of serde/codec.py: a column is one of views where its values are long."""
        return self._decode(payloads, columns, views=True)

    def _decode(self, payloads: pa.Array, columns: Sequence[str], *, views: bool) -> Batch:
        if not columns:
            return batch_of([], pa.schema([]), len(payloads))
        if self._native is None:
            return self._plainly(payloads, columns)
        least = VIEWS_FROM_BYTES if views else None

        def run(decoder: Any, events: pa.Array) -> Any:
            return decoder.decode(events, least)

        answer = self._attempt(payloads, columns, run, learn=False)
        if answer is not None and answer[2] is not None:
            # It has met an encoding that it doesn't know.
            answer = self._attempt(payloads, columns, run)
        if answer is None:
            return self._plainly(payloads, columns)
        batch: Batch
        batch, index, _ = answer
        if index is None:
            return batch
        try:
            self._plainly(payloads.slice(index, 1), columns)
        except BadEventError as error:
            raise BadEventError(error.reason, index=index, encoding_id=error.encoding_id) from error.__cause__
        # The plain codec can do what the native one can't; then it has to answer for all.
        return self._plainly(payloads, columns)

    def _plainly(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """As the plain codec decodes them, which takes no views."""
        if self.is_missing:
            _Missing.count(len(payloads))
        return self.plain.decode(compact(payloads), columns)

    def decode_good(
        self, payloads: pa.Array, columns: Sequence[str]
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]] | None:
        """Decode those events that can be decoded.

        Args:
            payloads: events, as for `decode`.
            columns: the wanted columns.

        Returns:
            The rows of good events, and the indexes of the bad ones; None when the native codec can't say.
        """
        if self._native is None or not columns:
            return None
        answer = self._attempt(payloads, columns, lambda decoder, events: decoder.decode_good(events))
        if answer is None:
            return None
        bad = answer[1].to_numpy(zero_copy_only=False).astype(np.int64)
        for index in bad.tolist():
            try:
                self._plainly(payloads.slice(index, 1), columns)
            except BadEventError:
                continue
            return None
        return answer[0], bad

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        if self._native is not None and self._encoder is None:
            self._encoder = self._new_encoder()
        if self.is_missing:
            _Missing.count(batch.num_rows)
        if not self._encoder:
            return self.plain.encode(batch)
        try:
            fitted = fit(batch, self.schema)
        except EventEncodeError:
            return self.plain.encode(batch)
        encoder, head, codec = self._encoder
        try:
            bodies: pa.Array | None = encoder.encode(fitted)
        except _FAILED:
            bodies = None
        if bodies is None:
            return self.plain.encode(batch)
        if not codec:
            return bodies
        return pa.array([head + compression.compress(codec, body) for body in bodies.to_pylist()], type=pa.binary())

    def _attempt(
        self, payloads: pa.Array, columns: Sequence[str], run: Callable[[Any, pa.Array], Any], *, learn: bool = True
    ) -> Any:
        """What a decoder makes of events, with `learn` once it knows all their encodings.

        Returns:
            The answer of `run`; None when the plain codec has to answer.
        """
        decoder = self._decoder(columns)
        if decoder is None:
            return None
        events = payloads if payloads.type in (pa.binary(), pa.binary_view()) else payloads.cast(pa.binary())
        if learn and self._plans.headers and not self._learn(decoder, columns, events):
            return None
        if self._packed:
            try:
                events, _, _ = self._known_encodings.plain(compact(events))
            except BadEventError:
                return None
        try:
            return run(decoder, events)
        except _FAILED:
            return None

    def _decoder(self, columns: Sequence[str]) -> Any:
        key = tuple(columns)
        if key not in self._decoders:
            schema = subschema(self.schema, columns)
            try:
                decoder = self._native.Decoder(schema, self._plans.headers)
                bare = self._plans.bare(schema)
                if bare is not None:
                    decoder.add(None, _dumps(self._plans.name, bare))
            except (NoPlanError, ValueError):
                decoder = None
            self._decoders[key] = decoder
        return self._decoders[key]

    def _learn(self, decoder: Any, columns: Sequence[str], events: pa.Array) -> bool:
        """Look up encodings that the decoder doesn't know; whether it can do all of them."""
        for encoding_id in decoder.unknown(events):
            try:
                schema = self._known_encodings[encoding_id]
                plan = self._plans.of(encoding_id, schema, subschema(self.schema, columns))
                decoder.add(encoding_id, _dumps(self._plans.name, plan, padded=bool(schema.codec)))
            except (NoPlanError, SchemaError, SchemaNotFoundError, ValueError):
                return False
            self._packed = self._packed or bool(schema.codec)
        return True

    def _new_encoder(self) -> Any:
        try:
            write_id = self._plans.write_id
            codec = "" if write_id is None else self._known_encodings[write_id].codec
            head = b"" if write_id is None else header(write_id)
            plan = _dumps(self._plans.name, self._plans.writing(self._known_encodings, self.schema))
            return self._native.Encoder(plan, b"" if codec else head), head, codec
        except (NoPlanError, SchemaError, SchemaNotFoundError, ValueError):
            return ()


def _dumps(name: str, plan: Plan, *, padded: bool = False) -> str:
    return json.dumps({"format": name, "plan": plan, "padded": padded})


class _AvroPlans:
    name = "avro"

    def __init__(self, codec: AvroCodec) -> None:
        self._codec = codec
        self.headers = codec.header
        self.write_id = codec.write_id if codec.header else None

    def check(self, encoding_id: int, _schema: WriterSchema) -> None:
        # The plain codec shall not look it up again.
        self._codec.written_with(encoding_id)

    def own(self, columns: pa.Schema) -> Plan:
        return record_plan(self._codec.reader, self._codec.reader, columns)

    def bare(self, columns: pa.Schema) -> Plan | None:
        return None if self.headers else self.own(columns)

    def of(self, encoding_id: int, _schema: WriterSchema, columns: pa.Schema) -> Plan:
        return record_plan(self._codec.written_with(encoding_id)[0], self._codec.reader, columns)

    def writing(self, _encodings: Known, columns: pa.Schema) -> Plan:
        if self.write_id is None:
            if self.headers:
                raise NoPlanError
            return write_plan(self._codec.reader, columns)
        return write_plan(self._codec.written_with(self.write_id)[0], columns)


class _SamePlans:
    """Plans of formats that are decoded by the table's schema, whatever the event was written with."""

    headers = True

    def __init__(self, name: str, codec: JsonCodec | ProtobufCodec, plan: Callable[[Sequence[str]], Plan]) -> None:
        self.name, self._codec, self._plan = name, codec, plan
        self.write_id = codec.write_id

    def check(self, encoding_id: int, schema: WriterSchema) -> None:
        self._codec.check(encoding_id, schema)

    def own(self, columns: pa.Schema) -> Plan:
        return self._plan(columns.names)

    bare = own

    def of(self, _encoding_id: int, _schema: WriterSchema, columns: pa.Schema) -> Plan:
        return self._plan(columns.names)

    def writing(self, _encodings: Known, columns: pa.Schema) -> Plan:
        return self._plan(columns.names)


def _plans_of(codec: AvroCodec | JsonCodec | ProtobufCodec) -> _AvroPlans | _SamePlans:
    if isinstance(codec, AvroCodec):
        return _AvroPlans(codec)
    if isinstance(codec, JsonCodec):
        schema = codec.object
        return _SamePlans("json", codec, lambda names: json_plan(schema, names))
    message = codec.message
    return _SamePlans("protobuf", codec, lambda names: protobuf_plan(message, names))
