"""TPC-DS: its tables, and its 103 queries, which are read from the jar of Spark's own tests: none is kept here.

A scale of 0.01 is the least that the generator has: a smaller one gives the same rows.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path

from benchmarks.suites import Suite, bundle, run_generator
from pyspark_pravega.sandbox import fetch

JARS = bundle("tpcds")
"""Trino's generator, and the jar of Spark's tests."""
KEYS = {
    "call_center": "cc_call_center_sk",
    "catalog_page": "cp_catalog_page_sk",
    "catalog_returns": "cr_item_sk, cr_order_number",
    "catalog_sales": "cs_item_sk, cs_order_number",
    "customer": "c_customer_sk",
    "customer_address": "ca_address_sk",
    "customer_demographics": "cd_demo_sk",
    "date_dim": "d_date_sk",
    "household_demographics": "hd_demo_sk",
    "income_band": "ib_income_band_sk",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
    "item": "i_item_sk",
    "promotion": "p_promo_sk",
    "reason": "r_reason_sk",
    "ship_mode": "sm_ship_mode_sk",
    "store": "s_store_sk",
    "store_returns": "sr_item_sk, sr_ticket_number",
    "store_sales": "ss_item_sk, ss_ticket_number",
    "time_dim": "t_time_sk",
    "warehouse": "w_warehouse_sk",
    "web_page": "wp_web_page_sk",
    "web_returns": "wr_item_sk, wr_order_number",
    "web_sales": "ws_item_sk, ws_order_number",
    "web_site": "web_site_sk",
}
"""Each table's primary key."""


def generate(folder: Path, scale: float, tables: Collection[str]) -> dict[str, str]:
    """Write tables' rows, as `Suite.generate` says; the generator knows their columns.

    Args:
        folder: where to; it is there.
        scale: 1 is a gigabyte.
        tables: which.

    Returns:
        Each table's columns, as SQL declares them.
    """
    lines = run_generator(JARS, "TpcdsTables.java", folder, scale, tables).splitlines()
    return dict(line.split("|") for line in lines)


def queries() -> dict[str, str]:
    """The queries' texts, the same for each scale.

    Returns:
        Each query by its name: `q1` to `q99`; of four there are two, as `q14a` and `q14b`.
    """
    (jar,) = fetch(JARS).glob("spark-sql_*-tests.jar")
    with zipfile.ZipFile(jar) as archive:
        paths = [Path(name) for name in archive.namelist() if Path(name).match("tpcds/*.sql")]
        texts = {path.stem: archive.read(str(path)).decode() for path in paths}
    return {name: texts[name] for name in sorted(texts, key=lambda name: (int(name[1:].rstrip("ab")), name))}


SUITE = Suite(title="TPC-DS", keys=KEYS, queries=lambda _: queries(), generate=generate)
