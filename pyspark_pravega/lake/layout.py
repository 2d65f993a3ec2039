"""How rows lie in a lake's files: by which partitions, and in which order within a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark_pravega.errors import ConfigurationError, InvalidNameError, UnsupportedTypeError, did_you_mean
from pyspark_pravega.spark.types import DataType, StructType
from pyspark_pravega.values import quoted

PARTITIONED_BY, SORTED_BY = "lake-partitioned-by", "lake-sorted-by"
IDENTITY, BUCKET, TRUNCATE = "identity", "bucket", "truncate"
TIMES = ("years", "months", "days", "hours")
_NUMBERED = (BUCKET, TRUNCATE)
_PLAIN_NAME = r"[^\s,()`]+"
_NAME = rf"(?:`((?:[^`]|``)+)`|({_PLAIN_NAME}))"
_PART = re.compile(rf"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?{_NAME}\s*\)|{_NAME})\s*(?:,|$)")
_SORT = re.compile(rf"\s*{_NAME}(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?\s*(?:,|$)", re.IGNORECASE)
_KINDS = (
    "a column, years(c), months(c), days(c), hours(c), bucket(16, c) or truncate(4, c); a name with other signs stands "
    "in backticks"
)
_WHOLE = ("ByteType", "ShortType", "IntegerType", "LongType", "DecimalType")
_TEXTS = ("StringType", "CharType", "VarcharType", "BinaryType")
_INSTANTS = ("TimestampType", "TimestampNTZType")
_TAKES = {
    IDENTITY: ("BooleanType", *_WHOLE, *_TEXTS, "DateType", *_INSTANTS),
    BUCKET: (*_WHOLE, *_TEXTS, "DateType", *_INSTANTS),
    TRUNCATE: (*_WHOLE, *_TEXTS),
    "hours": _INSTANTS,
    **dict.fromkeys(("years", "months", "days"), ("DateType", *_INSTANTS)),
}
"""Which types a transform takes. FLOAT and DOUBLE are left out: engines don't agree on the partitions of NaN and -0."""
_ORDERED = ("BooleanType", *_WHOLE, *_TEXTS, "DateType", *_INSTANTS, "FloatType", "DoubleType")


def _spelled(name: str) -> str:
    return name if re.fullmatch(_PLAIN_NAME, name) else quoted(name)


@dataclass(frozen=True, kw_only=True)
class PartitionedBy:
    """One of the values that rows of a partition have in common."""

    column: str
    transform: str = IDENTITY
    number: int = 0
    """Of buckets, or how long what isn't truncated is."""

    def __str__(self) -> str:
        name = _spelled(self.column)
        if self.transform == IDENTITY:
            return name
        return f"{self.transform}({f'{self.number}, ' if self.number else ''}{name})"

    @property
    def kind(self) -> str:
        """What there may be one of for a column."""
        return "times" if self.transform in TIMES else self.transform


@dataclass(frozen=True, kw_only=True)
class SortedBy:
    """A column by which the rows of a file are sorted."""

    column: str
    is_descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        words = [_spelled(self.column), *(["DESC"] if self.is_descending else [])]
        if self.nulls_first == self.is_descending:
            words.append("NULLS FIRST" if self.nulls_first else "NULLS LAST")
        return " ".join(words)


Column = TypeVar("Column", PartitionedBy, SortedBy)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How rows lie in files."""

    partitions: tuple[PartitionedBy, ...] = ()
    order: tuple[SortedBy, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.partitions or self.order)


def _matches(name: str, text: str, term: re.Pattern[str], kinds: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text) or not at:
        match = term.match(text, at)
        if match is None:
            raise ConfigurationError(f'"{name}": "{text[at:].strip()[:60]}" isn\'t {kinds}')
        yield match
        at = match.end()


def _name(quoted_name: str | None, plain: str | None) -> str:
    return (plain or "") if quoted_name is None else quoted_name.replace("``", "`")


def partitioned_by(name: str, text: str) -> tuple[PartitionedBy, ...]:
    """What a list of columns and transforms means, as `days(at), bucket(16, customer)`.

    Args:
        name: the property's, for messages.
        text: the list.

    Raises:
        ConfigurationError: it isn't one.
    """
    some = []
    for match in _matches(name, text, _PART, _KINDS):
        word, number, *names = match.groups()
        if word is None:
            some.append(PartitionedBy(column=_name(*names[2:])))
            continue
        transform = next((one for one in _TAKES if word.lower() in (one, one.removesuffix("s"))), None)
        if transform is None or (number is not None) != (transform in _NUMBERED):
            raise ConfigurationError(f'"{name}": "{match[0].strip(", ")}" isn\'t {_KINDS}')
        if number is not None and not 1 <= int(number) < 1 << 31:
            raise ConfigurationError(f'"{name}": the number of "{match[0].strip(", ")}" must be 1 to {(1 << 31) - 1}')
        some.append(PartitionedBy(column=_name(*names[:2]), transform=transform, number=int(number or 0)))
    return tuple(some)


def sorted_by(name: str, text: str) -> tuple[SortedBy, ...]:
    """What a list of columns means by which rows are sorted, as `customer, at DESC NULLS LAST`.

    Args:
        name: the property's, for messages.
        text: the list.

    Raises:
        ConfigurationError: it isn't one.
    """
    some = []
    kinds = "a column, which ASC or DESC, and NULLS FIRST or NULLS LAST, may stand behind"
    for match in _matches(name, text, _SORT, kinds):
        *names, direction, nulls = match.groups()
        is_descending = (direction or "").upper() == "DESC"
        nulls_first = not is_descending if nulls is None else nulls.upper() == "FIRST"
        some.append(SortedBy(column=_name(*names), is_descending=is_descending, nulls_first=nulls_first))
    return tuple(some)


def listed(some: Sequence[PartitionedBy | SortedBy]) -> str:
    """The list that means some columns.

    Args:
        some: the columns.
    """
    return ", ".join(map(str, some))


def of_columns(name: str, some: Sequence[Column], schema: StructType) -> tuple[Column, ...]:
    """Columns by which files are made, as a table spells them.

    Args:
        name: the property's, for messages.
        some: which ones.
        schema: the table's columns.

    Raises:
        InvalidNameError: one isn't there.
        UnsupportedTypeError: one's type can't be used so.
        ConfigurationError: one is there twice.
    """
    known = {column.lower(): column for column in schema.fieldNames()}
    settled: list[Column] = []
    for one in some:
        column = known.get(one.column.lower())
        if column is None:
            raise InvalidNameError(f'"{name}": "{one.column}" is not a column{_hint(one.column, schema)}')
        own = replace(one, column=column)
        _check_type(name, own, schema[column].dataType)
        kind = own.kind if isinstance(own, PartitionedBy) else ""
        if any(other.column == column and getattr(other, "kind", "") == kind for other in settled):
            raise ConfigurationError(
                f'"{name}": column "{column}" is there twice{f" by {kind}" if kind else ""}: leave one out'
            )
        settled.append(own)
    return tuple(settled)


def _hint(name: str, schema: StructType) -> str:
    if name.startswith("_"):
        return " of the table's own: metadata columns can't be there"
    if name.split(".")[0].lower() in (column.lower() for column in schema.fieldNames()):
        return ": fields of structs can't be there"
    return did_you_mean(name, schema.fieldNames())


def _check_type(name: str, one: PartitionedBy | SortedBy, kind: DataType) -> None:
    transform = one.transform if isinstance(one, PartitionedBy) else None
    if type(kind).__name__ in (_ORDERED if transform is None else _TAKES[transform]):
        return
    what = "rows can't be sorted" if transform is None else f'"{one}" can\'t partition rows'
    also = [] if transform is None else [word for word in _TAKES if type(kind).__name__ in _TAKES[word]]
    raise UnsupportedTypeError(
        f'"{name}": {what} by column "{one.column}" of type {kind.simpleString()}: take '
        + (f"{', '.join(also)}, or another column" if also else "another column")
    )
