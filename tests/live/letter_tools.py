"""Tables of dead letters, without a query that writes them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
from catalog_tools import plan

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.write import WriteJob, dead_letters
from pyspark_pravega.spark.arrow import to_arrow_schema


def make_letters(catalog: Catalog, scope: str) -> Stream:
    """A table `letters` for dead letters."""
    key = {"primary-key": ",".join(dead_letters.KEY)}
    return catalog.tables.create([scope], "letters", dead_letters.COLUMNS, [], key).stream


def write_letters(catalog: Catalog, letters: Stream, source: Stream, at: datetime, *offsets: int) -> None:
    """Letters of a source, each as many seconds behind a moment as its offset says; one commit."""
    content = {
        "source": [str(source)] * len(offsets),
        "segment": [0] * len(offsets),
        "offset": list(offsets),
        "encoding_id": [None] * len(offsets),
        "reason": ["a test"] * len(offsets),
        "event": [b"{"] * len(offsets),
        "at": [at + timedelta(seconds=offset) for offset in offsets],
    }
    definition = catalog.definition(letters, age_s=0)
    schema = to_arrow_schema(definition.schema, timezone="UTC")
    job = WriteJob(plan(definition))
    job.commit_job([job.write_partition(0, iter([pa.RecordBatch.from_pydict(content, schema=schema)]))])
