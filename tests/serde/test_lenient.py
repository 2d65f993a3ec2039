"""Bad events: an error, a row of nulls, or no row; and events of several types in one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from format_tools import Encodings
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde import lenient
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema, header
from pyspark_pravega.serde.formats import Schema, schema_for
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST, PERMISSIVE, TypeFilter
from pyspark_pravega.serde.raw import StringCodec

TABLE = StructType([StructField("id", LongType(), False), StructField("s", StringType())])
FORMATS = ["avro", "json", "protobuf"]


@pytest.fixture(params=["native where there is one", "plain"])
def make(request: pytest.FixtureRequest) -> Callable[[str], Codec]:
    def codec_for(table_format: str) -> Codec:
        schema = schema_for(table_format, TABLE, name="t", namespace="s")
        text = "" if table_format == "protobuf" else schema.data.decode()
        schemas = {0: WriterSchema(schema_text=text, schema_data=schema.data, type=schema.type)}
        codec = Schema.plain_codec if request.param == "plain" else Schema.codec
        return codec(schema, TABLE, Encodings(schemas), write_id=0)

    return codec_for


def events(codec: Codec, good: Sequence[bool]) -> pa.Array:
    rows = [{"id": i, "s": f"s{i}"} for i in range(len(good))]
    written = codec.encode(pa.RecordBatch.from_pylist(rows, schema=codec.schema)).to_pylist()
    bad = [header(0) + b"\xff", b"\x01", header(9) + b"{}"]
    return pa.array(
        [e if fine else bad[i % 3] for i, (e, fine) in enumerate(zip(written, good, strict=True))], pa.binary()
    )


GOOD = [True, False, True, True, False, False, True] + [True] * 200 + [False, True]
BAD = [i for i, fine in enumerate(GOOD) if not fine]


@pytest.mark.parametrize("table_format", FORMATS)
def test_fail_fast_names_the_first_one(make: Callable[[str], Codec], table_format: str) -> None:
    codec = make(table_format)
    with pytest.raises(BadEventError) as caught:
        lenient.decode(codec, events(codec, GOOD), ["id"], FAIL_FAST)
    assert caught.value.index == BAD[0]


@pytest.mark.parametrize("table_format", FORMATS)
def test_permissive_makes_them_rows_of_nulls(make: Callable[[str], Codec], table_format: str) -> None:
    codec = make(table_format)
    decoded = lenient.decode(codec, events(codec, GOOD), ["s", "id"], PERMISSIVE)
    decoded.batch.validate(full=True)
    expected = [{"s": f"s{i}", "id": i} if fine else {"s": None, "id": None} for i, fine in enumerate(GOOD)]
    assert decoded.batch.to_pylist() == expected
    assert (decoded.rows, decoded.bad.tolist()) == (None, BAD)
    assert all(field.nullable for field in decoded.batch.schema)


@pytest.mark.parametrize("table_format", FORMATS)
def test_drop_malformed_leaves_them_out(make: Callable[[str], Codec], table_format: str) -> None:
    codec = make(table_format)
    decoded = lenient.decode(codec, events(codec, GOOD), ["id"], DROP_MALFORMED)
    good = [i for i, fine in enumerate(GOOD) if fine]
    assert decoded.batch.column(0).to_pylist() == good
    assert decoded.rows is not None
    assert (decoded.rows.tolist(), decoded.bad.tolist()) == (good, BAD)


@pytest.mark.parametrize("mode", [PERMISSIVE, DROP_MALFORMED])
def test_how_many_rows_there_are_does_not_depend_on_the_columns(make: Callable[[str], Codec], mode: str) -> None:
    codec = make("json")
    payloads = pa.array([b'{"id": 1, "s": "x"}', b'{"id": 1, "s": 5}', b'{"id": 1}'], pa.binary())
    counts = {lenient.decode(codec, payloads, columns, mode).batch.num_rows for columns in (["id"], ["s"], [])}
    assert counts == {3 if mode == PERMISSIVE else 2}


@given(st.lists(st.sampled_from([b"ok", b"", b"\xff"]), max_size=300))
def test_any_mixture(payloads: list[bytes]) -> None:
    decoded = lenient.decode(StringCodec(), pa.array(payloads, pa.binary()), ["event"], DROP_MALFORMED)
    assert decoded.batch.column(0).to_pylist() == [p.decode() for p in payloads if p != b"\xff"]
    assert decoded.bad.tolist() == [i for i, p in enumerate(payloads) if p == b"\xff"]


def test_an_error_that_is_not_the_events_fault_is_raised_in_all_modes(make: Callable[[str], Codec]) -> None:
    schema = schema_for("avro", TABLE, name="t", namespace="s")

    class Away:
        def writer_schema(self, encoding_id: int) -> WriterSchema:
            raise ConnectionError("away")

    codec = schema.codec(TABLE, Away())
    for mode in lenient.MODES:
        with pytest.raises(ConnectionError):
            lenient.decode(codec, pa.array([header(0) + b"\0"], pa.binary()), ["id"], mode)


class TestTypes:
    KNOWN = Encodings({0: WriterSchema(type="a.A"), 1: WriterSchema(type="a.B"), 2: WriterSchema(type="a.A")})
    PAYLOADS = pa.array([header(i) for i in (0, 1, 2, 1, 0, 9)] + [b"bare"], pa.binary())

    def test_events_of_other_types_are_passed_over(self) -> None:
        chosen = TypeFilter(self.KNOWN, "a.A", others_are_errors=False).chosen(self.PAYLOADS)
        assert chosen is not None
        # What is unknown, or has no header, is the codec's to judge.
        assert chosen.tolist() == [0, 2, 4, 5, 6]

    def test_or_an_error_where_nobody_has_chosen(self) -> None:
        with pytest.raises(BadEventError, match=r"of type a\.B, and the table's columns are those of a\.A") as caught:
            TypeFilter(self.KNOWN, "a.A", others_are_errors=True).chosen(self.PAYLOADS)
        assert (caught.value.index, caught.value.encoding_id) == (1, 1)

    def test_of_one_type_nothing_is_copied(self) -> None:
        assert TypeFilter(self.KNOWN, "a.A", others_are_errors=True).chosen(self.PAYLOADS.slice(4, 1)) is None
