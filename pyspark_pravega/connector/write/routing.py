"""Routing keys: which columns, in which text, or one key for all rows.

Texts are those of `CAST(column AS STRING)`. Tables whose properties don't say so (`has_plain_texts`) hold events
with the texts that Arrow makes: small decimals with an exponent, `1E-8`, as Java's `BigDecimal.toString` has them, and
years after 9999 without a sign. All events of a key must lie together, so such tables go on with these.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.connector.table import KEY_TEXTS, KEY_TYPES, PLAIN
from pyspark_pravega.errors import InvalidNameError, UnsupportedTypeError, did_you_mean
from pyspark_pravega.spark.types import DataType, DateType, DecimalType, StructType
from pyspark_pravega.values import listed, names_of, quoted

_COLUMN = re.compile(r"\{(`(?:[^`]|``)+`|[^{}]+)\}")
_SEPARATOR = ","

_SHORT_SCALE = 6
"""Decimals with no more digits behind the point have one text only."""
_LAST_DAY = 2_932_896
"""9999-12-31, in days since 1970."""


@dataclass(frozen=True, kw_only=True)
class Routing:
    """How an event's routing key is made of its row."""

    columns: tuple[str, ...]
    """The columns that it is made of; none for one key for all rows."""
    texts: tuple[str, ...]
    """What stands before, between and after them: one more than columns."""
    scatters: bool = False
    """Whether a row without a value goes to any segment; otherwise its key is the empty text."""
    plain: bool = True
    """Whether texts are those of CAST; else they are Arrow's."""

    @classmethod
    def parse(cls, text: str, columns: Sequence[str], *, plain: bool = True) -> Routing:
        """Read a routing key as options and table properties give it.

        Args:
            text: a column, `a`; several, `a,b`, whose values are joined by commas; a pattern, `{a}/{b}`; or a key for
                all rows in single quotes, `'all'`. A name with letters that mean something here stands in backticks.
            columns: the table's columns. Names are found whatever their case.
            plain: see `Routing.plain`.

        Raises:
            InvalidNameError: one of the names isn't a column, or there is none.
        """
        stripped = text.strip()
        whole = _find(text, columns) or _find(stripped, columns)
        if whole is not None:
            return cls(columns=(whole,), texts=("", ""), plain=plain)
        if len(stripped) >= 2 and stripped[0] == stripped[-1] == "'":
            return cls(columns=(), texts=(stripped[1:-1].replace("''", "'"),))
        names, parts = list(names_of(stripped, empty=True)), _COLUMN.split(stripped)
        if len(parts) > 1 and any(_find(name, columns) is None for name in names):
            names, texts = [_bare(name) for name in parts[1::2]], parts[::2]
        else:
            texts = ["", *[_SEPARATOR] * (len(names) - 1), ""]
        routing_columns = []
        for name in names:
            column = _find(name, columns)
            if column is None:
                raise InvalidNameError(
                    f'routing key "{text}": "{name}" is not a column{did_you_mean(name, columns)} '
                    "(a key for all rows goes in single quotes: 'all')"
                )
            routing_columns.append(column)
        return cls(columns=tuple(routing_columns), texts=tuple(texts), plain=plain)

    @property
    def column(self) -> str | None:
        """The one column whose text is the key, if that is all."""
        return self.columns[0] if len(self.columns) == 1 and not any(self.texts) else None

    def check_types(self, columns: StructType) -> None:
        """Refuse columns whose values don't have one text each.

        Args:
            columns: the table's.

        Raises:
            UnsupportedTypeError: it is made of one.
        """
        for name in self.columns:
            kind = columns[name].dataType
            if not isinstance(kind, KEY_TYPES):
                raise UnsupportedTypeError(
                    f'column "{name}" of type {kind.simpleString()} can\'t be the routing key: '
                    "take a string, integer, decimal, boolean, date or timestamp"
                )

    def __str__(self) -> str:
        if self.column is not None:
            return self.column if self.column == self.column.strip() else quoted(self.column)
        if not self.columns:
            return "'" + self.texts[0].replace("'", "''") + "'"
        if self.texts == ("", *[_SEPARATOR] * (len(self.columns) - 1), ""):
            return listed(self.columns)
        return self.texts[0] + "".join(
            "{" + listed([name]) + "}" + after for name, after in zip(self.columns, self.texts[1:], strict=True)
        )

    def keys(self, batch: pa.RecordBatch) -> pa.Array | str:
        """The rows' keys.

        Args:
            batch: rows with the columns.

        Returns:
            A text for each row, null values as empty texts; or one for all.
        """
        if self.scatters and self.column is not None:
            return _scattered(batch.column(self.column))
        values = [_text(batch.column(name), plain=self.plain) for name in self.columns]
        if not values:
            return self.texts[0]
        if self.column is not None:
            return values[0]
        behind: list[pa.Array | str] = [self.texts[1]]
        for value, after in zip(values[1:], self.texts[2:], strict=True):
            behind += [value, after]
        return pc.binary_join_element_wise(self.texts[0], values[0], *behind, "")

    def lasting_keys(self, batch: pa.RecordBatch) -> pa.Array | str:
        """The rows' keys, which are the same whenever a row comes: null where it may go to any segment.

        Args:
            batch: rows with the columns.
        """
        if self.scatters and self.column is not None:
            return batch.column(self.column).cast(pa.string())
        return self.keys(batch)


def _scattered(column: pa.Array) -> pa.Array:
    """The keys, and one that nobody else has for each row without."""
    if not column.null_count:
        return column.cast(pa.string())
    others = pa.array([uuid.uuid4().hex if known is None else None for known in column.to_pylist()], pa.string())
    return pc.coalesce(column.cast(pa.string()), others)


def key_texts(routing: str | None, schema: StructType) -> dict[str, str]:
    """The property that a table needs so that its keys have the texts of CAST.

    Args:
        routing: its routing key, if it has one.
        schema: its columns.

    Returns:
        The property; nothing where each value has one text only.
    """
    columns = () if routing is None else Routing.parse(routing, schema.fieldNames()).columns
    return {KEY_TEXTS: PLAIN} if any(_has_two_texts(schema[name].dataType) for name in columns) else {}


def _has_two_texts(kind: DataType) -> bool:
    return isinstance(kind, DateType) or (isinstance(kind, DecimalType) and kind.scale > _SHORT_SCALE)


def _text(column: pa.Array, *, plain: bool) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Sessions are in different time zones; a key must not depend on that.
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    texts = column.cast(pa.string())
    if plain and pa.types.is_decimal(kind) and kind.scale > _SHORT_SCALE:
        which = pc.match_substring(texts, "E")
        return _replaced(texts, which, [f"{Decimal(text):f}" for text in texts.filter(which).to_pylist()])
    if plain and pa.types.is_date(kind):
        days = column.cast(pa.int32())
        which = pc.greater(days, _LAST_DAY)
        return _replaced(texts, which, [f"+{np.datetime64(day, 'D')}" for day in days.filter(which).to_pylist()])
    return texts.fill_null("")


def _replaced(texts: pa.Array, which: pa.Array, others: list[str]) -> pa.Array:
    """Texts, some of which are others; those that are null are empty."""
    if others:
        texts = pc.replace_with_mask(texts, pc.fill_null(which, False), pa.array(others, pa.string()))
    return texts.fill_null("")


def _bare(name: str) -> str:
    """A name of a pattern without its backticks."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _find(name: str, columns: Sequence[str]) -> str | None:
    return next((column for column in columns if column.lower() == name.lower()), None)
