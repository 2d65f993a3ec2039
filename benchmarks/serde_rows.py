"""Rows to decode and encode: a flat record as of taxi rides, and a nested one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

FLAT = StructType(
    [
        StructField("id", LongType(), False),
        StructField("vendor", StringType(), False),
        StructField("pickup", TimestampType(), False),
        StructField("dropoff", TimestampType(), False),
        StructField("passengers", IntegerType()),
        StructField("distance", DoubleType(), False),
        StructField("rate_code", IntegerType()),
        StructField("stored", BooleanType()),
        StructField("from_zone", IntegerType(), False),
        StructField("to_zone", IntegerType(), False),
        StructField("payment", StringType()),
        StructField("fare", DoubleType(), False),
        StructField("tip", DoubleType()),
        StructField("tolls", DoubleType()),
        StructField("total", DoubleType(), False),
    ]
)
"""Half of its columns may be null, and are in a tenth of the rows."""

NESTED = StructType(
    [
        StructField("id", LongType(), False),
        StructField("customer", StringType(), False),
        StructField(
            "items",
            ArrayType(
                StructType(
                    [
                        StructField("sku", StringType(), False),
                        StructField("count", IntegerType(), False),
                        StructField("price", DoubleType(), False),
                    ]
                ),
                False,
            ),
            False,
        ),
        StructField("attributes", MapType(StringType(), LongType(), False), False),
        StructField("status", StringType()),
        StructField("day", DateType(), False),
        StructField("amount", DecimalType(12, 2), False),
        StructField("at", TimestampType(), False),
    ]
)
"""An array of records, a map, a date, a decimal."""


def flat(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Rides.

    Args:
        rows: how many.
        schema: FLAT's, in Arrow.
    """
    chance = np.random.default_rng(1)
    start = 1_700_000_000_000_000 + np.arange(rows) * 1_000_003
    columns: dict[str, np.ndarray] = {
        "id": np.arange(rows) * 7919,
        "vendor": np.array(["CMT", "VTS", "Ünited Cabs"])[chance.integers(0, 3, rows)],
        "pickup": start,
        "dropoff": start + chance.integers(10**8, 3 * 10**9, rows),
        "passengers": chance.integers(1, 6, rows),
        "distance": chance.integers(1, 3000, rows) / 100,
        "rate_code": chance.integers(1, 7, rows),
        "stored": chance.integers(0, 2, rows).astype(bool),
        "from_zone": chance.integers(1, 265, rows),
        "to_zone": chance.integers(1, 265, rows),
        "payment": np.array(["card", "cash", "no charge"])[chance.integers(0, 3, rows)],
        "fare": chance.integers(300, 9000, rows) / 100,
        "tip": chance.integers(0, 2000, rows) / 100,
        "tolls": chance.integers(0, 1000, rows) / 100,
        "total": chance.integers(300, 12000, rows) / 100,
    }
    arrays = [
        pa.array(columns[field.name], mask=chance.random(rows) < 0.1 if field.nullable else None).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def nested(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Orders.

    Args:
        rows: how many.
        schema: NESTED's, in Arrow.
    """
    orders = [
        {
            "id": i * 31,
            "customer": f"customer {i % 977}",
            "items": [{"sku": f"SKU-{i % 89 + k}", "count": k + 1, "price": (i % 500) / 4} for k in range(i % 4)],
            "attributes": [(f"k{k}", i * k) for k in range(i % 3)],
            "status": None if i % 5 == 0 else ("open", "paid", "shipped")[i % 3],
            "day": 19_000 + i % 1000,
            "at": 1_700_000_000_000_000 + i * 1_000_003,
        }
        for i in range(rows)
    ]
    names = [field.name for field in schema if field.name != "amount"]
    by_name = {name: pa.array([row[name] for row in orders], type=schema.field(name).type) for name in names}
    unscaled = pa.array([i % 100_000 for i in range(rows)], pa.int64()).cast(pa.decimal128(19, 0))
    by_name["amount"] = pa.array([value.as_py().scaleb(-2) for value in unscaled], schema.field("amount").type)
    return pa.RecordBatch.from_arrays([by_name[field.name] for field in schema], schema=schema)
