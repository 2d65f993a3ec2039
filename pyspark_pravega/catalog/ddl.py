"""DDL as values: what ALTER changes, and the clauses of CREATE. The JVM tells a value's class by its name.

The names of changes are those of Spark's own classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyspark_pravega.connector.table import Check
from pyspark_pravega.spark.types import DataType


@dataclass(frozen=True, kw_only=True)
class SetProperty:
    """A property gets a value."""

    property: str
    value: str


@dataclass(frozen=True, kw_only=True)
class RemoveProperty:
    """A property goes."""

    property: str


@dataclass(frozen=True, kw_only=True)
class ClusterBy:
    """CLUSTER BY; without columns CLUSTER BY NONE."""

    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AddConstraint:
    """A CHECK comes."""

    check: Check


@dataclass(frozen=True, kw_only=True)
class DropConstraint:
    """A CHECK goes."""

    name: str
    if_exists: bool


@dataclass(frozen=True, kw_only=True)
class ColumnPosition:
    """Where a column goes."""

    after: str | None
    """Behind which other one; None for the first place."""

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {self.after}"


@dataclass(frozen=True, kw_only=True)
class _OfColumn:
    column: tuple[str, ...]
    """Its name; of a field of a struct the names on the way to it, too."""

    @property
    def path(self) -> str:
        """The column, for messages."""
        return ".".join(self.column)


@dataclass(frozen=True, kw_only=True)
class AddColumn(_OfColumn):
    """A column comes."""

    type: DataType
    nullable: bool = True
    comment: str | None = None
    position: ColumnPosition | None = None
    """None for the end."""
    default: str | None = None
    """As SQL."""


@dataclass(frozen=True, kw_only=True)
class DeleteColumn(_OfColumn):
    """A column goes."""

    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class RenameColumn(_OfColumn):
    """A column gets another name."""


@dataclass(frozen=True, kw_only=True)
class UpdateColumnType(_OfColumn):
    """A column gets another type."""

    type: DataType


@dataclass(frozen=True, kw_only=True)
class UpdateColumnNullability(_OfColumn):
    """A column may be null, or may not."""

    nullable: bool


@dataclass(frozen=True, kw_only=True)
class UpdateColumnComment(_OfColumn):
    """A column gets a comment."""

    comment: str | None


@dataclass(frozen=True, kw_only=True)
class UpdateColumnPosition(_OfColumn):
    """A column goes elsewhere."""

    position: ColumnPosition


@dataclass(frozen=True, kw_only=True)
class UpdateColumnDefaultValue(_OfColumn):
    """A column gets a DEFAULT, or loses it."""

    default: str | None
    """As SQL; None or nothing where it is dropped."""


PropertyChange: TypeAlias = SetProperty | RemoveProperty
SchemaChange: TypeAlias = (
    AddColumn
    | DeleteColumn
    | RenameColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnPosition
)
"""What makes another schema of the events."""
ColumnChange: TypeAlias = SchemaChange | UpdateColumnDefaultValue
TableChange: TypeAlias = PropertyChange | ClusterBy | AddConstraint | DropConstraint | ColumnChange


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """CLUSTERED BY (columns) INTO n BUCKETS."""

    columns: tuple[str, ...]
    buckets: int


@dataclass(frozen=True, kw_only=True)
class OtherTransform:
    """Another way to part a table, as PARTITIONED BY has it."""

    name: str
    """Spark's name of it."""


Transform: TypeAlias = Bucket | ClusterBy | OtherTransform
"""A clause of CREATE TABLE."""
