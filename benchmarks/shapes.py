"""What Spark has planned for a query, in four numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Shape:
    """What a query's plan has."""

    scans: int
    exchanges: int
    reused: int
    """Exchanges that are taken again."""
    broadcasts: int
    """Joins of which one side is broadcast."""

    def __str__(self) -> str:
        return "/".join(str(number) for number in astuple(self))


def shape(frame: DataFrame) -> Shape:
    """How Spark has run a query.

    Args:
        frame: it has been run.
    """
    counts: Counter[str] = Counter()
    _count(frame._jdf.queryExecution().executedPlan(), counts)
    return Shape(
        scans=counts["BatchScanExec"] + counts["FileSourceScanExec"],
        exchanges=counts["ShuffleExchangeExec"] + counts["BroadcastExchangeExec"],
        reused=counts["ReusedExchangeExec"],
        broadcasts=counts["BroadcastHashJoinExec"] + counts["BroadcastNestedLoopJoinExec"],
    )


def _count(node: Any, counts: Counter[str]) -> None:
    """Count the operators of a plan by their classes; what is taken again once."""
    kind = str(node.getClass().getSimpleName())
    counts[kind] += 1
    if kind.startswith("Reused"):
        return
    below = [node.subqueries(), node.children()]
    inner = [of_list.apply(at) for of_list in below for at in range(of_list.size())]
    if kind == "AdaptiveSparkPlanExec":
        inner = [node.executedPlan()]
    elif kind.endswith("QueryStageExec"):
        inner = [node.plan()]
    for one in inner:
        _count(one, counts)
