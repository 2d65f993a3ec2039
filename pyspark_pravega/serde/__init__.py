"""Events and Arrow batches: framing, formats and type mapping. Knows nothing of the network."""


def describe() -> str:
    """Which codec this process decodes and encodes with: `native 0.1.0`, or `plain` and why."""
    # Not above: who only wants framing shall not load the formats.
    from pyspark_pravega.serde.native import native_codec as native

    return native.describe()
