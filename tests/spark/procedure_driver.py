"""Procedures that Spark does a part of, driven as the JVM does it, and dying in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.statements import Caller, Statement
from pyspark_pravega.connector.log import Copy, CopyLog, Redelivery, RedeliveryLog


class DeathError(Exception):
    """What a test does in place of a driver's death."""


class Driver:
    """Calls a procedure, and dies after some steps: statements that were run, and notes in the log."""

    def __init__(self, spark: SparkSession, catalog: Catalog, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._spark, self._catalog, self._name, self._left = spark, catalog, name, 0
        put_copy, put_redelivery = CopyLog.put, RedeliveryLog.put

        def note_copy(log: CopyLog, copy: Copy) -> Copy:
            self._step()
            return put_copy(log, copy)

        def note_redelivery(log: RedeliveryLog, redelivery: Redelivery) -> None:
            self._step()
            put_redelivery(log, redelivery)

        monkeypatch.setattr(CopyLog, "put", note_copy)
        monkeypatch.setattr(RedeliveryLog, "put", note_redelivery)

    def run(self, arguments: list[Any], *, steps: int) -> list[Any]:
        """Until its end, or its death.

        Args:
            arguments: the procedure's.
            steps: after how many it dies.
        """
        self._left = steps
        caller = Caller(catalog="pravega")
        while isinstance(step := self._catalog.procedures.step(caller, self._name, arguments), Statement):
            rows = []
            if step.kind == "run":
                self._step()
                self._spark.sql(step.text)
                self._step()
            elif step.kind == "fetch":
                rows = [row.asDict() for row in self._spark.sql(step.text).collect()]
            caller = Caller(catalog="pravega", after=json.loads(json.dumps(step.after)), rows=rows)
        assert isinstance(step, list)
        (row,) = step
        return row

    def _step(self) -> None:
        if not self._left:
            raise DeathError
        self._left -= 1
