"""What runs where there is no Spark: by stand-ins for its classes, which say the same as these."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import types as sparks
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.spark import arrow, here, plain, types

_SIMPLE = (
    *("BinaryType", "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType"),
    *("DateType", "TimestampType", "TimestampNTZType", "VariantType", "StringType"),
)
BLOCKED = "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None; "
"""As if they weren't installed."""


def columns(of: Any) -> Any:
    """Columns of every type, made of one module's classes."""
    within = of.StructType([of.StructField("x", of.DoubleType(), False), of.StructField("raw", of.BinaryType())])
    kinds = [getattr(of, name)() for name in _SIMPLE]
    kinds += [
        of.DecimalType(),
        of.DecimalType(38, 18),
        of.CharType(3),
        of.VarcharType(4),
        of.TimeType(),
        of.TimeType(3),
    ]
    kinds += [of.DayTimeIntervalType(), of.DayTimeIntervalType(1), of.DayTimeIntervalType(0, 2)]
    kinds += [of.ArrayType(of.LongType()), of.ArrayType(within, False), of.MapType(of.StringType(), within), within]
    kinds += [of.MapType(of.DateType(), of.ArrayType(of.DecimalType(5, 1)), False)]
    made = of.StructType([of.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])
    return made.add("named", "string", False, {"comment": "a name"}).add("last", of.TimestampType(), False)


@pytest.mark.since_spark("4.1")
def test_stand_ins_say_of_themselves_what_sparks_types_say() -> None:
    ours, theirs = columns(plain), columns(sparks)
    for own, other in zip(ours, theirs, strict=True):
        for method in ("simpleString", "jsonValue", "json"):
            assert getattr(own, method)() == getattr(other, method)()
        assert own.dataType.typeName() == other.dataType.typeName()
        assert type(own.dataType).__name__ == type(other.dataType).__name__
        assert str(own) == str(other)
    assert ours.json() == theirs.json()
    assert ours.simpleString() == theirs.simpleString()
    assert (ours.names, ours.fieldNames(), len(ours)) == (theirs.names, theirs.fieldNames(), len(theirs))


@pytest.mark.since_spark("4.1")
def test_stand_ins_are_read_from_sparks_json() -> None:
    text = columns(sparks).json()
    again = plain.StructType.fromJson(json.loads(text))
    assert again == columns(plain)
    assert hash(again) == hash(columns(plain))
    assert again.json() == text
    with pytest.raises(ValueError, match="type geometry"):
        plain.of_json("geometry(4326)")


def test_columns_are_found_by_name_and_place() -> None:
    ours = columns(plain)
    assert ours["named"].metadata == {"comment": "a name"}
    assert ours[0].name == "c0"
    assert ours[-2:].names == ["named", "last"]
    with pytest.raises(KeyError):
        ours["nowhere"]


@pytest.mark.since_spark("4.1")
def test_types_differ_where_sparks_do() -> None:
    def kinds(of: Any) -> list[Any]:
        made = [getattr(of, name)() for name in _SIMPLE]
        made += [of.DecimalType(5, 1), of.DecimalType(5, 2), of.CharType(3), of.VarcharType(3), of.TimeType(3)]
        return [*made, of.ArrayType(of.LongType()), of.ArrayType(of.LongType(), False)]

    def equal(of: Any) -> list[list[bool]]:
        return [[one == other for other in kinds(of)] for one in kinds(of)]

    assert equal(plain) == equal(sparks)


@pytest.mark.since_spark("4.2")
def test_arrow_has_the_same_types_for_them() -> None:
    def arrow_ones(of: Any) -> Any:
        return of.StructType(
            [one for one in columns(of) if type(one.dataType).__name__ not in ("CharType", "VarcharType")]
        )

    ours = arrow.to_arrow_schema(arrow_ones(plain), timezone="UTC")
    assert ours.equals(to_arrow_schema(arrow_ones(sparks), timezone="UTC"), check_metadata=True)
    assert isinstance(ours, pa.Schema)
    with pytest.raises(arrow.NoArrowTypeError):
        arrow.to_arrow_schema(sparks.StructType().add("c", sparks.CharType(3)))


@pytest.mark.since_spark("4.1")
def test_each_of_sparks_types_that_is_used_has_a_stand_in() -> None:
    for name in types.__all__:
        assert getattr(types, name) is getattr(sparks, name)
        assert getattr(plain, name).__name__ == name


@pytest.mark.parametrize(
    "module",
    ["client", "registry", "sandbox", "serde.formats", "connector.datasource", "live.commands"]
    + [
        f"sql.{name}"
        for name in (
            "commands",
            "doctor",
            "checkpoints.lag",
            "streams",
            "rows",
            "pack",
            "servers.server",
            "completion",
            "tables",
            "tier",
        )
    ],
)
def test_a_module_is_loaded_without_spark(module: str) -> None:
    program = f"{BLOCKED}import pyspark_pravega.{module}"
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def spark_in(folder: Path, version: str, package: Path) -> Path:
    """A folder with what is looked for of a Spark."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "spark-submit").touch()
    package.mkdir(parents=True, exist_ok=True)
    (package / "version.py").write_text(f'# a licence\n__version__: str = "{version}"\n')
    return folder


def test_the_spark_of_this_python_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else the one around its pyspark, else the one of SPARK_HOME."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = here.find()
    assert found is not None
    assert found.version == pyspark.__version__
    package = tmp_path / "unpacked" / "python" / "pyspark"
    unpacked = spark_in(tmp_path / "unpacked", "4.1.4", package)
    monkeypatch.setattr(here, "_package", lambda: package)
    assert here.find() == here.Spark(unpacked, "4.1.4")
    monkeypatch.setattr(here, "_package", lambda: None)
    assert here.find() is None
    home = spark_in(tmp_path / "home", "4.0.2", tmp_path / "home" / "python" / "pyspark")
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert here.needed("sql") == here.Spark(home, "4.0.2")
    assert here.needed("sql").program("spark-sql") == f"{home}/bin/spark-sql"


def test_what_is_missing_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "_package", lambda: None)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(
        ConfigurationError, match=r"^it needs Spark, .*: pip install 'pyspark-pravega\[spark\]', or act"
    ):
        here.needed("it")


ROUND_TRIP = """
import base64, datetime, decimal, json
import pyarrow as pa
from pyspark_pravega.serde.formats import schema_for
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.types import *
from pyspark_pravega.sql.rows import _NoEncodings

columns = StructType()
kinds = dict(b=BooleanType(), i=IntegerType(), l=LongType(), d=DoubleType(), n=DecimalType(10, 2), s=StringType())
kinds |= dict(r=BinaryType(), y=DateType(), t=TimestampType(), z=TimestampNTZType(), c=TimeType())
kinds |= dict(a=ArrayType(StringType()), m=MapType(StringType(), IntegerType()))
kinds |= dict(x=StructType([StructField("f", FloatType()), StructField("g", ShortType(), False)]))
for name, kind in kinds.items():
    columns.add(name, kind, True, {"comment": name})
now = datetime.datetime(2026, 1, 2, 3, 4, 5)
row = dict(b=True, i=1, l=2, d=1.5, n=decimal.Decimal("12.50"), s="ann", r=b"\\x00\\xff", y=now.date(), t=now, z=now)
row |= dict(c=now.time(), a=["p", "q"], m=[("k", 3)], x={"f": 0.5, "g": 7})
rows = pa.RecordBatch.from_pylist([row, dict.fromkeys(row)], schema=to_arrow_schema(columns, timezone="UTC"))
for name in ("avro", "json", "protobuf"):
    schema = schema_for(name, columns, name="t", namespace="shop")
    print(name, base64.b64encode(schema.data), schema.columns().json())
    codec = schema.codec(columns, _NoEncodings(), header=False)
    events = codec.encode(rows)
    print(events.to_pylist(), codec.decode(events, columns.fieldNames()).to_pylist())
"""


@pytest.mark.since_spark("4.1")
@pytest.mark.parametrize("native", ["0", "1"])
def test_formats_are_the_same_without_spark(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PRAVEGA_NATIVE", native)
    said = []
    for before in ("", BLOCKED):
        command = [sys.executable, "-W", "ignore", "-c", before + ROUND_TRIP]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        said.append(ran.stdout)
    assert said[0].count("ann") >= 6
    assert said[0] == said[1]
