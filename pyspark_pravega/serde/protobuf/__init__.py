"""Protobuf: `read` and `write` messages, `protobuf_codec` joins them.

It uses `serde.schemas`, `serde.types`, `serde.json` and frames.
"""

from pyspark_pravega.serde.protobuf.protobuf_codec import ProtobufCodec, check_readable

__all__ = ["ProtobufCodec", "check_readable"]
