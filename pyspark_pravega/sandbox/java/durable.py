"""The command line of a Pravega that keeps its data.

One JVM has ZooKeeper, a bookie, a segment store and a controller (`jvm/sandbox`). What is appended lies in the bookie's
journal, on the disk, before it is acknowledged. Later the segment store moves it to files of the segments.
"""

from __future__ import annotations

from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import state
from pyspark_pravega.sandbox.java import changed, jvm, parts
from pyspark_pravega.sandbox.java.jvm import Launch, Ports
from pyspark_pravega.sandbox.security import Secured

MAIN = "pyspark.pravega.sandbox.Durable"
_SESSION_MS = 20_000
_BUFFERS_BYTES = 256 << 20
"""What is taken outside of the heap beside the cache: buffers of connections, and of the bookie."""


def pravega(
    jars: Path,
    folder: Path,
    ports: Ports,
    *,
    heap: str,
    log_level: str,
    secured: Secured | None = None,
    preallocate: bool = False,
) -> Launch:
    """How to start it; writes its settings files.

    Args:
        jars: the folder of its jars.
        folder: the sandbox's, where settings, temporary files and data go.
        ports: where it shall listen.
        heap: the heap's size, as in `-Xmx`. The cache has half of it, outside.
        log_level: WARN, INFO, DEBUG ...
        secured: what authentication and TLS need.
        preallocate: whether the whole heap is taken from the operating system before the server answers.

    Returns:
        The launch. Everything listens on loopback.

    Raises:
        SandboxError: the package was installed without its Java part.
    """
    if not changed.OWN.exists():
        raise SandboxError(
            f"{changed.OWN} is missing, without which no sandbox keeps its data: install the package again"
        )
    cache = jvm.size_of(heap) // 2
    assert ports.bookie is not None
    assert ports.controller_rest is not None
    settings = (
        parts.zookeeper(ports.zookeeper),
        parts.bookie(
            folder, ports.bookie, ports.zookeeper, name="sandbox", place="bookkeeper", session_ms=_SESSION_MS
        ),
        parts.segment_store(
            ports.segment_store, ports.zookeeper, [ports.controller],
            cache=cache, copies=1, session_ms=_SESSION_MS, secured=secured,
        ),
        parts.controller(
            ports.controller, ports.controller_rest, ports.zookeeper,
            rebalance_s=1, session_ms=_SESSION_MS, secured=secured,
        ),
    )  # fmt: skip
    zookeeper, bookie, store, controller = (
        jvm.write_settings(folder / name, values) for name, values in zip(state.DURABLE_SETTINGS, settings, strict=True)
    )
    properties = {
        "pravega.configurationFile": str(store),
        "conf.file": str(controller),
        "java.util.concurrent.ForkJoinPool.common.parallelism": str(jvm.FORK_JOIN_WORKERS),
    }
    direct = f"-XX:MaxDirectMemorySize={cache + _BUFFERS_BYTES}"
    memory = [*jvm.heap_options(heap, preallocate=preallocate), direct]
    return jvm.launch(
        jvm.pravega_classes(jars, folder),
        folder,
        [MAIN, str(ports.zookeeper), str(zookeeper), str(bookie), parts.LEDGERS],
        properties,
        memory,
        log_level,
    )
