"""Transactions over several tables: `with pyspark_pravega.transaction(spark, "pravega"): ...`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pyspark_pravega.values import literal, quoted


@dataclass(frozen=True)
class Transaction:
    """A transaction of a session."""

    catalog: str
    """The catalog whose tables it reads and writes."""


@contextmanager
def transaction(
    spark: Any, catalog: str = "pravega", *, query: str | None = None, epoch: int | None = None
) -> Iterator[Transaction]:
    """Make the statements of a block one transaction: all of them are there at its end, or none.

    It is committed when the block ends, and rolled back when that raises something.

    Args:
        spark: the session whose statements are meant, also one of Spark Connect. In foreachBatch it is that of the
            batch, `batch.sparkSession`.
        catalog: the name of the catalog whose tables they read and write.
        query: of which streaming query the block writes a batch, by a name that stays the same; None for none.
        epoch: the batch's number. Of one query each counts once: a block that comes again changes nothing.

    Raises:
        Exception: what Spark raises of a statement. With `PRAVEGA_WRITE_CONFLICT` others have changed what the block
            had read, and it is to be run again.
    """
    arguments = [] if query is None else [f"query => {literal(query)}"]
    arguments += [] if epoch is None else [f"epoch => {int(epoch)}"]
    system = f"{quoted(catalog)}.system"
    # A procedure is called when its statement is analysed. Spark Connect would do that once more for its rows.
    spark.sql(f"CALL {system}.begin({', '.join(arguments)})")
    try:
        yield Transaction(catalog)
    except BaseException:
        # What the block raises tells more than what follows from it.
        with suppress(Exception):
            spark.sql(f"CALL {system}.rollback()")
        raise
    spark.sql(f"CALL {system}.commit()")
