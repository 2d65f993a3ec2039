"""What SHOW CREATE TABLE prints makes the table that was dropped again: a product of all that CREATE TABLE takes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from since import is_missing

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.values import listed, quoted

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.in_turn(8),
    pytest.mark.skipif(is_missing("4.1"), reason="SQL has keys and constraints since Spark 4.1"),
]

REFUSED = "refused: "
SEEDS = 16
"""So many tables are made of each format in each catalog."""
CATALOGS = ["pravega", "my-lake", "it`s a lake"]
FORMATS = ["avro", "json", "protobuf", "raw", "key-value"]
KEYS = ["none", "one", "two", "routing", "buckets", "partitioned", "several", "pattern"]
NAMES = ["id", "my id", "a,b", "b`q", "it's", 'd"q', "日付", "order", "x.y"]
PLAIN = ["id", "name", "at", "order", "n_2"]
TABLES = ["orders", "select", "my.orders", "1st"]
TEXTS = ["plain", "it's", 'a "word"', "back\\slash", "two\nlines", "; -- /* */", "`tick`", "ü€😀", "100 %", "${v}"]
TYPES = {
    "BOOLEAN": "true",
    "TINYINT": "1Y",
    "SMALLINT": "-7S",
    "INT": "40 + 2",
    "BIGINT": "9223372036854775807",
    "FLOAT": "0.5F",
    "DOUBLE": "1.5E3D",
    "DECIMAL(38,10)": "0.10BD",
    "STRING": "'it\\'s; -- \"new\"'",
    "CHAR(3)": "'abc'",
    "VARCHAR(5)": "'a\\\\b'",
    "BINARY": "X'00FF'",
    "DATE": "DATE'2026-02-28'",
    "TIMESTAMP": "current_timestamp()",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2026-02-28 12:00:00'",
    "INTERVAL DAY TO SECOND": "",
    "INTERVAL HOUR TO MINUTE": "",
    "VARIANT": "",
    "ARRAY<INT>": "array(1, 2)",
    "MAP<STRING, DOUBLE>": "",
    "MAP<INT, STRING>": "",
    "STRUCT<`my part`: INT COMMENT 'it\\'s', b: ARRAY<STRUCT<c: STRING NOT NULL>>>": "",
}
"""A default of each; none where it has no literal that is worth a look."""
KEY_TYPES = ["BIGINT", "STRING", "INT", "DATE", "DECIMAL(10,2)"]
CHECKS = ["CHECK ({0} IS NOT NULL)", "CONSTRAINT `my check` CHECK ({0} IS NOT NULL OR 'it\\'s' = \"x\")"]
OWN = [*((f"my.{number}", text) for number, text in enumerate(TEXTS)), ("it's a.key", "it's"), ('a."key"\\', "")]
"""Properties that are kept as they are."""
OF_EVENTS = [
    ("compression", "gzip"),
    ("mode", "drop-malformed"),
    ("tags", "a, b"),
    ("writer-mode", "at-least-once"),
    ("isolation-level", "snapshot"),
    ("history", "30 days"),
    ("compatibility", "FullTransitive"),
    ("rollover-size", "64 MiB"),
]
WITH_KEY, WITHOUT_KEY = [("compact-when", "64 MiB")], [("retention", "7 days"), ("encoding-header", "false")]


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass
class Table:
    """A CREATE TABLE without the table's name, and what is in it."""

    columns: list[str]
    clauses: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)

    def statement(self, name: str) -> str:
        properties = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in self.properties.items())
        given = [f"TBLPROPERTIES ({properties})"] if properties else []
        return f"CREATE TABLE {name} ({', '.join(self.columns)}) {' '.join([*self.clauses, *given])}"


def table(seed: int, kind: str) -> Table:
    """A table of a format, by chance."""
    dice = random.Random(f"{kind} {seed}")
    names = list(PLAIN if kind == "protobuf" else NAMES)
    dice.shuffle(names)
    kinds = {"key-value": ["one", "two"], "raw": ["none"]}.get(kind, KEYS)
    key = kinds[(seed + 3 * FORMATS.index(kind)) % len(kinds)]
    columns, parts = [], {kind, key}
    types: dict[str, str] = {}
    if kind == "raw":
        columns = ["event BINARY"]
    else:
        names = names[: dice.randrange(3, 6)]
        for place, name in enumerate(names):
            is_key = key != "none" and place < 2
            # So each type comes several times.
            turn = 3 * seed + place + 7 * FORMATS.index(kind)
            of = dice.choice(KEY_TYPES) if is_key else list(TYPES)[turn % len(TYPES)]
            text = f"{quoted(name)} {of}"
            if is_key or dice.random() < 0.2:
                text += " NOT NULL"
            if not is_key and TYPES[of] and dice.random() < 0.4:
                text += f" DEFAULT {TYPES[of]}"
                parts.add("default")
            if dice.random() < 0.4:
                text += f" COMMENT {literal(dice.choice(TEXTS))}"
            columns.append(text)
            types |= {name: of} if is_key else {}
            parts |= {of, name}
    made = Table(columns, parts=parts)
    two = ", ".join(map(quoted, names[:2]))
    if key in ("one", "two"):
        made.columns.append(f"PRIMARY KEY ({quoted(names[0]) if key == 'one' else two}) NOT ENFORCED")
    elif key == "routing":
        made.clauses.append(f"CLUSTER BY ({quoted(names[0])})")
    elif key == "buckets":
        made.clauses.append(f"CLUSTERED BY ({quoted(names[0])}) INTO {dice.randrange(1, 5)} BUCKETS")
    elif key == "partitioned":
        made.clauses.append(f"PARTITIONED BY (bucket({dice.randrange(1, 5)}, {quoted(names[0])}))")
    elif key == "several":
        made.properties["routing-key"] = listed(names[:2])
    elif key == "pattern":
        made.properties["routing-key"] = f"<{{{listed(names[:1])}}}>"
    if kind != "raw" and dice.random() < 0.3:
        made.columns.append(dice.choice(CHECKS).format(quoted(names[0])))
        parts.add("check")
    if dice.random() < 0.5:
        made.clauses.append(f"COMMENT {literal(dice.choice(TEXTS))}")
        parts.add("comment")
    if kind == "key-value":
        long = [name for name in names[: 1 if key == "one" else 2] if types[name] == "STRING"]
        made.properties |= {"table-type": "key-value"}
        made.properties |= {"key-bytes": ",".join(f"{listed([name])}=20" for name in long)} if long else {}
    else:
        made.properties["format"] = kind
    known = list(OWN)
    if kind not in ("key-value", "raw"):
        known += [*OF_EVENTS, *(WITH_KEY if key in ("one", "two") else WITHOUT_KEY)]
    for name, value in dice.sample(known, dice.randrange(4)):
        made.properties[name] = value
        parts.add(name)
    return made


def state(spark: SparkSession, name: str) -> tuple[str, object, dict[str, str]]:
    """What SHOW CREATE TABLE prints, the columns, the properties."""
    ((shown,),) = spark.sql(f"SHOW CREATE TABLE {name}").collect()
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    return shown, spark.table(name).schema, properties


def outcome(spark: SparkSession, case: tuple[str, str, int]) -> tuple[set[str], str | None]:
    """What is in a table that CREATE accepts, and what is wrong with the one that is made again."""
    catalog, kind, seed = case
    made = table(seed, kind)
    name = f"{quoted(catalog)}.made_again.{quoted(f'{TABLES[seed % len(TABLES)]}_{kind}_{seed}')}"
    try:
        spark.sql(made.statement(name))
    except (AnalysisException, ParseException) as error:
        return set(), f"{REFUSED}{str(error)[:200]}"
    try:
        before = state(spark, name)
        spark.sql(f"DROP TABLE {name}")
        spark.sql(before[0])
        after = state(spark, name)
    except Exception as error:
        return made.parts, f"{made.statement(name)}\n{str(error)[:600]}"
    if before != after:
        return made.parts, f"{made.statement(name)}\n{before}\n{after}"
    return made.parts | {catalog}, None


@pytest.fixture
def session(spark: SparkSession, sandbox: Sandbox) -> Iterator[SparkSession]:
    """A session with three names of one catalog, which generates no code."""
    other = spark.newSession()
    for name, value in {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}.items():
        other.conf.set(name, value)
    for catalog in CATALOGS:
        prefix = f"spark.sql.catalog.{catalog}"
        other.conf.set(prefix, "pyspark.pravega.PravegaCatalog")
        other.conf.set(f"{prefix}.controller-uri", sandbox.controller_uri)
        other.conf.set(f"{prefix}.schema-registry-uri", sandbox.schema_registry_uri)
    other.sql("CREATE NAMESPACE pravega.made_again")
    yield other
    other.sql("DROP NAMESPACE pravega.made_again CASCADE")


def test_what_show_create_table_prints_makes_the_table_again(session: SparkSession) -> None:
    cases = [(CATALOGS[seed % len(CATALOGS)], kind, seed) for kind in FORMATS for seed in range(SEEDS)]
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(partial(outcome, session), cases))
    refused = Counter(wrong for _, wrong in outcomes if wrong is not None and wrong.startswith(REFUSED))
    wrong = [text for _, text in outcomes if text is not None and not text.startswith(REFUSED)]
    assert wrong == [], "\n\n".join(wrong)
    parts = Counter(part for some, _ in outcomes for part in some)
    never = {*CATALOGS, *FORMATS, *KEYS, *TYPES, "default", "check", "comment"} - parts.keys()
    assert never == set(), "\n".join(refused)
    assert refused.total() < len(cases) / 2, "\n".join(refused)
