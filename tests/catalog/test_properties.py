"""CREATE TABLE is checked before anything is made."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.catalog.ddl import Bucket, ClusterBy, OtherTransform, Transform
from pyspark_pravega.catalog.properties import TableRequest, check_request, known_properties, property_name
from pyspark_pravega.catalog.statements.key_values import is_key_value_request
from pyspark_pravega.catalog.stream_properties import MAX_SEGMENTS, STREAM_PROPERTIES
from pyspark_pravega.connector.key_value import KEY_VALUE_PROPERTIES
from pyspark_pravega.connector.log import History
from pyspark_pravega.connector.table import OWN_PROPERTIES, Check, TableProperties
from pyspark_pravega.connector.write.routing import Routing
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidNameError,
    PravegaError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)

COLUMNS = StructType([StructField("id", LongType()), StructField("Name", StringType())])
EVENT = StructType([StructField("event", BinaryType())])


def bucket(column: str, buckets: int) -> Bucket:
    return Bucket(columns=(column,), buckets=buckets)


def check(
    properties: dict[str, str] | None = None, *transforms: Transform, schema: StructType = COLUMNS
) -> TableRequest:
    return check_request(schema, transforms, properties or {}, (), lambda _: True)


def test_a_table_without_properties_is_avro_in_one_segment() -> None:
    request = check()
    assert (request.format, request.compatibility, request.properties) == ("avro", "Backward", {"format": "avro"})
    assert request.configuration.scaling.min_segments == 1
    assert request.schema == COLUMNS


def test_clustered_by_makes_a_column_the_routing_key_and_buckets_segments() -> None:
    request = check(None, bucket("id", 4))
    assert request.properties["routing-key"] == "id"
    assert request.configuration.scaling.min_segments == 4


def test_cluster_by_makes_a_column_the_routing_key_and_leaves_segments() -> None:
    request = check({"segments": "3"}, ClusterBy(columns=("id",)))
    assert request.properties["routing-key"] == "id"
    assert request.configuration.scaling.min_segments == 3
    for names in ('["id"]', '[["id"]]'):
        assert check({"__clustering_columns": names}).properties == check({"routing-key": "id"}).properties


def test_properties_do_the_same_as_the_clause() -> None:
    request = check({"segments": "4", "routing_key": "id"})
    assert request.properties == check(None, bucket("id", 4)).properties
    assert request.configuration == check(None, bucket("id", 4)).configuration


def test_a_routing_key_is_kept_in_the_column_s_own_spelling() -> None:
    assert check({"routing-key": "NAME"}).properties["routing-key"] == "Name"
    assert check(None, bucket("name", 2)).properties["routing-key"] == "Name"


def test_properties_of_others_are_kept() -> None:
    kept = check({"team.owner": "us", "comment": "all of it", "owner": "me"}).properties
    assert kept == {"format": "avro", "team.owner": "us", "comment": "all of it", "owner": "me"}


def test_what_spark_adds_by_itself_is_passed_over() -> None:
    added = {"provider": "pravega", "is_managed_location": "true", "external": "false", "option.timeout": "9"}
    assert check(added) == check()


def test_options_of_create_table_are_its_properties() -> None:
    assert check({"option.segments": "3", "option.team.owner": "us"}) == check({"segments": "3", "team.owner": "us"})
    assert check({"option.segments": "3", "segments": "2"}) == check({"segments": "2"})
    with pytest.raises(ConfigurationError, match='unknown table property "segmets"; did you mean "segments"'):
        check({"option.segmets": "3"})


@pytest.mark.parametrize("compatibility", ["AllowAny", "FullTransitive", "Backward"])
def test_a_compatibility_is_taken_as_it_is(compatibility: str) -> None:
    assert check({"compatibility": compatibility}).compatibility == compatibility
    for spelled in (compatibility.upper(), compatibility.lower(), re.sub("(?<=[a-z])(?=[A-Z])", "_", compatibility)):
        assert check({"compatibility": spelled}).compatibility == compatibility


@pytest.mark.parametrize("name", sorted(OWN_PROPERTIES | STREAM_PROPERTIES | KEY_VALUE_PROPERTIES))
def test_a_property_is_written_in_camel_case_too(name: str) -> None:
    own = KEY_VALUE_PROPERTIES if name in KEY_VALUE_PROPERTIES else OWN_PROPERTIES | STREAM_PROPERTIES
    first, *words = name.split("-")
    for spelled in (name, first + "".join(map(str.title, words)), name.replace("-", "_"), name.replace("-", ".")):
        assert known_properties({spelled: "x"}, own) == {name: "x"}
        assert property_name(spelled, own) == name
    assert is_key_value_request({"tableType": "key-value"})
    assert is_key_value_request({"option.table_type": "key-value"})


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper": str.upper,
    "title": str.title,
    "spaces": "  {} ".format,
    "tabs": "\t{}\n".format,
}
CHOICES = [
    (name, choice)
    for name, one in TableProperties.declared().items()
    for choice in re.findall(r"`([A-Za-z-]+)`", one.value)
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("name", "choice"), CHOICES)
def test_a_spelling_that_is_taken_is_kept_in_one_form(name: str, choice: str, spelling: str) -> None:
    one, given = TableProperties.declared()[name], SPELLINGS[spelling](choice)
    try:
        value = one.parse(name, given)
    except ConfigurationError:
        assert spelling != "plain"
        return
    kept = TableProperties({name: given}).spelled()[name]
    assert (one.parse(name, kept), one.spell(kept)) == (value, kept)
    if value == one.parse(name, choice):
        assert kept == one.spell(choice)


@pytest.mark.parametrize("value", ["raw", "RAW"])
def test_a_raw_table_has_one_column_of_bytes(value: str) -> None:
    assert check({"format": value}, schema=EVENT).properties["format"] == "raw"


@pytest.mark.parametrize(
    "kind", [StringType(), LongType(), BooleanType(), DateType(), TimestampType(), DecimalType(10, 2)]
)
def test_a_routing_key_may_be_of_any_type_with_one_text(kind: Any) -> None:
    assert check({"routing-key": "k"}, schema=StructType([StructField("k", kind)])).properties["routing-key"] == "k"


@pytest.mark.parametrize(
    ("given", "versions", "milliseconds"),
    [("100", 100, None), ("1000000", 1_000_000, None), ("90 Days", None, 7_776_000_000), ("36h", None, 129_600_000)],
)
def test_history_is_a_number_of_versions_or_a_time(given: str, versions: int | None, milliseconds: int | None) -> None:
    kept = check({"history": given}).properties["history"]
    assert History.parse(kept) == History(versions=versions, milliseconds=milliseconds)


def test_of_a_constraint_of_a_later_release_the_known_members_are_read() -> None:
    later = TableProperties({"_checks": '[{"name": "c", "condition": "id > 0", "since": 3}]'})
    assert later.checks == (Check(name="c", condition="id > 0"),)


REFUSED: list[tuple[dict[str, str], list[Transform], StructType, type[PravegaError], str]] = [
    ({"format": "jason"}, [], COLUMNS, ConfigurationError, 'not "jason"; did you mean "json"?'),
    ({"format": "string"}, [], COLUMNS, ConfigurationError, "exactly one column, event STRING"),
    ({"format": "raw", "compression": "gzip"}, [], EVENT, ConfigurationError, "not for raw"),
    ({"compression": "lz4"}, [], COLUMNS, ConfigurationError, "one of gzip, none, snappy"),
    ({"encoding-header": "false"}, [], COLUMNS, ConfigurationError, "Avro events need their header"),
    (
        {"format": "json", "encoding-header": "false", "compression": "gzip"},
        [],
        COLUMNS,
        ConfigurationError,
        "compressed events need their header",
    ),
    ({"format": "json", "compatibility": "Full"}, [], COLUMNS, ConfigurationError, "for format json"),
    ({"format": "raw"}, [], COLUMNS, ConfigurationError, "exactly one column, event BINARY"),
    (
        {"format": "raw"}, [], StructType([StructField("event", StringType())]),
        ConfigurationError, "exactly one column, event BINARY",
    ),
    ({"segments": "0"}, [], COLUMNS, ConfigurationError, f'from 1 to {MAX_SEGMENTS}, not "0"'),
    ({"segments": "10001"}, [], COLUMNS, ConfigurationError, 'not "10001"'),
    ({"segments": "-1"}, [], COLUMNS, ConfigurationError, 'not "-1"'),
    ({"segments": "many"}, [], COLUMNS, ConfigurationError, 'not "many"'),
    ({"segments": "²"}, [], COLUMNS, ConfigurationError, 'not "²"'),
    ({"routing-key": "nme"}, [], COLUMNS, InvalidNameError, '"nme" is not a column; did you mean "Name"?'),
    (
        {"routing-key": "a"}, [], StructType([StructField("a", ArrayType(StringType()))]),
        UnsupportedTypeError, 'column "a" of type array<string> can\'t be the routing key',
    ),
    (
        {"routing-key": "d"}, [], StructType([StructField("d", DoubleType())]),
        UnsupportedTypeError, 'column "d" of type double can\'t be the routing key',
    ),
    ({"compatibility": "ful"}, [], COLUMNS, ConfigurationError, 'can\'t be "ful"; did you mean "Full"?'),
    ({"colour": "red"}, [], COLUMNS, ConfigurationError, "properties of your own need a dot in their name"),
    ({"spark.pravega.password": "p"}, [], COLUMNS, ConfigurationError, "in the configuration of the session"),
    ({"option.spark.pravega.auth_token": "p"}, [], COLUMNS, ConfigurationError, '"spark.pravega.auth_token" is no'),
    ({"routing_key": "id", "routing.key": "Name"}, [], COLUMNS, ConfigurationError, 'given in two spellings'),
    ({"segmets": "2"}, [], COLUMNS, ConfigurationError, '"segmets"; did you mean "segments"?'),
    ({"partitions": "2"}, [], COLUMNS, ConfigurationError, "Kafka's, and does nothing here: 'segments'"),
    ({"location": "/x"}, [], COLUMNS, UnsupportedOperationError, "leave LOCATION out"),
    ({"external": "true"}, [], COLUMNS, UnsupportedOperationError, "leave EXTERNAL out"),
    ({"provider": "parquet"}, [], COLUMNS, UnsupportedOperationError, "USING parquet isn't possible"),
    ({}, [OtherTransform(name="identity")], COLUMNS, UnsupportedOperationError, "use CLUSTERED BY (column)"),
    (
        {}, [ClusterBy(columns=("id", "Name"))], COLUMNS,
        UnsupportedOperationError, "CLUSTER BY (id, Name): a routing key is one column",
    ),
    (
        {"routing-key": "Name"}, [ClusterBy(columns=("id",))], COLUMNS,
        ConfigurationError, "CLUSTER BY (id) contradicts",
    ),
    (
        {}, [Bucket(columns=("id", "Name"), buckets=2)], COLUMNS,
        UnsupportedOperationError, "CLUSTERED BY (id, Name): a routing key is one column",
    ),
    ({"routing-key": "Name"}, [bucket("id", 2)], COLUMNS, ConfigurationError, "CLUSTERED BY (id) contradicts"),
    ({"segments": "3"}, [bucket("id", 2)], COLUMNS, ConfigurationError, "INTO 2 BUCKETS contradicts"),
    ({}, [bucket("id", 0)], COLUMNS, ConfigurationError, "INTO 0 BUCKETS"),
    ({}, [bucket("id", 10_001)], COLUMNS, ConfigurationError, "INTO 10001 BUCKETS"),
    ({"history": "99"}, [], COLUMNS, ConfigurationError, '"history" must be a number of versions from 100, not "99"'),
    ({"history": "²"}, [], COLUMNS, ConfigurationError, 'a number of versions from 100, not "²"'),
    ({"history": "0 days"}, [], COLUMNS, ConfigurationError, "or a time like 30 days"),
    ({"history": "for ever"}, [], COLUMNS, ConfigurationError, 'or a time like 30 days, not "for ever"'),
    ({}, [bucket("missing", 2)], COLUMNS, InvalidNameError, '"missing" is not a column'),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "transforms", "schema", "kind", "words"), REFUSED)
def test_what_a_stream_can_not_be_is_refused_by_name(
    properties: dict[str, str],
    transforms: list[Transform],
    schema: StructType,
    kind: type[PravegaError],
    words: str,
) -> None:
    with pytest.raises(kind) as refused:
        check_request(schema, transforms, properties, (), lambda _: True)
    assert words in str(refused.value)


@pytest.mark.parametrize("columns", list(combinations(["id", "a,b", "it's", "t`k", "back\\slash", " odd {x} "], 2)))
def test_the_advice_of_a_routing_key_of_several_columns_is_taken(columns: tuple[str, str]) -> None:
    schema = StructType([StructField(name, LongType()) for name in columns])
    for transform, given in ((ClusterBy(columns=columns), {}), (Bucket(columns=columns, buckets=2), {"segments": "2"})):
        with pytest.raises(UnsupportedOperationError) as refused:
            check({}, transform, schema=schema)
        texts = re.findall(r"'((?:[^'\\]|\\.)*)'", str(refused.value).partition("TBLPROPERTIES (")[2])
        pairs = [re.sub(r"\\(.)", r"\1", text) for text in texts]
        advised = dict(zip(pairs[::2], pairs[1::2], strict=True))
        assert advised == {"routing-key": advised["routing-key"]} | given
        request = check(advised, schema=schema)
        assert Routing.parse(request.properties["routing-key"], columns).columns == columns


@pytest.mark.parametrize("table_format", ["json", "protobuf"])
def test_the_registry_checks_no_compatibility_but_avro_s(table_format: str) -> None:
    assert check({"format": table_format}).compatibility == "AllowAny"
    assert check({"format": table_format, "compatibility": "DenyAll"}).compatibility == "DenyAll"


@pytest.mark.parametrize(("given", "kept"), [("binary", "raw"), ("RAW", "raw")])
def test_binary_is_another_word_for_raw(given: str, kept: str) -> None:
    assert check({"format": given}, schema=EVENT).properties["format"] == kept
