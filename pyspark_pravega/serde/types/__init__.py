"""How Spark's types and those of the formats correspond; docs/types.md has it as tables.

`common` is for all formats, `avro`, `json` and `protobuf` for one each. `fitting` makes a table's columns of others
that hold the same values, `forms` brings these into the one form in which they are kept, and `nesting` makes nested
columns anew. It uses `serde.schemas`.
"""

from pyspark_pravega.serde.types.avro import avro_to_spark, free_name, spark_to_avro
from pyspark_pravega.serde.types.common import CHAR_VARCHAR, arrow_safe, entry_of, is_plain_key
from pyspark_pravega.serde.types.fitting import cast, check_nulls, fit, mismatch
from pyspark_pravega.serde.types.forms import StoredForm
from pyspark_pravega.serde.types.json import is_document, json_to_spark, spark_to_json
from pyspark_pravega.serde.types.nesting import as_numbers, same_names, with_children
from pyspark_pravega.serde.types.protobuf import field_type, has_keys, is_nullable, protobuf_to_spark, spark_to_protobuf

__all__ = [
    "CHAR_VARCHAR",
    "StoredForm",
    "arrow_safe",
    "as_numbers",
    "avro_to_spark",
    "cast",
    "check_nulls",
    "entry_of",
    "field_type",
    "fit",
    "free_name",
    "has_keys",
    "is_document",
    "is_nullable",
    "is_plain_key",
    "json_to_spark",
    "mismatch",
    "protobuf_to_spark",
    "same_names",
    "spark_to_avro",
    "spark_to_json",
    "spark_to_protobuf",
    "with_children",
]
