"""Schema resolution between random schemas, with fastavro as the second opinion."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from avro_tools import codec, column, event, events, record
from fastavro.read import SchemaResolutionError
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.frames.bad_events import BadEventError

DEFAULTS = {
    "int": 5,
    "long": -(2**40),
    "float": 0.5,
    "double": -1.25,
    "string": "none",
    "boolean": True,
}
kinds = st.sampled_from([*DEFAULTS])


def values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        return st.one_of(*(values(one) for one in kind))
    # Not empty: whether types within resolve, fastavro decides sometimes by the schemas, sometimes by an item.
    if isinstance(kind, dict) and kind["type"] == "array":
        return st.lists(values(kind["items"]), min_size=1, max_size=12)
    if isinstance(kind, dict):
        return st.dictionaries(st.text(max_size=3), values(kind["values"]), min_size=1, max_size=3)
    strategies: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "string": st.text(max_size=6),
        "boolean": st.booleans(),
    }
    return strategies[kind]


types = st.one_of(
    kinds,
    kinds.map(lambda kind: ["null", kind]),
    kinds.map(lambda kind: [kind, "null"]),
    kinds.map(lambda kind: {"type": "array", "items": kind}),
    kinds.map(lambda kind: {"type": "array", "items": ["null", kind]}),
    kinds.map(lambda kind: {"type": "map", "values": kind}),
)


@st.composite
def two_schemas(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Fields of a writer and of a reader that shares some of them, perhaps in other types."""
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
    writer = [column(name, draw(types)) for name in names]
    reader = []
    for name in draw(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)):
        old = next((field["type"] for field in writer if field["name"] == name), None)
        kind = draw(types) if old is None or draw(st.integers(0, 4)) == 0 else old
        if isinstance(kind, str):
            reader.append(column(name, kind, default=DEFAULTS[kind]))
        elif isinstance(kind, list):
            first = kind[0]
            reader.append(column(name, kind, default=None if first == "null" else DEFAULTS[first]))
        else:
            reader.append(column(name, kind, default=[] if kind["type"] == "array" else {}))
    return writer, reader


def numbers_as(kind: Any, value: Any) -> Any:
    """fastavro leaves values of arrays, maps and unions as they were written; a column has one type."""
    if value is None:
        return None
    if isinstance(kind, list):
        return numbers_as(next(one for one in kind if one != "null"), value)
    if isinstance(kind, dict) and kind["type"] == "array":
        return [numbers_as(kind["items"], item) for item in value]
    if isinstance(kind, dict):
        return [(key, numbers_as(kind["values"], item)) for key, item in value.items()]
    if kind in ("float", "double"):
        return pa.scalar(float(value), pa.float32() if kind == "float" else pa.float64()).as_py()
    return value


@given(two_schemas(), st.data())
def test_an_event_is_read_as_fastavro_reads_it(
    schemas: tuple[list[dict[str, Any]], list[dict[str, Any]]], data: st.DataObject
) -> None:
    writer_text, reader_text = record(*schemas[0]), record(*schemas[1])
    writer = fastavro.parse_schema(json.loads(writer_text))
    reader = fastavro.parse_schema(json.loads(reader_text))
    value = {field["name"]: data.draw(values(field["type"])) for field in schemas[0]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, writer, value)
    table_codec = codec(reader_text, writer_text)
    try:
        read: Any = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), writer, reader)
        expected = {f["name"]: numbers_as(f["type"], read[f["name"]]) for f in schemas[1]}
    except SchemaResolutionError:
        expected = None
    try:
        batch = table_codec.decode(events(event(0, out.getvalue())), table_codec.schema.names)
        batch.validate(full=True)
        ours = batch.to_pylist()[0]
    except BadEventError:
        ours = None
    assert ours == expected
