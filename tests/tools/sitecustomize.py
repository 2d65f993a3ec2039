"""Loads what Spark's Python workers need before Spark's daemon forks them, where `TESTS_PRELOADED` is set.

Spark's daemon loads nothing, so each worker of a Python function or a Python data source loads numpy, pyarrow and this
package anew. Python imports this module when it starts.
"""

import os
import sys
from importlib import import_module

if os.environ.get("TESTS_PRELOADED") and "pyspark.daemon" in sys.orig_argv:
    from pyspark_pravega.catalog.process import daemon

    with daemon._without_threads():
        for module in (sys.orig_argv[-1], "pyspark_pravega.connector.datasource"):
            import_module(module)
        daemon.load()
