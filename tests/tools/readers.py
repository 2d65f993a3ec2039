"""What the connector's readers give, as Python's values."""

from __future__ import annotations

from typing import Any


def rows_read(reader: Any) -> list[dict[str, Any]]:
    """All rows of a reader, partition by partition.

    Args:
        reader: with `partitions` and `read`, as those of `connector.read`.
    """
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]
