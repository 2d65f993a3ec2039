"""The codec in Rust: `native_codec` drives it, `plans` and `avro_plan` tell it what to do with a schema.

It stands in for the plain codecs, which decide what is an error. It uses all of them.
"""

from pyspark_pravega.serde.native.native_codec import SLOWER, NativeCodec, describe, faster

__all__ = ["SLOWER", "NativeCodec", "describe", "faster"]
