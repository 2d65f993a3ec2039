"""JSON with a schema: `read` and `write` values, `json_codec` joins them.

It uses `serde.schemas`, `serde.types` and frames.
"""

from pyspark_pravega.serde.json.json_codec import JsonCodec
from pyspark_pravega.serde.json.read import MAX_DEPTH, Number, parse

__all__ = ["MAX_DEPTH", "JsonCodec", "Number", "parse"]
