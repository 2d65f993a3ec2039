"""Formats of one's own: a Python class that turns events into rows and back.

A table names its class, `'format' = 'package.module:Class'`, or a name under which an installed package has registered
it (entry point group `pyspark_pravega.formats`). The class is imported wherever the table is used: in the catalog's
process and in Spark's Python workers. docs/formats.md has an example.
"""

from __future__ import annotations

import copy
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import pyarrow as pa

from pyspark_pravega.errors import (
    ConfigurationError,
    EventDecodeError,
    EventEncodeError,
    PravegaError,
    UnsupportedTypeError,
)
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.codec import batch_of, or_first_bad, subschema
from pyspark_pravega.serde.encodings import EncodingSource, Known, WriterSchema, with_header, without_headers
from pyspark_pravega.serde.types import arrow_safe, cast, check_nulls, fit
from pyspark_pravega.spark.arrow import NoArrowTypeError, to_arrow_schema
from pyspark_pravega.spark.types import StructType

__all__ = ["ENTRY_POINTS", "BadEventError", "CustomCodec", "EventFormat", "RowFormat", "find", "is_custom"]

ENTRY_POINTS = "pyspark_pravega.formats"
"""The group of entry points under which a package registers its formats by names."""


class EventFormat(ABC):
    """A format that works on whole Arrow batches. Subclass it, or `RowFormat`, which works event by event.

    An object is made for each task and used by one thread.

    Args:
        schema: the table's columns, as `to_arrow_schema(spark_schema, timezone="UTC")` gives them.
        properties: the table's properties. Those with a dot in their name are the user's own: `'csv.separator' = ';'`.

    Raises:
        ValueError: the columns or properties aren't what the format can do; CREATE TABLE fails with its text.
    """

    def __init__(self, schema: pa.Schema, properties: Mapping[str, str]) -> None:
        self.schema = schema
        self.properties = properties

    @classmethod
    def columns(cls, properties: Mapping[str, str]) -> StructType | None:  # noqa: ARG003
        """The columns of a stream that wasn't made by CREATE TABLE, for `.option("format", ...)`.

        Args:
            properties: the stream's properties; mostly none.

        Returns:
            The columns; None when only CREATE TABLE can say them, as it is unless a class says otherwise.
        """
        return None

    @abstractmethod
    def decode(self, events: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """Turn events into rows.

        Args:
            events: an Arrow binary array, without nulls: payloads, without header and not compressed.
            columns: the wanted columns.

        Returns:
            A batch with a row for each event and at least those columns, of the schema's types or narrower ones.

        Raises:
            BadEventError: an event can't be decoded: `BadEventError("what is wrong with it", index=i)`.
        """

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Turn rows into events.

        Args:
            rows: a batch of exactly the table's schema.

        Returns:
            An Arrow binary array with an event for each row, without nulls.

        Raises:
            ValueError: a value can't be written; the write fails with its text.
        """


class RowFormat(EventFormat):
    """A format that works event by event: slower than `EventFormat`, and two short functions."""

    @abstractmethod
    def decode_event(self, event: bytes) -> Mapping[str, Any]:
        """Turn an event into a row.

        Args:
            event: its payload.

        Returns:
            The columns' values as `pyarrow.array` takes them; what is missing is null.

        Raises:
            ValueError: the event is bad; its text says what is wrong.
        """

    @abstractmethod
    def encode_row(self, row: Mapping[str, Any]) -> bytes:
        """Turn a row into an event.

        Args:
            row: all columns' values, as `RecordBatch.to_pylist` gives them.

        Returns:
            The event's payload.

        Raises:
            ValueError: a value can't be written.
        """

    def decode(self, events: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See EventFormat."""
        rows: list[Mapping[str, Any]] = []
        for index, event in enumerate(events.to_pylist()):
            try:
                rows.append(self.decode_event(event))
            except ValueError as error:
                raise BadEventError(str(error) or "it can't be decoded", index=index) from error
        schema = subschema(self.schema, columns)
        return batch_of([_column([row.get(field.name) for row in rows], field) for field in schema], schema, len(rows))

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """See EventFormat."""
        return pa.array([self.encode_row(row) for row in rows.to_pylist()], type=pa.binary())


def is_custom(name: str) -> bool:
    """Whether a format's name is that of a class, or one that a package has registered.

    Args:
        name: what `format` says.
    """
    return ":" in name or bool(entry_points(group=ENTRY_POINTS, name=name))


def find(name: str, allows: Callable[[str], bool] | None = None) -> type[EventFormat]:
    """The class of a format.

    Args:
        name: `package.module:Class`, or a registered name.
        allows: whether a class may be imported that isn't registered; None for one that was found so before.

    Raises:
        ConfigurationError: it may not be imported, can't be, or is no such class.
    """
    registered = list(entry_points(group=ENTRY_POINTS, name=name))
    if allows is not None and not registered and not allows(name):
        raise ConfigurationError(
            f'the class of format "{name}" isn\'t among those that may be imported, because whoever may change a table '
            f"could name any class: add {name} to format-classes in the catalog's configuration "
            "(spark.sql.catalog.NAME.format-classes), or to PRAVEGA_FORMAT_CLASSES where Spark's driver runs"
        )
    path = registered[0].value if registered else name
    module, _, attribute = path.partition(":")
    try:
        format_class: Any = importlib.import_module(module)
        for part in attribute.split("."):
            format_class = getattr(format_class, part)
    except Exception as error:
        raise ConfigurationError(
            f'the class of format "{name}" can\'t be imported by {sys.executable}: {type(error).__name__}: {error}. '
            "Its package must be installed for the Python of Spark's driver and of its executors, or lie in a folder "
            "of PYTHONPATH there, and be written package.module:Class"
        ) from error
    if not (isinstance(format_class, type) and issubclass(format_class, EventFormat)):
        raise ConfigurationError(
            f'"{name}" isn\'t a format: its class must be a subclass of pyspark_pravega.serde.custom.EventFormat or '
            "RowFormat"
        )
    return format_class


class CustomCodec:
    """Events in a format of one's own, with or without the registry's header.

    Args:
        name: the format, see `find`.
        columns: the table's columns.
        properties: the table's properties.
        encodings: looks encoding ids up; needed only with headers.
        write_id: the encoding id of what is written; None: for reading only, or without headers.
        header: whether events have headers.
        allows: as of `find`.

    Raises:
        ConfigurationError: the class can't be imported, or refuses the columns or properties.
        UnsupportedTypeError: a column's type can't be carried to Python.
    """

    def __init__(
        self,
        name: str,
        columns: StructType,
        properties: Mapping[str, str],
        encodings: EncodingSource | None = None,
        *,
        write_id: int | None = None,
        header: bool = False,
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        find(name, allows)
        self.name, self._properties = name, dict(properties)
        self._encodings, self._write_id, self._header = encodings, write_id, header
        try:
            self._schema = to_arrow_schema(arrow_safe(columns), timezone="UTC")
        except NoArrowTypeError as error:
            raise UnsupportedTypeError(f"Spark can't hand these columns to Python: {error}") from None
        self._prepare()

    def writing(self, encoding_id: int) -> CustomCodec:
        """The same codec, which writes under an encoding id.

        Args:
            encoding_id: the id in the headers of what is written.
        """
        codec = copy.copy(self)
        codec._write_id = encoding_id
        return codec

    def __getstate__(self) -> dict[str, Any]:
        attributes = ("name", "_properties", "_encodings", "_write_id", "_header", "_schema")
        return {key: self.__dict__[key] for key in attributes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        try:
            self._format = find(self.name)(self._schema, self._properties)
        except PravegaError:
            raise
        except Exception as error:
            raise ConfigurationError(f'format "{self.name}" refuses the table: {_said(error)}') from error
        self._known_encodings = (
            Known(self._encodings, _no_check) if self._header and self._encodings is not None else None
        )

    @property
    def schema(self) -> pa.Schema:
        """See Codec."""
        return self._schema

    def decode(self, payloads: pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """See Codec."""
        schema = subschema(self._schema, columns)
        if not columns or not len(payloads):
            return batch_of([pa.array([], type=field.type) for field in schema], schema, len(payloads))
        return or_first_bad(lambda events: self._decode(events, schema), payloads)

    def _decode(self, payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
        events = payloads if payloads.type == pa.binary() else payloads.cast(pa.binary())
        ids = None
        if self._known_encodings is not None:
            events, ids, present = self._known_encodings.plain(events)
            if not present.all():
                index = present.tolist().index(False)
                raise BadEventError("it doesn't begin with 0x01 and an encoding id", index=index)
            events = without_headers(events, present)
        try:
            batch = self._format.decode(events, list(schema.names))
        except BadEventError as error:
            encoding_id = int(ids[error.index]) if ids is not None else error.encoding_id
            raise BadEventError(error.reason, index=error.index, encoding_id=encoding_id) from error.__cause__
        except PravegaError:
            raise
        except Exception as error:
            raise EventDecodeError(f'format "{self.name}" failed to decode events: {_said(error)}') from error
        if not isinstance(batch, pa.RecordBatch) or batch.num_rows != len(events):
            raise EventDecodeError(
                f'format "{self.name}" must make a pyarrow.RecordBatch of {len(events)} rows of as many events; '
                "it made "
                + (f"{batch.num_rows} rows" if isinstance(batch, pa.RecordBatch) else f"a {type(batch).__name__}")
            )
        return batch_of([self._fitting(batch, field) for field in schema], schema, len(events))

    def _fitting(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        try:
            array = cast(batch.column(field.name), field.type, field.name)
            check_nulls(array, field, field.name)
        except KeyError:
            raise EventDecodeError(f'format "{self.name}" made no column "{field.name}"') from None
        except EventEncodeError as error:
            nulls = batch.column(field.name).is_null().to_pylist()
            if not field.nullable and any(nulls):
                raise BadEventError(
                    f'"{field.name}" is null, and the table\'s column is NOT NULL', index=nulls.index(True)
                ) from None
            raise EventDecodeError(f'format "{self.name}" made what the table has no place for: {error}') from None
        return array

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """See Codec."""
        rows = fit(batch, self._schema)
        try:
            array = self._format.encode(rows)
        except PravegaError:
            raise
        except Exception as error:
            raise EventEncodeError(f'format "{self.name}" can\'t write these rows: {_said(error)}') from error
        if not isinstance(array, pa.Array) or len(array) != batch.num_rows or array.null_count:
            raise EventEncodeError(
                f'format "{self.name}" must make a binary pyarrow.Array of {batch.num_rows} events without nulls of as '
                "many rows"
            )
        events = array if array.type == pa.binary() else array.cast(pa.binary())
        if self._known_encodings is None:
            return events
        if self._write_id is None:
            raise ConfigurationError(f'this codec of format "{self.name}" was made for reading only')
        return pa.array(with_header(events.to_pylist(), self._write_id, self._known_encodings), type=pa.binary())


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    if not field.nullable and None in values:
        raise BadEventError(
            f'"{field.name}" is missing or null, and the table\'s column is NOT NULL', index=values.index(None)
        )
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        for index, value in enumerate(values):
            try:
                pa.array([value], type=field.type)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise BadEventError(f'"{field.name}" isn\'t {field.type}: {error}', index=index) from error
        raise


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: {error}"


def _no_check(_encoding_id: int, _schema: WriterSchema) -> None:
    """The class alone knows what its events hold."""
