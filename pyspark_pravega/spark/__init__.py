"""The Spark that is here, if any: where it is (`here`), the jar for it (`jars`), and all that depends on its version.

`types`, `arrow` and `datasource` have Spark's own classes where a pyspark is installed that this package runs on
(`versions`); an older one's lack some, which have stand-ins. Without such a pyspark all have stand-ins of the same
names, from `plain`, which carry a table's columns as far as programs without Spark need them. Only this room, the
catalog and the sessions import pyspark.

What leans on Spark's internals is here, too: workers' processes (`daemon`), their output (`output`), and rows as they
lie in the JVM's memory (`unsafe_rows`); `checks` looks whether the internals are as expected. The JVM's part is
`jvm/common/pyspark/pravega/internals`, and a folder `jvm/spark-*` for each version. It uses `frames` and errors.
"""

from pyspark_pravega.spark.here import HOME_VARIABLE, INSTALL, IS_IMPORTABLE, Spark, find, needed

__all__ = ["HOME_VARIABLE", "INSTALL", "IS_IMPORTABLE", "Spark", "find", "needed"]
