"""Makes pictures of the live page (`make screenshots`), before real servers and a real query.

Those of docs/operating.md go to `docs/images`. Each view, wide and narrow, light and dark, goes whole to
`build/screens`, to be looked at.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from browser_tools import MISSING, Browser, browser, browser_is_there
from PIL import Image
from pyspark.sql import SparkSession

import pyspark_pravega
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.errors import TableChangedError
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.checkpoints import Folder

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SCREENS = Path(__file__).parents[2] / "build" / "screens"
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
MOST_BYTES, MOST_HIGH = 150_000, 5_000
TABLES = {
    "orders": ("id BIGINT NOT NULL, customer STRING, amount DECIMAL(10,2), at TIMESTAMP", 2, "300 KB"),
    "payments": ("id BIGINT NOT NULL, customer STRING, amount DECIMAL(10,2), at TIMESTAMP", 4, "7 days"),
    "returns": ("id BIGINT NOT NULL, customer STRING, amount DECIMAL(10,2), at TIMESTAMP", 1, "30 days"),
    "large_orders": ("id BIGINT NOT NULL, customer STRING, amount DECIMAL(10,2), at TIMESTAMP", 2, "30 days"),
}
RAW = {"clicks": 6, "visits": 3, "audit": 1, "sensor_readings": 8, "shipments": 2}
NAMES = ["ann", "bob", "chen", "dora", "emil", "fatima", "gus", "hana"]


def rows(number: int, count: int, columns: Sequence[str]) -> pa.RecordBatch:
    """Orders as a shop may have them, with these columns."""
    dice = random.Random(number)
    cents = [dice.randrange(100, 20_000) for _ in range(count)]
    known = {
        "id": pa.array(range(number, number + count), pa.int64()),
        "customer": pa.array([dice.choice(NAMES) for _ in range(count)]),
        "amount": pa.array([f"{cent / 100:.2f}" for cent in cents]).cast(pa.decimal128(10, 2)),
        "at": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", "UTC")),
        "coupon": pa.array([dice.choice(["SPRING", "WELCOME", None, None]) for _ in range(count)]),
    }
    return pa.record_batch({column: known[column] for column in columns})


@contextmanager
def shop(catalog: Catalog, client: Client) -> Iterator[None]:
    """Rows and events that come meanwhile, some of them fast.

    Raises:
        RuntimeError: one of the writers has failed, so that the pictures show streams to which nobody writes.
    """
    ended = threading.Event()
    failures: list[Exception] = []

    def insert(table: str, count: int, pause_s: float) -> None:
        number = 0
        while not ended.wait(pause_s * random.uniform(0.5, 1.5)):
            definition = catalog.definition(Stream("shop", table), age_s=0)
            job = WriteJob(WritePlan.of(definition, WriteOptions()))
            some = max(1, round(count * random.uniform(0.3, 1.6)))
            try:
                job.commit_job([job.write_partition(0, iter([rows(number, some, definition.schema.fieldNames())]))])
            except TableChangedError:
                continue
            number += some

    def change(table: str, pause_s: float) -> None:
        definition, number = catalog.definition(Stream("shop", table), age_s=0), 0
        while not ended.wait(pause_s):
            # Some are there, some are new.
            batch = rows(number, 6, definition.schema.fieldNames())
            job = WriteJob(WritePlan.of(definition, WriteOptions()))
            job.commit_job([job.write_partition(0, iter([batch]))])
            number += 3

    def click(stream: Stream, rate: int) -> None:
        with client.writer(stream) as writer:
            while not ended.wait(0.2):
                keys = [str(random.randrange(10_000)) for _ in range(round(rate * random.uniform(0.1, 0.4)))]
                writer.write_batch([b"." * random.randrange(40, 400) for _ in keys], keys)
                writer.flush()

    def watched(write: Callable[..., None], *arguments: object) -> None:
        try:
            write(*arguments)
        except Exception as error:  # raised where the pictures are made
            failures.append(error)

    workers = [
        threading.Thread(target=watched, args=(insert, "orders", 900, 1.0)),
        threading.Thread(target=watched, args=(insert, "payments", 150, 3.0)),
        threading.Thread(target=watched, args=(insert, "returns", 5, 8.0)),
        threading.Thread(target=watched, args=(change, "invoices", 4.0)),
        *(
            threading.Thread(target=watched, args=(click, Stream("shop", name.replace("_", "-")), 40 * segments))
            for name, segments in RAW.items()
        ),
    ]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    if failures:
        raise RuntimeError(f"a writer has failed: {failures[0]}") from failures[0]


def take(window: Browser, name: str) -> None:
    """Store what the window shows; with 256 colours where it would be too large."""
    file = IMAGES / f"{name}.png"
    window.picture(file)
    with Image.open(file) as whole:
        picture = whole.convert("RGB")
    picture.save(file, optimize=True)
    if file.stat().st_size >= MOST_BYTES:
        picture.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file}: {size:,} bytes")
    assert size < MOST_BYTES, f"{file} is larger than {MOST_BYTES:,} bytes"


def show(window: Browser, view: str, selector: str) -> None:
    """Go to a view, and wait until it shows something.

    Args:
        window: the browser's.
        view: its address behind the `#`.
        selector: what is there then.
    """
    window.run("location.hash = arguments[0]", f"#/{view}")
    window.wait(f"{selector} in {view}", "return document.querySelector(arguments[0])", selector)


def everywhere(window: Browser, name: str) -> None:
    """Store the whole view that the window shows, on each kind of screen; nothing may stand beyond its edge."""
    for theme in ("light", "dark"):
        window.emulate(prefers_color_scheme=theme)
        for screen, (width, height) in WIDTHS.items():
            window.viewport(width, height)
            time.sleep(0.5)
            high = int(window.run("return document.documentElement.scrollHeight"))
            window.viewport(width, min(max(high, height), MOST_HIGH))
            # Charts and samples are drawn anew.
            time.sleep(1.5)
            file = SCREENS / f"{name}-{screen}-{theme}.png"
            window.picture(file)
            wide = window.run("return document.documentElement.scrollWidth")
            assert wide <= width, f"{file}: {wide} pixels wide, {width} have room"
    window.emulate(prefers_color_scheme="light")
    window.viewport(*WIDTHS["desktop"])


def all_views(window: Browser) -> None:
    """Store each view on each kind of screen; of the stream `shop.orders` it shows already what came."""
    views = {
        "streams": ("", "tr.line"),
        "stream": ("stream/shop/orders", ".versions tbody tr"),
        "letters": ("stream/shop/orders_bad", ".rows tbody tr"),
        "raw": ("stream/shop/clicks", ".rows tbody tr"),
        "unknown": ("stream/shop/order", "#error:not([hidden])"),
        "queries": ("queries", ".lag"),
        "health": ("health", ".sign.good, .sign.warn, .sign.bad"),
        "namespaces": ("namespaces", "tbody tr"),
        "key-value": ("key-value/shop/stock", ".rows tbody tr"),
    }
    SCREENS.mkdir(parents=True, exist_ok=True)
    for name, (view, selector) in views.items():
        show(window, view, selector)
        time.sleep(4)
        everywhere(window, name)
    show(window, "stream/shop/invoices", "button.link")
    window.wait("the table", "return document.querySelector('h1').textContent === 'shop.invoices'")
    window.click("button.link")
    window.wait("its changes", "return document.querySelectorAll('.changed tbody tr').length > 0")
    time.sleep(4)
    everywhere(window, "changes")


def main() -> int:
    """Make all pictures; 1 where there is no browser."""
    if not browser_is_there():
        print(MISSING, file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, Sandbox(timeout_s=600) as sandbox:
        folder = Path(temporary)
        settings = Settings.resolve(environ=sandbox.environment())
        client, catalog = shared_client(settings), Catalog(settings)
        builder = pyspark_pravega.configure(
            SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false"),
            controller=settings.controller_uri,
            schema_registry=settings.schema_registry_uri,
        )
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql("CREATE NAMESPACE pravega.shop")
        for table, (columns, segments, retention) in TABLES.items():
            spark.sql(
                f"CREATE TABLE pravega.shop.{table} ({columns}) CLUSTERED BY (customer) INTO {segments} BUCKETS "
                f"TBLPROPERTIES ('retention' = '{retention}')"
            )
        spark.sql(
            "CREATE TABLE pravega.shop.invoices (id BIGINT NOT NULL, customer STRING, amount DECIMAL(10,2)) "
            "TBLPROPERTIES ('primary-key' = 'id')"
        )
        spark.sql(
            "CREATE TABLE pravega.shop.orders_bad (source STRING NOT NULL, segment BIGINT NOT NULL, "
            "offset BIGINT NOT NULL, encoding_id INT, reason STRING, event BINARY, at TIMESTAMP, "
            "PRIMARY KEY (source, segment, offset) NOT ENFORCED)"
        )
        spark.sql("ALTER TABLE pravega.shop.orders SET TBLPROPERTIES ('bad-events' = 'shop.orders_bad')")
        spark.sql(
            "INSERT INTO pravega.shop.orders_bad SELECT 'shop/orders', 0, 100 * id, NULL, 'it ends within a value', "
            "X'7B', now() - INTERVAL 7 MINUTES FROM range(12)"
        )
        for table, segments in RAW.items():
            properties = f"TBLPROPERTIES ('format' = 'raw', 'segments' = '{segments}')"
            spark.sql(f"CREATE TABLE pravega.shop.{table} (event BINARY) {properties}")
        spark.sql(
            "CREATE TABLE pravega.shop.stock "
            "(shop INT, item STRING, pieces BIGINT, PRIMARY KEY (shop, item) NOT ENFORCED) "
            "CLUSTERED BY (shop) INTO 4 BUCKETS TBLPROPERTIES ('table-type' = 'key-value')"
        )
        spark.sql(
            "INSERT INTO pravega.shop.stock SELECT CAST(shop AS INT), item, 17 * shop FROM range(1, 6) AS t(shop), "
            "(VALUES ('nuts'), ('bolts'), ('washers'), ('screws')) AS u(item)"
        )
        orders = Stream("shop", "orders")
        with (
            shop(catalog, client),
            LiveServer(Answers(settings, [Folder.parse(str(folder / "checkpoints"))])) as server,
        ):
            (folder / "checkpoints").mkdir()
            query = (
                spark.readStream.option("subscriber", "large-orders")
                .table("pravega.shop.orders")
                .where("amount > 150")
                .writeStream.option("checkpointLocation", str(folder / "checkpoints" / "large_orders"))
                .trigger(processingTime="4 seconds")
                .toTable("pravega.shop.large_orders")
            )
            with browser(folder / "profile", width=1280, height=900) as window:
                window.viewport(1280, 560)
                window.open(f"{server.url}#/stream/{orders}")
                time.sleep(12)
                client.controller.scale_to(orders, 4)
                spark.sql("ALTER TABLE pravega.shop.orders ADD COLUMNS (coupon STRING)")
                time.sleep(12)
                client.controller.scale_to(orders, 6)
                time.sleep(12)
                client.controller.scale_to(orders, 3)
                time.sleep(10)
                window.viewport(1280, 910)
                time.sleep(3)
                take(window, "stream")
                window.run("document.querySelector('section[aria-label=\"Last rows\"]').scrollIntoView()")
                window.viewport(1280, 1000)
                time.sleep(2)
                take(window, "rows")
                window.run("location.hash = '#/stream/shop/invoices'")
                window.wait("the table", "return document.querySelector('h1').textContent === 'shop.invoices'")
                window.wait("a commit", "return document.querySelectorAll('button.link').length > 2")
                window.click("button.link")
                window.wait("its changes", "return document.querySelectorAll('.changed tbody tr').length > 0")
                # What stands above it comes by and by.
                time.sleep(6)
                window.run("document.querySelector('.changed').closest('.panel').scrollIntoView({ block: 'end' })")
                time.sleep(2)
                take(window, "changes")
                window.viewport(1280, 480)
                window.open(f"{server.url}#/")
                window.run("location.hash = '#/'")
                time.sleep(2)
                window.run("document.querySelector('[data-column=bytes_in] button').click()")
                time.sleep(20)
                take(window, "streams")
                window.viewport(1280, 690)
                window.run("location.hash = '#/health'")
                time.sleep(4)
                take(window, "health")
                window.emulate(prefers_color_scheme="dark")
                window.viewport(1280, 460)
                window.run("location.hash = '#/queries'")
                time.sleep(15)
                take(window, "queries")
                window.emulate(prefers_color_scheme="light")
                window.viewport(390, 844)
                window.run("location.hash = '#/'")
                time.sleep(4)
                take(window, "phone")
                spark.sql("CALL pravega.system.create_cut(table => 'shop.orders', name => 'month_end')")
                all_views(window)
                query.stop()
                show(window, "health", ".sign")
                time.sleep(90)  # so long a query may be silent
                show(window, "health", "ul.alerts li")
                everywhere(window, "alerts")
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
