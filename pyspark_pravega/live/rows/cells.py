"""Rows as texts that people read: values as `tail` shows them, and bytes as text where they are some."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition, check_schema_is_there, load_definition
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import BinaryType
from pyspark_pravega.sql.rows import json_codec, scales_of, shown_values

MOST_ROWS = 200
MOST_CHARACTERS = 400
"""Of a value that is shown."""
Cells = list[str | None]
"""A row; None for NULL."""


def definition_of(settings: Settings, stream: Stream) -> TableDefinition:
    """What a stream is as a table.

    Args:
        settings: the connection.
        stream: the stream.

    Raises:
        StreamNotFoundError: there is no such stream.
        GroupNotFoundError: its schema is gone.
    """
    definition = load_definition(shared_client(settings), settings, stream)
    check_schema_is_there(definition)
    return definition


def shown_rows(definition: TableDefinition | KeyValueDefinition, batch: pa.RecordBatch) -> list[Cells]:
    """Rows as texts.

    Args:
        definition: what they are rows of.
        batch: with all columns of the table, others are passed over.
    """
    columns = definition.schema
    names = columns.fieldNames()
    octets = [isinstance(column.dataType, BinaryType) for column in columns]
    scales = scales_of(columns)
    texts = json_codec(definition).encode(batch.select(names)).to_pylist()
    return [_cells(text, names, octets, scales) for text in texts]


def shown(value: Any) -> str | None:
    """A value as text, without its end where that is far; None for NULL."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"


def bytes_text(octets: bytes) -> str:
    """Bytes as text where they are UTF-8 that can be seen, else as hexadecimal digits.

    Args:
        octets: the bytes.
    """
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        text = ""
    if text and all(letter.isprintable() or letter in "\t\n" for letter in text):
        return text
    return f"0x{octets.hex()}" if octets else ""


def _cells(text: bytes, names: Sequence[str], octets: Sequence[bool], scales: Mapping[str, int]) -> Cells:
    values = shown_values(text, scales)
    cells: Cells = []
    for name, is_bytes in zip(names, octets, strict=True):
        value = values.get(name)
        if value is not None and is_bytes:
            value = bytes_text(base64.b64decode(value))
        cells.append(shown(value))
    return cells
