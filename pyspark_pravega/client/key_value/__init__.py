"""Key-value tables: `table` reads and changes entries under conditions, `partitions` finds an entry's segment.

It uses `connections` and below.
"""

from pyspark_pravega.client.key_value.table import ANY_VERSION, NOT_EXISTS, Entry, KeyValueTable

__all__ = ["ANY_VERSION", "NOT_EXISTS", "Entry", "KeyValueTable"]
