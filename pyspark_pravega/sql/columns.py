"""Columns as CREATE TABLE has them, read without a JVM: `id BIGINT NOT NULL, tags ARRAY<STRING>`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark_pravega.errors import ConfigurationError, did_you_mean
from pyspark_pravega.spark.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

_PLAIN: dict[str, type[DataType]] = {
    "BOOLEAN": BooleanType,
    "TINYINT": ByteType,
    "BYTE": ByteType,
    "SMALLINT": ShortType,
    "SHORT": ShortType,
    "INT": IntegerType,
    "INTEGER": IntegerType,
    "BIGINT": LongType,
    "LONG": LongType,
    "FLOAT": FloatType,
    "REAL": FloatType,
    "DOUBLE": DoubleType,
    "DATE": DateType,
    "TIMESTAMP": TimestampType,
    "TIMESTAMP_LTZ": TimestampType,
    "TIMESTAMP_NTZ": TimestampNTZType,
    "STRING": StringType,
    "BINARY": BinaryType,
    "VARIANT": VariantType,
}
_SIZED = {"DECIMAL": 2, "DEC": 2, "NUMERIC": 2, "VARCHAR": 1, "CHAR": 1, "CHARACTER": 1}
"""Types with numbers behind them, and how many there may be."""
_NESTED = ("ARRAY", "MAP", "STRUCT")
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|(\w+)|([(),:<>]))")


def parse_columns(text: str) -> StructType:
    """Columns, as between the parentheses of CREATE TABLE: names, types, NOT NULL, COMMENT.

    Args:
        text: the columns.

    Raises:
        ConfigurationError: it isn't so; the message says where.
    """
    parser = _Parser(text)
    columns = StructType(list(parser.fields(":")))
    parser.end()
    names = [name.lower() for name in columns.fieldNames()]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f'column "{name}" is named twice')
    return columns


class _Parser:
    """Goes through a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def fields(self, colon: str) -> Iterator[StructField]:
        """Columns, or the fields of a struct, with commas between.

        Args:
            colon: what may stand between a name and its type.
        """
        while True:
            match = self._next()
            name = match and (match[1] or match[3])
            if not name:
                raise self._wrong("a name")
            self._take(colon)
            kind, nullable, metadata = self._type(), True, {}
            if self._take("NOT"):
                self._need("NULL")
                nullable = False
            if self._take("COMMENT"):
                metadata = {"comment": self._quoted()}
            yield StructField(name.replace("``", "`"), kind, nullable, metadata)
            if not self._take(","):
                return

    def end(self) -> None:
        """Nothing may be left."""
        if self._text[self._at :].strip():
            raise self._wrong("a comma")

    def _type(self) -> DataType:
        match = self._next()
        word = ((match and match[3]) or "").upper()
        if word in _PLAIN:
            return _PLAIN[word]()
        if word in _SIZED:
            return self._sized(word)
        if word == "ARRAY":
            self._need("<")
            return self._closed(ArrayType(self._type()))
        if word == "MAP":
            self._need("<")
            key = self._type()
            self._need(",")
            return self._closed(MapType(key, self._type()))
        if word == "STRUCT":
            self._need("<")
            return self._closed(StructType(list(self.fields(":"))))
        if not word:
            raise self._wrong("a type")
        hint = did_you_mean(word, [*_PLAIN, *_SIZED, *_NESTED])
        raise ConfigurationError(f'"{word}" is no type{hint}; for others use CREATE TABLE in pravega-spark sql')

    def _sized(self, word: str) -> DataType:
        sizes: list[int] = []
        if self._take("("):
            while not sizes or (len(sizes) < _SIZED[word] and self._take(",")):
                match = self._next()
                if match is None or not (match[3] or "").isdigit():
                    raise self._wrong("a number")
                sizes.append(int(match[3]))
            self._need(")")
        if _SIZED[word] == 2:
            return DecimalType(*sizes) if len(sizes) != 1 else DecimalType(sizes[0], 0)
        if not sizes:
            raise self._wrong("a length in parentheses")
        return VarcharType(*sizes) if word == "VARCHAR" else CharType(*sizes)

    def _closed(self, kind: DataType) -> DataType:
        self._need(">")
        return kind

    def _quoted(self) -> str:
        match = self._next()
        if match is None or match[2] is None:
            raise self._wrong("a text in quotes")
        return re.sub(r"\\(.)", r"\1", match[2])

    def _next(self) -> re.Match[str] | None:
        match = _TOKEN.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _take(self, word: str) -> bool:
        """Whether a word or a mark comes next, which is then gone through."""
        match = _TOKEN.match(self._text, self._at)
        if match is None or (match[3] or match[4] or "").upper() != word:
            return False
        self._at = match.end()
        return True

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise self._wrong(f'"{word}"')

    def _wrong(self, wanted: str) -> ConfigurationError:
        rest = self._text[self._at :].strip()
        where = f'before "{rest[:30]}"' if rest else "at the end"
        return ConfigurationError(f"columns are written as 'id BIGINT, name STRING': {wanted} is missing {where}")
