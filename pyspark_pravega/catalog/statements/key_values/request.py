"""CREATE TABLE and ALTER TABLE of key-value tables: what may be said, checked before anything is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.catalog.ddl import Bucket, ClusterBy, Transform
from pyspark_pravega.catalog.properties import check_compatibility, known_properties, property_name
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.connector.key_value import (
    ALTERABLE,
    BOTH,
    KEPT_COLUMNS,
    KEPT_KEY,
    KEPT_VALUES,
    KEY_COLUMNS,
    KEY_VALUE,
    KEY_VALUE_PROPERTIES,
    MADE,
    PARTITION_KEY,
    PARTITIONS,
    SCHEMA,
    TABLE_TYPE,
    VALUE,
    VERSION,
    KeyLayout,
    KeyValueProperties,
)
from pyspark_pravega.connector.option_names import FORMAT, ISOLATION_LEVEL
from pyspark_pravega.connector.table import (
    COMPATIBILITY,
    ENCODING_HEADER,
    PRIMARY_KEY,
    Check,
    split_defaults,
    with_rules,
)
from pyspark_pravega.errors import ConfigurationError, UnsupportedOperationError, did_you_mean
from pyspark_pravega.serde.formats import AVRO, FORMATS, RAW, REGISTERED, SYNONYMS
from pyspark_pravega.values import listed, names_of

_AT_CREATION = KeyValueProperties.names(MADE)


@dataclass(frozen=True, kw_only=True)
class KeyValueRequest:
    """A CREATE TABLE of a key-value table that has been checked."""

    configuration: KeyValueTableConfiguration
    format: str
    value_schema: StructType
    is_registered: bool
    """Whether the schema of values goes into the registry."""
    compatibility: str
    properties: dict[str, str]
    """What is kept about the table."""


def is_table_type(key: str) -> bool:
    """Whether the key of a CREATE TABLE's property, or of an option beside it, is `table-type`.

    Args:
        key: in any of its spellings.
    """
    return property_name(key.removeprefix("option."), KEY_VALUE_PROPERTIES) == TABLE_TYPE


def is_key_value_request(properties: Mapping[str, str]) -> bool:
    """Whether the properties of a CREATE TABLE ask for a key-value table.

    Args:
        properties: those given.

    Raises:
        ConfigurationError: they ask for a type of table that isn't there.
    """
    given = [value for key, value in properties.items() if is_table_type(key)]
    return KEY_VALUE in [KeyValueProperties({TABLE_TYPE: value}).table_type for value in given]


def check_key_value_request(
    schema: StructType,
    transforms: Sequence[Transform],
    properties: Mapping[str, str],
    checks: Sequence[Check] = (),
) -> KeyValueRequest:
    """Check a CREATE TABLE before anything is made.

    Args:
        schema: the columns, with their defaults in their metadata.
        transforms: its clauses.
        properties: the table's properties, with those that Spark adds.
        checks: its CHECK constraints.

    Raises:
        ConfigurationError: a property is unknown or malformed, or contradicts a clause.
        UnsupportedOperationError: a clause asks for what a key-value table can't do.
    """
    schema, defaults = split_defaults(schema)
    kept = known_properties(properties, own=KEY_VALUE_PROPERTIES)
    kept[TABLE_TYPE] = KEY_VALUE
    for name in (KEY_COLUMNS, SCHEMA):
        if name in kept:
            raise ConfigurationError(
                f'table property "{name}" tells about a table that is there: CREATE TABLE has columns and a PRIMARY KEY'
            )
    if VERSION in schema.fieldNames():
        raise ConfigurationError(f"a column can't be called \"{VERSION}\": that is the name of entries' versions")
    key = _key(schema, kept)
    layout = KeyLayout.of(key, KeyValueProperties(kept).key_bytes)
    _apply(transforms, kept)
    first = _partition_key(layout, kept)
    configuration = KeyValueTableConfiguration(
        partitions=KeyValueProperties(kept).partitions,
        key_bytes=layout.prefix(first).width,
        secondary_key_bytes=layout.width - layout.prefix(first).width,
    )
    kept.pop(PARTITIONS, None)
    values = StructType([field for field in schema if field.name not in layout.names])
    table_format, is_registered = _format(values, kept)
    kept.update(KeyValueProperties(kept).spelled(BOTH))
    compatibility = check_compatibility(table_format, kept) if is_registered else ""
    kept[KEPT_KEY] = layout.schema.json()
    kept[KEPT_COLUMNS] = json.dumps(schema.fieldNames())
    if table_format in REGISTERED and not is_registered:
        kept[KEPT_VALUES] = values.json()
    kept.pop(COMPATIBILITY, None)
    return KeyValueRequest(
        configuration=configuration,
        format=table_format,
        value_schema=values,
        is_registered=is_registered,
        compatibility=compatibility,
        properties=with_rules(kept, defaults=defaults, checks=checks),
    )


def check_altered(given: Mapping[str, str], *, is_ours: bool, name: object) -> dict[str, str]:
    """Check the properties that an ALTER TABLE sets.

    Args:
        given: those properties.
        is_ours: whether the table was made by CREATE TABLE, so that its columns are known.
        name: the table, for messages.

    Raises:
        ConfigurationError: one is unknown, malformed, or can't be set.
    """
    wanted = known_properties(given, own=KEY_VALUE_PROPERTIES)
    for key in wanted:
        if key in _AT_CREATION or (is_ours and key in ALTERABLE - {ISOLATION_LEVEL}):
            raise ConfigurationError(
                f'table property "{key}" of key-value table "{name}" is settled by CREATE TABLE: make a new table AS '
                "SELECT"
            )
    wanted.update(KeyValueProperties(wanted).spelled(BOTH))
    if FORMAT in wanted:
        wanted[FORMAT] = _known_format(wanted[FORMAT])
    return wanted


def _key(schema: StructType, kept: dict[str, str]) -> list[StructField]:
    """The key's columns, in its order."""
    given = names_of(kept.get(PRIMARY_KEY, ""))
    if not given:
        raise ConfigurationError(
            "a key-value table needs a key: PRIMARY KEY (id) NOT ENFORCED behind the columns, or the table property "
            f'"{PRIMARY_KEY}" = "id"'
        )
    known = {field.name.lower(): field for field in schema}
    key: list[StructField] = []
    for name in given:
        field = known.get(name.lower())
        if field is None:
            raise ConfigurationError(
                f'"{PRIMARY_KEY}": "{name}" is not a column{did_you_mean(name, schema.fieldNames())}'
            )
        if field.name in [one.name for one in key]:
            raise ConfigurationError(f'"{PRIMARY_KEY}" names column "{field.name}" twice')
        key.append(field)
    kept[PRIMARY_KEY] = listed(field.name for field in key)
    if len(key) == len(schema):
        raise ConfigurationError("a key-value table needs a column that isn't in its key: an entry has a value")
    return key


def _apply(transforms: Sequence[Transform], kept: dict[str, str]) -> None:
    for transform in transforms:
        if not isinstance(transform, Bucket):
            name = "CLUSTER BY" if isinstance(transform, ClusterBy) else transform.name.upper().replace("_", " ")
            raise UnsupportedOperationError(
                f"a key-value table can't be {name}: CLUSTERED BY (columns) "
                "INTO n BUCKETS names the first columns of its key and the number of its partitions"
            )
        columns, buckets = listed(transform.columns), str(transform.buckets)
        for name, value in ((PARTITION_KEY, columns), (PARTITIONS, buckets)):
            if listed(names_of(kept.setdefault(name, value))).lower() != value.lower():
                raise ConfigurationError(f'CLUSTERED BY contradicts the property "{name}" = "{kept[name]}"')


def _partition_key(layout: KeyLayout, kept: dict[str, str]) -> int:
    """How many of the key's columns choose an entry's partition."""
    given = [name.lower() for name in names_of(kept.get(PARTITION_KEY, listed(layout.names)))]
    if not given or given != [name.lower() for name in layout.names[: len(given)]]:
        raise ConfigurationError(
            f'"{PARTITION_KEY}", or CLUSTERED BY, must name the first columns of the key ({", ".join(layout.names)}), '
            f"in their order: they choose an entry's partition; not {', '.join(given) or 'none'}"
        )
    kept.pop(PARTITION_KEY, None)
    if len(given) < len(layout.names):
        kept[PARTITION_KEY] = listed(layout.names[: len(given)])
    return len(given)


def _format(values: StructType, kept: dict[str, str]) -> tuple[str, bool]:
    """The format of values, and whether their schema goes into the registry."""
    table_format = kept[FORMAT] = _known_format(kept.get(FORMAT, AVRO))
    header = KeyValueProperties(kept).encoding_header
    if table_format in REGISTERED:
        return table_format, header is not False
    kind = "binary" if table_format == RAW else "string"
    if values.fieldNames() != [VALUE] or values[0].dataType.typeName() != kind:
        raise ConfigurationError(
            f"a key-value table of format {table_format} has exactly one column that isn't in its key, "
            f"{VALUE} {kind.upper()}"
        )
    for name in (ENCODING_HEADER, COMPATIBILITY):
        if name in kept:
            raise ConfigurationError(f'table property "{name}" is for formats with a schema, not for {table_format}')
    return table_format, False


def _known_format(text: str) -> str:
    known_format = SYNONYMS.get(text.lower(), text.lower())
    if known_format not in FORMATS:
        raise ConfigurationError(
            f'"{FORMAT}" of a key-value table must be one of {", ".join(FORMATS)}, not "{text}"'
            f"{did_you_mean(known_format, FORMATS)}"
        )
    return known_format
