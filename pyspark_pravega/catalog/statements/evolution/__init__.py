"""From a table's schema to its next one: `changes` (what ALTER TABLE asks for), made in `avro_and_json`
(schemas that are JSON) and `protobuf_messages`; `readable` (whether events that are there can be read then).

It uses serde.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_pravega.catalog.statements.evolution import avro_and_json, protobuf_messages
from pyspark_pravega.catalog.statements.evolution.changes import REVISION, due, evolved, revised, rule, widening
from pyspark_pravega.catalog.statements.evolution.readable import check_readable, check_still_readable
from pyspark_pravega.serde.formats import PROTOBUF, Schema

__all__ = [
    "REVISION",
    "check_readable",
    "check_still_readable",
    "continued",
    "due",
    "evolved",
    "revised",
    "rule",
    "widening",
]


def continued(new: Schema, earlier: Sequence[Schema]) -> Schema:
    """A schema that was made of columns, as the next one of a group: a column that comes back under the name of an
    earlier one is another one.

    Args:
        new: the schema.
        earlier: the group's schemas of its format, the last one last.
    """
    if not earlier:
        return new
    if new.format == PROTOBUF:
        return protobuf_messages.continued(new, earlier[-1], earlier)
    return avro_and_json.continued(new, earlier[-1], earlier)
