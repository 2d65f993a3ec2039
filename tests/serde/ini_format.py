"""Formats as a user would write them: lines of `name=value`, event by event; and numbers, batch by batch."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from pyspark_pravega.serde.custom import BadEventError, EventFormat, RowFormat


class Ini(RowFormat):
    """`name=value;...`; the property `ini.separator` replaces the semicolon."""

    def __init__(self, schema: pa.Schema, properties: Mapping[str, str]) -> None:
        super().__init__(schema, properties)
        self.separator = properties.get("ini.separator", ";")
        if self.separator == "=":
            raise ValueError('"ini.separator" can\'t be "="')

    @classmethod
    def columns(cls, properties: Mapping[str, str]) -> StructType:
        return StructType([StructField("id", LongType(), False), StructField("name", StringType())])

    def decode_event(self, event: bytes) -> Mapping[str, Any]:
        pairs = dict(part.split("=", 1) for part in event.decode().split(self.separator) if part)
        return {
            f.name: int(pairs[f.name]) if f.type == "int64" else pairs[f.name] for f in self.schema if f.name in pairs
        }

    def encode_row(self, row: Mapping[str, Any]) -> bytes:
        if any(self.separator in str(value) for value in row.values()):
            raise ValueError(f'a value holds "{self.separator}"')
        return self.separator.join(f"{key}={value}" for key, value in row.items() if value is not None).encode()


class Halting(Ini):
    """Halts the process `halting.process` when an event is decoded first: then the file `halting.once` is gone."""

    def decode_event(self, event: bytes) -> Mapping[str, Any]:
        try:
            os.remove(self.properties["halting.once"])
        except FileNotFoundError:
            pass
        else:
            os.kill(int(self.properties["halting.process"]), signal.SIGSTOP)
        return super().decode_event(event)


class Doubles(EventFormat):
    """One little-endian double an event, whole batches at once."""

    def __init__(self, schema: pa.Schema, properties: Mapping[str, str]) -> None:
        super().__init__(schema, properties)
        if schema.types != [pa.float64()]:
            raise ValueError("it has one column, a DOUBLE")

    @classmethod
    def columns(cls, properties: Mapping[str, str]) -> StructType:
        return StructType([StructField("value", DoubleType(), False)])

    def decode(self, events: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        payloads = events.to_pylist()
        for index, payload in enumerate(payloads):
            if len(payload) != 8:
                raise BadEventError(f"it has {len(payload)} bytes, not 8", index=index)
        return pa.record_batch([pa.array(np.frombuffer(b"".join(payloads), "<f8"))], names=list(columns))

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.array([np.float64(value).tobytes() for value in rows.column(0).to_pylist()], pa.binary())


class Careless(EventFormat):
    """Does what a class shouldn't: the property `careless.how` says what."""

    def decode(self, events: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        how = self.properties["careless.how"]
        if how == "raises":
            raise KeyError("nothing there")
        if how == "too few":
            return pa.record_batch([pa.array([], pa.int64())], names=["a"])
        if how == "nulls":
            return pa.record_batch([pa.array([None] * len(events), pa.int64())], names=["a"])
        if how == "no batch":
            return None  # type: ignore[return-value]
        return pa.record_batch([pa.array(["x"] * len(events))], names=["a" if how == "other type" else "b"])

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.array([None] * rows.num_rows, pa.binary())


class NoFormat:
    """Isn't one."""
