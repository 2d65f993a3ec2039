"""A statement whose tasks wait until something else has happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType


class Pause:
    """Lets a query wait in its task."""

    def __init__(self, folder: Path) -> None:
        self._started, self._go = folder / "started", folder / "go"

    def register(self, session: SparkSession) -> None:
        """Make it the function `paused`; and `held`, for where Spark wants deterministic ones."""
        started, go = str(self._started), str(self._go)

        def wait(value: int) -> int:
            Path(started).touch()
            while not Path(go).exists():
                time.sleep(0.01)
            return value

        session.udf.register("paused", udf(wait, LongType(), useArrow=False).asNondeterministic())
        session.udf.register("held", udf(wait, LongType(), useArrow=False))

    def around(
        self, pool: ThreadPoolExecutor, statement: Callable[[], object], meanwhile: Callable[[], object]
    ) -> None:
        """Run a statement, and another one while its tasks wait; raises what the first one raises."""
        running = pool.submit(statement)
        while not self._started.exists() and not running.done():
            time.sleep(0.01)
        try:
            meanwhile()
        finally:
            self._go.touch()
        running.result()
