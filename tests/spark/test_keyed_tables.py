"""Tables with keys: what SQL changes in them, compared with a Python dict."""

from __future__ import annotations

import os

import pytest
from keyed_tables import KeyedRun
from pyspark.sql import SparkSession

from pyspark_pravega.client import Client
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark]

FIRST_SEED, RUNS = int(os.environ.get("KEYED_FIRST_SEED", "1")), int(os.environ.get("KEYED_RUNS", "20"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_random_statements_give_what_a_dict_gives(
    spark: SparkSession, client: Client, settings: Settings, namespace: str, seed: int
) -> None:
    run = KeyedRun(spark=spark, client=client, settings=settings, namespace=namespace, seed=seed)
    run.steps(8)
    assert run.in_spark() == run.rows, run.story()
