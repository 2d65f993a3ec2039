"""What a column, or a field of a struct, is named by: nobody can write to a table that has lost what is named.

Everything that changes columns asks here. Views aren't among it: which columns they name Spark says when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn, SchemaChange, UpdateColumnComment, UpdateColumnType
from pyspark_pravega.catalog.properties import check_writes
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.option_names import EVENT_TIME
from pyspark_pravega.connector.table import (
    INDEX_COLUMNS,
    Check,
    TableDefinition,
    TableProperties,
    given_properties,
    key_of,
)
from pyspark_pravega.connector.write import Routing
from pyspark_pravega.errors import ConfigurationError, InvalidNameError, UnsupportedOperationError, UnsupportedTypeError
from pyspark_pravega.lake import PARTITIONED_BY, SORTED_BY


@dataclass(frozen=True, kw_only=True)
class Use:
    """Something that names a column."""

    says: str
    """What it is, and what to do first; the column and the stream are put into it."""
    path: tuple[str, ...] = ()
    """The column, or the field of a struct."""
    check: Check | None = None
    """The constraint that it is, which may name several."""
    of_key: bool = False
    """Whether all that is named stays as it is, with what is within it."""

    def forbids(self, change: SchemaChange) -> bool:
        """Whether a change can't be, unless this is changed before.

        Args:
            change: of a column.
        """
        path = change.column
        if self.check is not None:
            return isinstance(change, DeleteColumn | UpdateColumnType) and self.check.names(*path)
        if any(one.lower() != other.lower() for one, other in zip(path, self.path, strict=False)):
            return False
        if not self.of_key:
            return isinstance(change, DeleteColumn)
        if isinstance(change, AddColumn):
            return len(path) > len(self.path)
        return not isinstance(change, UpdateColumnComment)


def uses_of(definition: TableDefinition) -> Iterator[Use]:
    """All that names columns of a table.

    Args:
        definition: what the stream is as a table.
    """
    properties, key = definition.properties, definition.key
    # Where the row is a field of the events, its columns are within that.
    within = () if key is None or key.row is None else (key.row,)
    if key is not None:
        says = (
            f'column "{{column}}" of stream "{{stream}}" is in its primary key ({", ".join(key.columns)}), and stays '
            "as it is: make a new table AS SELECT"
        )
        yield from (Use(path=(*within, name), says=says, of_key=True) for name in key.columns)
        of_event = [name for name in (key.operation, key.deleted_row) if name is not None]
        yield from (Use(path=(name,), says=says, of_key=name == key.operation) for name in of_event)
    routing, names = properties.routing_key, definition.schema.fieldNames()
    if routing is not None:
        role = "is the routing key" if routing in names else f"is in the routing key ({_escaped(routing)})"
        says = (
            f'column "{{column}}" {role} of stream "{{stream}}": take another one first, ALTER TABLE ... SET '
            "TBLPROPERTIES ('routing-key' = ...)"
        )
        yield from (Use(path=(*within, name), says=says) for name in _columns_of(routing, names))
    if properties.event_time is not None:
        says = (
            'column "{column}" is the event time of stream "{stream}": take another one first, or none, ALTER TABLE '
            f"... UNSET TBLPROPERTIES ('{EVENT_TIME}')"
        )
        yield Use(path=(properties.event_time,), says=says)
    for name in properties.index_columns:
        says = (
            f'column "{{column}}" of stream "{{stream}}" is indexed: take it out of "{INDEX_COLUMNS}" first, ALTER '
            f"TABLE ... SET TBLPROPERTIES ('{INDEX_COLUMNS}' = ...)"
        )
        yield Use(path=(name,), says=says)
    for name, some in ((PARTITIONED_BY, properties.lake_partitioned_by), (SORTED_BY, properties.lake_sorted_by)):
        says = (
            f'column "{{column}}" of stream "{{stream}}" is in "{name}": take it out first, ALTER TABLE ... SET '
            f"TBLPROPERTIES ('{name}' = ...)"
        )
        yield from (Use(path=(*within, one.column), says=says) for one in some)
    for check in properties.checks:
        says = (
            f'column "{{column}}" of stream "{{stream}}" can\'t be {{done}}: constraint "{_escaped(check.name)}" '
            f"({_escaped(check.condition)}) names it. Drop that first: ALTER TABLE ... DROP CONSTRAINT "
            f"{_escaped(check.name)}"
        )
        yield Use(check=check, says=says)


def check_uses(definition: TableDefinition, changes: Sequence[SchemaChange]) -> None:
    """Refuse changes of columns that something names, and that it needs as they are.

    Args:
        definition: what the stream is as a table.
        changes: of columns.

    Raises:
        UnsupportedOperationError: one is.
    """
    uses = list(uses_of(definition))
    for change in changes:
        use = next((use for use in uses if use.forbids(change)), None)
        if use is not None:
            done = "dropped" if isinstance(change, DeleteColumn) else "changed so"
            raise UnsupportedOperationError(use.says.format(column=change.path, stream=definition.stream, done=done))


def check_fields(stream: Stream, properties: Mapping[str, str], before: StructType, after: StructType) -> None:
    """Refuse a schema without the columns that a table's properties name, or with types that don't go with them.

    Args:
        stream: the stream.
        properties: the table's properties.
        before: the fields of its events so far.
        after: the fields that they are to have.

    Raises:
        UnsupportedOperationError: a property doesn't go with the columns, or a constraint names one that would be gone.
    """
    kept = given_properties(properties)
    try:
        key_and_schema = key_of(TableProperties(properties), after, stream)
        check_writes(after if key_and_schema is None else key_and_schema[1], kept)
    except (ConfigurationError, InvalidNameError, UnsupportedTypeError) as error:
        raise UnsupportedOperationError(
            f'the properties of stream "{stream}" forbid this change of its columns: {error}'
        ) from None
    lost = set(before.fieldNames()) - set(after.fieldNames())
    for check in TableProperties(properties).checks:
        name = next((name for name in sorted(lost) if check.names(name)), None)
        if name is not None:
            raise UnsupportedOperationError(
                f'the schema of stream "{stream}" can\'t be without column "{name}": constraint "{check.name}" '
                f"({check.condition}) names it. Drop that first: ALTER TABLE ... DROP CONSTRAINT {check.name}"
            )


def _columns_of(routing: str, names: Sequence[str]) -> tuple[str, ...]:
    try:
        return Routing.parse(routing, names).columns
    except InvalidNameError:
        return ()


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
