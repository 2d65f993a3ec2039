"""Key-value tables: `creation` makes them, `table` reads and changes entries under conditions, `partitions` finds an
entry's segment.

It uses `connections` and below.
"""

from pyspark_pravega.client.key_value.creation import create_table, forget_broken_names
from pyspark_pravega.client.key_value.table import ANY_VERSION, NOT_EXISTS, Entry, KeyValueTable

__all__ = ["ANY_VERSION", "NOT_EXISTS", "Entry", "KeyValueTable", "create_table", "forget_broken_names"]
