"""How Spark's types and those of the formats correspond. docs/types.md has it as tables."""

from pyspark_pravega.serde.types.avro import avro_to_spark, spark_to_avro
from pyspark_pravega.serde.types.common import CHAR_VARCHAR, arrow_safe
from pyspark_pravega.serde.types.json import json_to_spark, spark_to_json
from pyspark_pravega.serde.types.protobuf import protobuf_to_spark, spark_to_protobuf

__all__ = [
    "CHAR_VARCHAR",
    "arrow_safe",
    "avro_to_spark",
    "json_to_spark",
    "protobuf_to_spark",
    "spark_to_avro",
    "spark_to_json",
    "spark_to_protobuf",
]
