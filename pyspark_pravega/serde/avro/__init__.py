"""Avro, column by column: `read` and `write`, `resolve` between the writer's schema and the table's.

`cursor`, `blocks` and `step` are how columns are read from many datums at once; `variant` makes VARIANTs of records
within themselves; `avro_codec` joins them. It uses `serde.schemas`, `serde.types` and frames.
"""

from pyspark_pravega.serde.avro.avro_codec import AvroCodec
from pyspark_pravega.serde.avro.blocks import ItemSize
from pyspark_pravega.serde.avro.resolve import Resolver
from pyspark_pravega.serde.avro.write import record_writer

__all__ = ["AvroCodec", "ItemSize", "Resolver", "record_writer"]
