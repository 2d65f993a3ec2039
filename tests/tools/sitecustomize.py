"""Python imports this when it starts, in each process of the tests that has their PYTHONPATH.

Spark's JVM puts an archive of pyspark's sources before the installed package, which is the same. From an archive each
process compiles anew what it imports: 0.4 s of CPU, more than all the rest of a worker's start. Each worker also reads
its list of files, and that of Spark's own jar.

httpx loads its own command line, with rich and pygments, where those are installed, as here: 0.04 s that nobody needs.

Where `TESTS_PRELOADED` is set, Spark's own daemon loads what workers need before it forks them. As it is it loads
nothing, so each worker of a Python function or a Python data source loads numpy, pyarrow and this package anew.

Where `STRUCK_BY` is set, catalog processes come to harm (`tests/chaos/struck_service.py`).
"""

import os
import sys
from importlib import import_module

if any(place.endswith("site-packages") and os.path.isdir(f"{place}/pyspark") for place in sys.path):
    archives = [place for place in sys.path if place.endswith(("/pyspark.zip", "-src.zip")) or "/spark-core_" in place]
    sys.path[:] = [place for place in sys.path if place not in archives]
    for place in archives:
        sys.path_importer_cache.pop(place, None)

sys.modules["httpx._main"] = None  # type: ignore[assignment]

if os.environ.get("TESTS_PRELOADED") and "pyspark.daemon" in sys.orig_argv:
    from pyspark_pravega.spark import daemon

    with daemon._without_threads():
        for module in (sys.orig_argv[-1], "pyspark_pravega.connector.datasource"):
            import_module(module)
        daemon.load()

if os.environ.get("STRUCK_BY") and "pyspark_pravega.catalog.process.service" in sys.orig_argv:
    import_module("struck_service")
