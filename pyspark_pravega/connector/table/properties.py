"""The properties of a stream's table: each name, what its value may be, and what holds where it isn't set.

The commit log keeps their texts. Those of the stream's configuration are in `catalog.stream_properties`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields

from pyspark_pravega import values
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import HISTORY, VERSION_EVERY, History, version_every
from pyspark_pravega.connector.option_names import (
    AT_LEAST_ONCE,
    BAD_EVENTS,
    BEST_EFFORT,
    CLUSTER_BY_KEY,
    EVENT_TIME,
    EXACTLY_ONCE,
    FORMAT,
    ISOLATION_LEVEL,
    MODE,
    ROUTING_KEY,
    SCHEMA_TYPE,
    SERIALIZABLE,
    SNAPSHOT,
    WRITER_MODE,
)
from pyspark_pravega.connector.options import isolation_level, parse_bad_events, parse_mode, writer_mode
from pyspark_pravega.connector.table.constraints import CHECKS, DEFAULTS, Check
from pyspark_pravega.declared import Properties, Property
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.lake import (
    PARTITIONED_BY,
    SORTED_BY,
    PartitionedBy,
    SortedBy,
    listed,
    of_columns,
    partitioned_by,
    sorted_by,
)
from pyspark_pravega.serde import compression
from pyspark_pravega.serde.formats import AVRO, REGISTERED
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST, PERMISSIVE
from pyspark_pravega.spark.types import StructType

COMPATIBILITY = "compatibility"
COMPRESSION = "compression"
ENCODING_HEADER = "encoding-header"
COMPRESSIONS = {"none": compression.NONE, "gzip": compression.GZIP, "snappy": compression.SNAPPY}
"""What the property `compression` may be, and what the schema registry calls it."""
COMPACT_WHEN = "compact-when"
INDEX_COLUMNS = "index-columns"
TRUNCATE_LATER = "truncate-with-next-write"

PRIMARY_KEY = "primary-key"
OPERATION_COLUMN, DELETE_VALUES, UPSERT_VALUE = "operation-column", "delete-values", "upsert-value"
ROW_COLUMN, DELETED_ROW_COLUMN = "row-column", "deleted-row-column"
DELETE = "delete"
"""What the field of an event that says what happened to its row holds where the row was deleted."""

COLUMNS = "spark.columns"
"""The property that keeps the columns of a table whose format is a custom one."""
PINNED_SCHEMA = "_schema"
"""The property that keeps a table at a schema (its id) while another one is there that isn't to be seen yet."""
KEY_TEXTS, PLAIN = "_key_texts", "plain"
"""The property of tables whose keys have the texts that CAST makes, and its value."""

LAKE, LAKE_AFTER, LAKE_KEEP, LAKE_FILE_SIZE = "lake", "lake-after", "lake-keep-in-stream", "lake-file-size"
LAKE_ROW_GROUP_SIZE = "lake-row-group-size"
ICEBERG = "iceberg"

EVENTS, KEYS, WRITES, VERSIONS, IN_LAKE = "The events", "Keys", "Writes", "Versions", "The lake"


def _text(_: str, text: str) -> str:
    return text


def _names(_: str, text: str) -> tuple[str, ...]:
    return values.names_of(text)


def _word(text: str) -> str:
    return text.strip().lower()


def _one_of(choices: Iterable[str]) -> Callable[[str, str], str]:
    """A property's values that are words.

    Args:
        choices: the words.
    """
    known = sorted(choices)

    def parse(name: str, text: str) -> str:
        if _word(text) not in known:
            raise ConfigurationError(f'table property "{name}" must be one of {", ".join(known)}, not "{text}"')
        return _word(text)

    return parse


def _milliseconds(name: str, text: str) -> int:
    return round(values.duration(name, text) * 1000)


def _with_unit(name: str, text: str) -> int:
    # Events are removed after it: a number alone, taken for milliseconds, would be a costly mistake.
    if text.strip().isdecimal():
        raise ConfigurationError(f'"{name}" must be a time with its unit, like 12 hours or 7 days, not "{text[:60]}"')
    return _milliseconds(name, text)


def _header(name: str, text: str) -> bool:
    return _one_of(("true", "false"))(name, text) == "true"


def _checks(_: str, text: str) -> tuple[Check, ...]:
    known = {one.name for one in fields(Check)}
    # A later release may have told more of it.
    return tuple(Check(**{key: of for key, of in content.items() if key in known}) for content in json.loads(text))


def _defaults(_: str, text: str) -> dict[str, str]:
    defaults: dict[str, str] = json.loads(text)
    return defaults


def _columns(_: str, text: str) -> StructType:
    return StructType.fromJson(json.loads(text))


class TableProperties(Properties):
    """Of one table. Names that begin with `_` are kept with it, and nobody sees them among the properties."""

    format = Property[str | None](
        name=FORMAT,
        group=EVENTS,
        value="`avro`, `json`, `protobuf`, `raw`, `string`, `package.module:Class`",
        unset="`avro`",
        about="how events hold rows",
        parse=_text,
        default=None,
    )
    compression = Property(
        name=COMPRESSION,
        group=EVENTS,
        value="`none`, `gzip`, `snappy`",
        unset="`none`",
        about="how each event is compressed on writing",
        parse=_one_of(COMPRESSIONS),
        default="none",
        spell=_word,
    )
    encoding_header = Property[bool | None](
        name=ENCODING_HEADER,
        group=EVENTS,
        value="`true`, `false`",
        unset="`true`; `false` for a class of your own",
        about="whether events are written with the registry's header",
        parse=_header,
        default=None,
        spell=_word,
    )
    mode = Property[str | None](
        name=MODE,
        group=EVENTS,
        value=f"`{FAIL_FAST}`, `{PERMISSIVE}`, `{DROP_MALFORMED}`",
        unset=f"`{FAIL_FAST}`",
        about="what becomes of events that can't be decoded",
        parse=parse_mode,
        default=None,
        spell=lambda text: parse_mode(MODE, text),
    )
    bad_events = Property[Stream | None](
        name=BAD_EVENTS,
        group=EVENTS,
        value="`namespace.table`",
        unset="nowhere",
        about="where a streaming query puts events that can't be decoded",
        parse=parse_bad_events,
        default=None,
    )
    schema_type = Property[str | None](
        name=SCHEMA_TYPE,
        group=EVENTS,
        value="a type",
        unset="all",
        about="which of several types of events the table holds",
        parse=_text,
        default=None,
    )
    compatibility = Property[str | None](
        name=COMPATIBILITY,
        group=EVENTS,
        value="`AllowAny`, `DenyAll`, `Backward`, ...",
        unset="`Backward` for Avro, else `AllowAny`",
        about="which next schemas the registry lets through",
        parse=_text,
        default=None,
    )

    primary_key = Property[tuple[str, ...] | None](
        name=PRIMARY_KEY,
        group=KEYS,
        value="columns",
        unset="none: each event is a row",
        about="the key of which there is one row",
        parse=_names,
        default=None,
    )
    operation_column = Property[str | None](
        name=OPERATION_COLUMN,
        group=KEYS,
        value="a field",
        unset="`_operation`, where there is one",
        about="which field of others' events says what happened to a row",
        parse=_text,
        default=None,
    )
    delete_values = Property[tuple[str, ...]](
        name=DELETE_VALUES,
        group=KEYS,
        value="texts",
        unset=f"`{DELETE}`",
        about="which of its values say that the row was deleted; the first one is written",
        parse=_names,
        default=(DELETE,),
    )
    upsert_value = Property[str | None](
        name=UPSERT_VALUE,
        group=KEYS,
        value="a text",
        unset="null",
        about="which of its values is written with a row",
        parse=_text,
        default=None,
    )
    row_column = Property[str | None](
        name=ROW_COLUMN,
        group=KEYS,
        value="a field",
        unset="none: the event is the row",
        about="which field of others' change records holds the row",
        parse=_text,
        default=None,
    )
    deleted_row_column = Property[str | None](
        name=DELETED_ROW_COLUMN,
        group=KEYS,
        value="a field",
        unset="the one of other rows",
        about="which field holds the row that was deleted",
        parse=_text,
        default=None,
    )
    compact_when = Property[int | None](
        name=COMPACT_WHEN,
        group=KEYS,
        value="a size, `64 MiB`",
        unset="never",
        about="how many bytes of events come before a commit starts a compaction",
        parse=values.size,
        default=None,
    )

    routing_key = Property[str | None](
        name=ROUTING_KEY,
        group=WRITES,
        value="a column, several, a pattern, or `'a fixed key'`",
        unset="none: no order",
        about="how events get their routing keys",
        parse=_text,
        default=None,
    )
    writer_mode = Property(
        name=WRITER_MODE,
        group=WRITES,
        value=f"`{EXACTLY_ONCE}`, `{AT_LEAST_ONCE}`, `{BEST_EFFORT}`",
        unset=f"`{EXACTLY_ONCE}`",
        about="what a write promises",
        parse=writer_mode,
        default=EXACTLY_ONCE,
        spell=lambda text: writer_mode(WRITER_MODE, text),
    )
    cluster_by_key = Property(
        name=CLUSTER_BY_KEY,
        group=WRITES,
        value="`true`, `false`",
        unset="`false`",
        about="whether Spark brings the rows of a routing key together in one task",
        parse=values.flag,
        default=False,
        spell=_word,
    )
    event_time = Property[str | None](
        name=EVENT_TIME,
        group=WRITES,
        value="a column",
        unset="none",
        about="whose largest value each commit tells Pravega, for watermarks",
        parse=_text,
        default=None,
    )
    index_columns = Property[tuple[str, ...]](
        name=INDEX_COLUMNS,
        group=WRITES,
        value="columns",
        unset="none",
        about="by which columns' values reads pass blocks of events over",
        parse=_names,
        default=(),
    )
    isolation_level = Property(
        name=ISOLATION_LEVEL,
        group=WRITES,
        value=f"`{SERIALIZABLE}`, `{SNAPSHOT}`",
        unset=f"`{SERIALIZABLE}`",
        about="what becomes of rows that come while a statement replaces or changes rows",
        parse=isolation_level,
        default=SERIALIZABLE,
        spell=_word,
    )
    truncates_later = Property(
        name=TRUNCATE_LATER,
        group=WRITES,
        value="`true`, `false`",
        unset="`false`",
        about="whether TRUNCATE TABLE takes effect together with the next write",
        parse=values.flag,
        default=False,
        spell=_word,
    )

    history = Property[History | None](
        name=HISTORY,
        group=VERSIONS,
        value="a number (`1000000`) or a time (`30 days`)",
        unset="the last `10000`",
        about="which versions the table remembers",
        parse=lambda _, text: History.parse(text),
        default=None,
        spell=_word,
    )
    version_every = Property[float | None](
        name=VERSION_EVERY,
        group=VERSIONS,
        value="a time, `1 minute`",
        unset="never",
        about="how often a version is made of what others have written",
        parse=lambda _, text: version_every(text),
        default=None,
        spell=_word,
    )

    lake = Property[str | None](
        name=LAKE,
        group=IN_LAKE,
        value=f"`{ICEBERG}`",
        unset="none",
        about="where `CALL tier` puts the rows of older versions",
        parse=_one_of((ICEBERG,)),
        default=None,
        spell=_word,
    )
    lake_after_ms = Property[int | None](
        name=LAKE_AFTER,
        group=IN_LAKE,
        value="a time, `1 hour`",
        unset="at once",
        about="how old a version is before its rows go there",
        parse=_with_unit,
        default=None,
        spell=_word,
    )
    keep_in_stream_ms = Property[int | None](
        name=LAKE_KEEP,
        group=IN_LAKE,
        value="a time, `1 day`",
        unset="for ever",
        about="how long events of rows that are there stay in the stream",
        parse=_with_unit,
        default=None,
        spell=_word,
    )
    lake_file_size = Property[int | None](
        name=LAKE_FILE_SIZE,
        group=IN_LAKE,
        value="a size, `64 MiB`",
        unset="`128 MiB`; less with a key",
        about="about how large a file is there",
        parse=values.size,
        default=None,
    )
    lake_row_group_size = Property[int | None](
        name=LAKE_ROW_GROUP_SIZE,
        group=IN_LAKE,
        value="a size, `4 MiB`",
        unset="`16 MiB`",
        about="how many bytes of rows in memory make a row group there",
        parse=values.size,
        default=None,
    )

    lake_partitioned_by = Property[tuple[PartitionedBy, ...]](
        name=PARTITIONED_BY,
        group=IN_LAKE,
        value="columns, transforms: `days(at), bucket(16, id)`",
        unset="no partitions",
        about="what rows of a file there have in common",
        parse=partitioned_by,
        default=(),
        spell=lambda text: listed(partitioned_by(PARTITIONED_BY, text)),
    )
    lake_sorted_by = Property[tuple[SortedBy, ...]](
        name=SORTED_BY,
        group=IN_LAKE,
        value="columns: `id, at DESC`",
        unset="by their events, or by key",
        about="how rows of a file there are sorted",
        parse=sorted_by,
        default=(),
        spell=lambda text: listed(sorted_by(SORTED_BY, text)),
    )

    # Kept with the table, and given by nobody.
    columns = Property[StructType | None](name=COLUMNS, parse=_columns, default=None)
    defaults = Property[Mapping[str, str]](name=DEFAULTS, parse=_defaults, default={})
    checks = Property[tuple[Check, ...]](name=CHECKS, parse=_checks, default=())
    pinned_schema = Property[int | None](name=PINNED_SCHEMA, parse=values.number, default=None)
    has_plain_texts = Property(name=KEY_TEXTS, parse=lambda _, text: text == PLAIN, default=False)

    def check_kind_of_lake(self) -> None:
        """Refuse a table whose rows lie in a lake of another kind: the stream needn't hold them.

        Raises:
            ConfigurationError: it is such a table.
        """
        _ = self.lake


def given_properties(texts: Mapping[str, str]) -> dict[str, str]:
    """Those of a table's properties that SQL shows.

    Args:
        texts: all of them, by name.
    """
    return {name: text for name, text in texts.items() if not name.startswith("_")}


def check_lake(schema: StructType, kept: TableProperties) -> dict[str, str]:
    """Refuse the properties of a lake where they don't go together, or the table can't have one.

    Args:
        schema: the table's columns.
        kept: the table's properties, each of which means something.

    Returns:
        Those that name columns, as the table spells them.

    Raises:
        ConfigurationError: they don't.
        InvalidNameError: they name a column that isn't there.
        UnsupportedTypeError: or one whose type can't be used so.
    """
    given = sorted(kept.keys() & TableProperties.names(IN_LAKE))
    if not given:
        return {}
    if LAKE not in kept:
        raise ConfigurationError(f'"{given[0]}" goes with "{LAKE}": set both, or none of them')
    if kept.get(FORMAT, AVRO) not in REGISTERED:
        raise ConfigurationError(f'"{LAKE}" goes with tables of format avro, json or protobuf: leave it out')
    if PRIMARY_KEY in kept and LAKE_AFTER in kept:
        raise ConfigurationError(
            f'"{LAKE_AFTER}" goes with tables without a primary key: rows of one with a key go to the lake as of its '
            "last version. Leave it out"
        )
    layouts: dict[str, tuple[PartitionedBy, ...] | tuple[SortedBy, ...]] = {
        PARTITIONED_BY: of_columns(PARTITIONED_BY, kept.lake_partitioned_by, schema),
        SORTED_BY: of_columns(SORTED_BY, kept.lake_sorted_by, schema),
    }
    return {name: listed(some) for name, some in layouts.items() if some}


KEY_PROPERTIES = TableProperties.names(KEYS) - {COMPACT_WHEN}
"""Those that say what events mean for the rows of a table with a key."""
OWN_PROPERTIES = TableProperties.names(EVENTS, KEYS, WRITES, VERSIONS, IN_LAKE)
"""Those that a user may set."""
