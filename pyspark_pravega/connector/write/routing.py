"""Routing keys: which columns, in which text, or one key for all rows."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import InvalidNameError, did_you_mean

_COLUMN = re.compile(r"\{([^{}]+)\}")
_SEPARATOR = ","


@dataclass(frozen=True, kw_only=True)
class Routing:
    """How an event's routing key is made of its row."""

    columns: tuple[str, ...]
    """The columns that it is made of; none for one key for all rows."""
    texts: tuple[str, ...]
    """What stands before, between and after them: one more than columns."""
    scatters: bool = False
    """Whether a row without a value goes to any segment; otherwise its key is the empty text."""

    @classmethod
    def parse(cls, text: str, columns: Sequence[str]) -> Routing:
        """Read a routing key as options and table properties give it.

        Args:
            text: a column, `a`; several, `a,b`, whose values are joined by commas; a pattern, `{a}/{b}`; or a key for
                all rows in single quotes, `'all'`.
            columns: the table's columns. Names are found whatever their case.

        Raises:
            InvalidNameError: one of the names isn't a column, or there is none.
        """
        stripped = text.strip()
        whole = _find(stripped, columns)
        if whole is not None:
            return cls(columns=(whole,), texts=("", ""))
        if len(stripped) >= 2 and stripped[0] == stripped[-1] == "'":
            return cls(columns=(), texts=(stripped[1:-1].replace("''", "'"),))
        parts = _COLUMN.split(stripped)
        if len(parts) > 1:
            names, texts = parts[1::2], parts[::2]
        else:
            names = [name.strip() for name in stripped.split(_SEPARATOR)]
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
        return cls(columns=tuple(routing_columns), texts=tuple(texts))

    @property
    def column(self) -> str | None:
        """The one column whose text is the key, if that is all."""
        return self.columns[0] if len(self.columns) == 1 and not any(self.texts) else None

    def __str__(self) -> str:
        if self.column is not None:
            return self.column
        if not self.columns:
            return "'" + self.texts[0].replace("'", "''") + "'"
        if self.texts == ("", *[_SEPARATOR] * (len(self.columns) - 1), ""):
            return _SEPARATOR.join(self.columns)
        return self.texts[0] + "".join(
            "{" + name + "}" + after for name, after in zip(self.columns, self.texts[1:], strict=True)
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
        values = [_text(batch.column(name)) for name in self.columns]
        if not values:
            return self.texts[0]
        if self.column is not None:
            return values[0]
        parts: list[pa.Array | str] = [self.texts[0]]
        for value, after in zip(values, self.texts[1:], strict=True):
            parts += [value, after]
        return pc.binary_join_element_wise(*parts, "")


def _scattered(column: pa.Array) -> pa.Array:
    """The keys, and one that nobody else has for each row without."""
    if not column.null_count:
        return column.cast(pa.string())
    others = pa.array([uuid.uuid4().hex if known is None else None for known in column.to_pylist()], pa.string())
    return pc.coalesce(column.cast(pa.string()), others)


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Sessions are in different time zones; a key must not depend on that.
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    return column.cast(pa.string()).fill_null("")


def _find(name: str, columns: Sequence[str]) -> str | None:
    return next((column for column in columns if column.lower() == name.lower()), None)
