"""Table properties: what may be given at CREATE TABLE, and what a table shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_pravega.catalog import foreign_properties
from pyspark_pravega.catalog.ddl import Bucket, ClusterBy, Transform
from pyspark_pravega.catalog.stream_properties import MAX_SEGMENTS, SEGMENTS, STREAM_PROPERTIES, StreamProperties
from pyspark_pravega.catalog.stream_properties import stream_configuration as configured
from pyspark_pravega.client import StreamConfiguration
from pyspark_pravega.connector.option_names import (
    BAD_EVENTS,
    EVENT_TIME,
    EXACTLY_ONCE,
    FORMAT,
    MODE,
    ROUTING_KEY,
    SCHEMA_TYPE,
    TABLE_WRITE_KEYS,
)
from pyspark_pravega.connector.table import (
    COLUMNS,
    COMPACT_WHEN,
    COMPATIBILITY,
    COMPRESSION,
    ENCODING_HEADER,
    EVENTS,
    INDEX_COLUMNS,
    KEY_PROPERTIES,
    OWN_PROPERTIES,
    PRIMARY_KEY,
    ROW_COLUMN,
    TRUNCATE_LATER,
    Check,
    TableProperties,
    check_key,
    check_lake,
    event_fields,
    indexed_names,
    routing_key_of,
    split_defaults,
    with_rules,
)
from pyspark_pravega.connector.write import Routing, key_texts, time_column
from pyspark_pravega.declared import name_among
from pyspark_pravega.errors import ConfigurationError, UnsupportedOperationError, did_you_mean
from pyspark_pravega.serde.custom import CustomCodec, is_custom
from pyspark_pravega.serde.formats import AVRO, FORMATS, RAW, REGISTERED, STRING, SYNONYMS
from pyspark_pravega.serde.lenient import DROP_MALFORMED, PERMISSIVE
from pyspark_pravega.serde.raw import EVENT
from pyspark_pravega.settings import KEYS, SESSION_PREFIX, canonical_key
from pyspark_pravega.spark.types import StructType
from pyspark_pravega.values import listed, literal, names_of

CODEC = "codec"
"""Shown with a table, and not settable: which codec decodes its events."""
PROVIDER = "pravega"
_OPTION = "option."
"""Before the names of options that Spark hands on with the properties."""
_CLUSTERING = "__clustering_columns"
"""As this property `DataStreamWriter.clusterBy` reaches a catalog: a JSON list of names, or of their parts."""

_CDC_KEYS = "pipelines.autocdc.keyColumnNames"
"""Spark's property of the table in which an AUTO CDC flow keeps its state: it changes rows, which only a table with a
key can."""
_CDC_METADATA, _CDC_RECORD_START = "__spark_autocdc_metadata", "__RECORD_START_AT"
"""A column of AUTO CDC, and its one field in tables of SCD type 2."""

_OWN = OWN_PROPERTIES | STREAM_PROPERTIES
_WRITES = TABLE_WRITE_KEYS - _OWN
"""Options of writes that aren't properties, too."""
_SPARKS_OWN = frozenset({"comment", "owner"})
_REFUSED = {
    "location": "a stream has no location: leave LOCATION out",
    "external": "every stream is managed by Pravega: leave EXTERNAL out",
}
_IGNORED = frozenset({"provider", "is_managed_location", "external", "collation", CODEC})
_COMPATIBILITIES = frozenset(
    {"AllowAny", "DenyAll", "Backward", "BackwardTransitive", "Forward", "ForwardTransitive", "Full", "FullTransitive"}
)


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """A CREATE TABLE that has been checked."""

    schema: StructType
    """The fields of its events: its columns, and of a table with a key what happened to a row."""
    format: str
    configuration: StreamConfiguration
    compatibility: str
    properties: dict[str, str] = field(default_factory=dict)
    """What is kept with the table."""


def check_request(
    schema: StructType,
    transforms: Sequence[Transform],
    properties: Mapping[str, str],
    checks: Sequence[Check],
    allows_format: Callable[[str], bool],
) -> TableRequest:
    """Check a CREATE TABLE before anything is made.

    Args:
        schema: the columns, with their defaults in their metadata.
        transforms: its clauses.
        properties: the table's properties, with those that Spark adds.
        checks: its CHECK constraints.
        allows_format: whether a class may be imported as a format.

    Raises:
        ConfigurationError: a property is unknown or malformed, or contradicts a clause.
        InvalidNameError: the routing key isn't a column.
        UnsupportedOperationError: a clause asks for what a stream can't do.
    """
    schema, defaults = split_defaults(schema)
    clustering = properties.get(_CLUSTERING)
    if clustering is not None:
        columns = [name if isinstance(name, str) else ".".join(name) for name in json.loads(clustering)]
        transforms = [*transforms, ClusterBy(columns=tuple(columns))]
    kept = known_properties({key: value for key, value in properties.items() if key != _CLUSTERING})
    table_format = check_format(schema, kept, allows_format)
    _apply_transforms(transforms, kept)
    configuration = configured(StreamConfiguration(), kept)
    for name in STREAM_PROPERTIES:
        kept.pop(name, None)
    if _CDC_KEYS in kept:
        kept.setdefault(PRIMARY_KEY, listed(json.loads(kept[_CDC_KEYS])))
    declared = sorted(kept.keys() & KEY_PROPERTIES)
    if declared and PRIMARY_KEY not in kept:
        raise ConfigurationError(f'table property "{declared[0]}" goes with "{PRIMARY_KEY}": set both')
    check_keys(schema, table_format, configuration, kept)
    check_writes(schema, kept)
    kept.update(key_texts(kept.get(ROUTING_KEY), schema))
    compatibility = check_compatibility(table_format, kept)
    if PRIMARY_KEY in kept:
        schema = event_fields(schema, TableProperties(kept))
    return TableRequest(
        schema=schema,
        format=table_format,
        configuration=configuration,
        compatibility=compatibility,
        properties=with_rules(kept, defaults=defaults, checks=checks),
    )


def check_keys(schema: StructType, table_format: str, configuration: StreamConfiguration, kept: dict[str, str]) -> None:
    """Check the properties of a table with a key, and bring them into their usual spelling.

    Args:
        schema: the table's columns.
        table_format: its format.
        configuration: the stream's.
        kept: the properties; changed in place: where rows are written here, the key's columns make the routing key
            that isn't given.

    Raises:
        ConfigurationError: they contradict each other.
        UnsupportedOperationError: a table with a key can't be so.
    """
    given = kept.get(PRIMARY_KEY)
    if given is None:
        return
    columns = check_key(key_of_history(given, schema), schema, table_format)
    kept[PRIMARY_KEY] = listed(columns)
    is_written = ROW_COLUMN not in kept
    if is_written:
        kept.setdefault(ROUTING_KEY, routing_key_of(columns, schema))
    routing = kept.get(ROUTING_KEY)
    if routing is not None and not is_of_key(routing, columns, schema):
        raise ConfigurationError(
            f"the routing key ({routing}) must be made of columns of the primary key ({', '.join(columns)}), so that "
            f'all events of a key lie in one segment: leave "{ROUTING_KEY}", CLUSTERED BY or CLUSTER BY out'
        )
    if TableProperties(kept).mode == PERMISSIVE:
        raise ConfigurationError(
            "a table with a primary key can't be read in mode permissive: the row of an event that can't be decoded "
            "has no key"
        )
    if is_written and configuration.retention is not None:
        raise UnsupportedOperationError(
            'a table with a primary key can\'t have "retention": rows that nobody has changed for that long would be '
            "lost with their events"
        )


def key_of_history(text: str, schema: StructType) -> str:
    """The columns of a key, with the one by which Spark tells rows of a key from each other.

    An AUTO CDC flow of SCD type 2 has several rows for each of its keys: each with the sequence of the change that has
    begun it, in a struct (`Scd2BatchProcessor` of Spark 4.3). Its MERGEs go by the keys and that struct.

    Args:
        text: the columns that are given, separated by commas.
        schema: the table's columns.

    Returns:
        The same in tables of others.
    """
    names = [name.lower() for name in names_of(text)]
    for column in schema:
        is_record = isinstance(column.dataType, StructType) and column.dataType.fieldNames() == [_CDC_RECORD_START]
        if column.name == _CDC_METADATA and is_record and column.name not in names:
            return f"{text},{column.name}"
    return text


def is_of_key(routing: str, key: Sequence[str], schema: StructType) -> bool:
    """Whether a routing key is made of columns of a primary key: one or more of them, and nothing else.

    Args:
        routing: the routing key, as the property has it.
        key: the columns of the primary key.
        schema: the table's columns.
    """
    columns = Routing.parse(routing, schema.fieldNames()).columns
    return bool(columns) and set(columns) <= set(key)


def known_properties(properties: Mapping[str, str], own: frozenset[str] = _OWN) -> dict[str, str]:
    """The properties that are kept, under the one spelling of their names.

    Args:
        properties: those given, with those that Spark adds.
        own: the names of those that mean something here.

    Raises:
        ConfigurationError: one is unknown, or two spellings of one have different values.
        UnsupportedOperationError: one asks for what a stream can't do.
    """
    kept: dict[str, str] = {}
    for key, value in _with_options(properties).items():
        name = property_name(key, own)
        if key in _REFUSED and not (key == "external" and value == "false"):
            raise UnsupportedOperationError(_REFUSED[key])
        if key == "provider" and value.lower() != PROVIDER:
            raise UnsupportedOperationError(
                f"USING {value} isn't possible in a Pravega catalog: leave USING out, or write USING {PROVIDER}"
            )
        if key in _IGNORED:
            continue
        if name in own:
            if kept.setdefault(name, value) != value:
                raise ConfigurationError(
                    f'table property "{name}" is given in two spellings, with different values: leave one out'
                )
        elif key.startswith(SESSION_PREFIX) and canonical_key(key.removeprefix(SESSION_PREFIX)) in KEYS:
            raise ConfigurationError(f'"{key}" is no table property: set it in the configuration of the session')
        elif key == COLUMNS:
            raise ConfigurationError(f'table property "{key}" is set by CREATE TABLE itself')
        elif foreign := foreign_properties.told(key, value):
            raise ConfigurationError(foreign)
        elif key in _SPARKS_OWN or "." in key:
            kept[key] = value
        else:
            raise ConfigurationError(
                f'unknown table property "{key}"{did_you_mean(name, own)} '
                "(properties of your own need a dot in their name, such as team.owner)"
            )
    return kept


def property_name(key: str, own: frozenset[str] = _OWN) -> str:
    """The name under which a property is kept, if it is.

    Args:
        key: as it was given; dots are a spelling of dashes only in names that mean something.
        own: the names of those that mean something here.
    """
    name = canonical_key(key)
    if "." in key:
        return name if name in own else key
    return name_among(name, own)


def _with_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, with options that are meant as such: of CREATE TABLE's OPTIONS and of `catalog.createTable`.

    An option of a write, as `transaction-timeout-ms`, is none of them.
    """
    options = {
        key.removeprefix(_OPTION): value
        for key, value in properties.items()
        if key.startswith(_OPTION) and name_among(canonical_key(key.removeprefix(_OPTION)), _WRITES) not in _WRITES
    }
    return options | {key: value for key, value in properties.items() if not key.startswith(_OPTION)}


def check_format(schema: StructType, kept: dict[str, str], allows_format: Callable[[str], bool]) -> str:
    """Check the properties that say what events are like, and bring them into their usual spelling.

    Args:
        schema: the table's columns.
        kept: the properties; changed in place.
        allows_format: whether a class may be imported.

    Returns:
        The format.

    Raises:
        ConfigurationError: one is malformed, or they contradict each other.
    """
    given = kept.setdefault(FORMAT, AVRO)
    table_format = SYNONYMS.get(given.lower(), given.lower())
    custom = table_format not in FORMATS and is_custom(given)
    if custom:
        table_format = given
        kept.setdefault(ENCODING_HEADER, "false")
    elif table_format not in FORMATS:
        raise ConfigurationError(
            f'table property "format" must be one of {", ".join(FORMATS)}, or package.module:Class, not "{given}"'
            f"{did_you_mean(table_format, FORMATS)}"
        )
    kept[FORMAT] = table_format
    plain = {RAW: "binary", STRING: "string"}.get(table_format)
    if plain and (schema.fieldNames() != [EVENT] or schema[0].dataType.typeName() != plain):
        raise ConfigurationError(f"a table of format {table_format} has exactly one column, {EVENT} {plain.upper()}")
    for name in (COMPRESSION, ENCODING_HEADER):
        if plain and name in kept:
            raise ConfigurationError(f'table property "{name}" is for formats with a schema, not for {table_format}')
    properties = TableProperties(kept)
    kept.update(properties.spelled(EVENTS))
    if properties.bad_events is not None and properties.mode not in (None, DROP_MALFORMED):
        raise ConfigurationError(
            f'table properties "{BAD_EVENTS}" and "{MODE}" = "{properties.mode}" contradict each other: bad events '
            "either go to another table or become what the mode says; leave one of them out"
        )
    if SCHEMA_TYPE in kept and table_format not in REGISTERED:
        raise ConfigurationError(f'table property "{SCHEMA_TYPE}" is for formats with a schema, not for {table_format}')
    if custom:
        # Its class has to agree before anything is made.
        CustomCodec(given, schema, kept, allows=allows_format)
        kept[COLUMNS] = schema.json()
    if properties.encoding_header is False:
        if table_format == AVRO:
            raise ConfigurationError(
                'Avro events need their header, which tells their schema: leave "encoding-header" out, or take another '
                "format"
            )
        if properties.compression != "none":
            raise ConfigurationError(
                'compressed events need their header: leave "encoding-header" or "compression" out'
            )
    return table_format


def check_compatibility(table_format: str, kept: Mapping[str, str]) -> str:
    """The compatibility policy of a format's group.

    Args:
        table_format: the format.
        kept: the properties, one of which may be the policy.

    Raises:
        ConfigurationError: there is no such policy for the format.
    """
    # The registry checks Avro schemas only, and refuses other policies for the rest.
    of_avro = table_format == AVRO
    known = _COMPATIBILITIES if of_avro else frozenset({"AllowAny", "DenyAll"})
    given = kept.get(COMPATIBILITY, "Backward" if of_avro else "AllowAny")
    compatibility = spelled_compatibility(given)
    if compatibility not in known:
        raise ConfigurationError(
            f'table property "compatibility" can\'t be "{given}"'
            f"{'' if of_avro else f' for format {table_format}'}{did_you_mean(compatibility, known)}"
        )
    return compatibility


def spelled_compatibility(text: str) -> str:
    """A compatibility policy as the registry spells it: `BACKWARD_TRANSITIVE`, as Confluent's has it, is one, too.

    Args:
        text: the policy; what is none stays as it is.
    """
    by_letters = {policy.lower(): policy for policy in _COMPATIBILITIES} | {"none": "AllowAny"}
    return by_letters.get(re.sub(r"[-_\s]", "", text).lower(), text)


def _apply_transforms(transforms: Sequence[Transform], kept: dict[str, str]) -> None:
    for transform in transforms:
        if isinstance(transform, ClusterBy):
            column = clustering_column(transform.columns)
            if kept.get(ROUTING_KEY, column) not in (column, *transform.columns):
                raise ConfigurationError(
                    f'CLUSTER BY ({column}) contradicts the property "routing-key" = "{kept[ROUTING_KEY]}"'
                )
            if column is not None:
                kept[ROUTING_KEY] = column
            continue
        if not isinstance(transform, Bucket):
            raise UnsupportedOperationError(
                "a stream isn't partitioned by values: instead of PARTITIONED BY use CLUSTERED BY (column) INTO n "
                "BUCKETS or CLUSTER BY (column), which make the column the routing key; files of its lake are, by "
                '"lake-partitioned-by"'
            )
        columns = transform.columns
        if len(columns) != 1:
            raise UnsupportedOperationError(
                f"CLUSTERED BY ({', '.join(columns)}): a routing key is one column here; write "
                f"TBLPROPERTIES ('{ROUTING_KEY}' = {literal(listed(columns))}, '{SEGMENTS}' = '{transform.buckets}') "
                "for several"
            )
        column = listed(columns)
        if kept.get(ROUTING_KEY, column) not in (column, columns[0]):
            raise ConfigurationError(
                f'CLUSTERED BY ({columns[0]}) contradicts the property "routing-key" = "{kept[ROUTING_KEY]}"'
            )
        if not 1 <= transform.buckets <= MAX_SEGMENTS:
            raise ConfigurationError(f"INTO {transform.buckets} BUCKETS: a stream has 1 to {MAX_SEGMENTS} segments")
        if StreamProperties({SEGMENTS: str(transform.buckets), **kept}).segments != transform.buckets:
            raise ConfigurationError(
                f'INTO {transform.buckets} BUCKETS contradicts the property "{SEGMENTS}" = "{kept[SEGMENTS]}"'
            )
        kept[ROUTING_KEY] = column
        kept[SEGMENTS] = str(transform.buckets)


def clustering_column(columns: Sequence[str]) -> str | None:
    """The routing key that a CLUSTER BY means.

    Args:
        columns: those that it names.

    Returns:
        The column, as the property names it; None for CLUSTER BY NONE.

    Raises:
        UnsupportedOperationError: they are several.
    """
    if len(columns) > 1:
        raise UnsupportedOperationError(
            f"CLUSTER BY ({', '.join(columns)}): a routing key is one column here; write "
            f"TBLPROPERTIES ('{ROUTING_KEY}' = {literal(listed(columns))}) for several"
        )
    return listed(columns) or None


def check_writes(schema: StructType, kept: dict[str, str]) -> None:
    """Check the properties that say how rows are written, and bring them into their usual spelling.

    Args:
        schema: the table's columns.
        kept: the properties; changed in place.

    Raises:
        ConfigurationError: one is malformed.
        InvalidNameError: a column isn't there.
        UnsupportedTypeError: a routing key's values have no text.
    """
    key = kept.get(ROUTING_KEY)
    if key is not None:
        routing = Routing.parse(key, schema.fieldNames())
        routing.check_types(schema)
        kept[ROUTING_KEY] = str(routing)
    kept.update(TableProperties(kept).spelled())
    properties = TableProperties(kept)
    if properties.compact_when is not None and (properties.primary_key is None or properties.row_column is not None):
        raise ConfigurationError(
            f'"{COMPACT_WHEN}" goes with "{PRIMARY_KEY}" in a table that is written here: leave it out'
        )
    if EVENT_TIME in kept:
        kept[EVENT_TIME] = time_column(schema, kept[EVENT_TIME])
    if INDEX_COLUMNS in kept:
        if properties.primary_key is not None or kept.get(FORMAT, AVRO) not in REGISTERED:
            raise ConfigurationError(
                f'"{INDEX_COLUMNS}" goes with tables without a primary key, of format avro, json or protobuf: leave it '
                "out"
            )
        kept[INDEX_COLUMNS] = listed(indexed_names(schema, properties.index_columns))
    kept.update(check_lake(schema, properties))
    if properties.truncates_later and properties.writer_mode != EXACTLY_ONCE:
        raise ConfigurationError(
            f'"{TRUNCATE_LATER}" needs the writer mode {EXACTLY_ONCE}: writes of mode {properties.writer_mode} have no '
            "commit with which rows could be replaced"
        )
