"""The Spark that is here, if any: where it is, and its Python classes that other rooms build upon.

`types`, `arrow` and `datasource` have Spark's own classes where pyspark is installed. Else they have stand-ins with the
same names, from `plain`, which carry a table's columns as far as programs without Spark need them. Only this room, the
catalog and the sessions import pyspark.
"""

from pyspark_pravega.spark.here import HOME_VARIABLE, INSTALL, IS_IMPORTABLE, Spark, find, needed

__all__ = ["HOME_VARIABLE", "INSTALL", "IS_IMPORTABLE", "Spark", "find", "needed"]
