"""The example of docs/formats.md does what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.serde.custom import CustomCodec

DOCS = Path(__file__).parent.parent.parent / "docs" / "formats.md"


def test_a_format_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n# shop_formats.py\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "shop_formats.py").write_text(example)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = StructType([StructField("id", LongType(), False), StructField("name", StringType())])
    codec = CustomCodec("shop_formats:Pairs", table, {"pairs.separator": "|"})
    rows: list[dict[str, Any]] = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    events = codec.encode(pa.RecordBatch.from_pylist(rows, schema=codec.schema))
    assert events.to_pylist() == [b"id=1|name=a", b"id=2"]
    assert codec.decode(events, ["id", "name"]).to_pylist() == rows
