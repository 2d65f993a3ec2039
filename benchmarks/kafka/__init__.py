"""A broker of Kafka on this machine, and Spark's source and sink of Kafka, to measure beside."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark_pravega.sandbox import Bundle, fetch
from pyspark_pravega.sandbox.places import java
from pyspark_pravega.sandbox.ports import free_ports

_HERE = Path(__file__).parent
BROKER, SPARK = (
    Bundle(f"kafka-{name}", _HERE / f"{name}.xml", _HERE / f"{name}.sha256") for name in ("broker", "spark")
)
_PULSE = _HERE / "KafkaPulse.java"


class Broker:
    """A broker that runs; it keeps its data in files, as the page cache has them."""

    def __init__(self, address: str, jars: Path, pid: int) -> None:
        self.address, self.pid = address, pid
        """`host:port`, for `kafka.bootstrap.servers`, and the process."""
        self._jars = jars

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic."""
        self._ask("create", topic, str(partitions))

    def pulse(
        self, source: str, sink: str, *, partitions: int, events: int, warm_up: float, seconds: float
    ) -> list[float]:
        """Write events of 100 bytes to a topic at a steady rate, by a process of its own, and follow another one.

        Args:
            source: the topic that is written.
            sink: the one that is followed; `source` where there is nothing in between.
            partitions: of the latter.
            events: how many a second.
            warm_up: seconds that don't count.
            seconds: how long is measured.

        Returns:
            How long events took, in s, ascending.
        """
        told = self._ask("pulse", source, sink, str(partitions), str(events), f"{warm_up:.0f}", f"{seconds:.0f}")
        return sorted(int(line) / 1e6 for line in told.split())

    def _ask(self, *arguments: str) -> str:
        command = [str(java()), "-Xmx512m", "-cp", f"{self._jars}/*", str(_PULSE), self.address, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Start a broker, which ends with the block.

    Args:
        folder: where it keeps its data and its log.
    """
    jars = fetch(BROKER)
    folder.mkdir(parents=True)
    port, controller = free_ports(2)
    properties, log = folder / "server.properties", folder / "server.log"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    command = [str(java()), "-Xms1g", "-Xmx1g", "-cp", f"{jars}/*"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with log.open("w") as out:
        arguments = ["format", "--cluster-id", cluster, "--config", str(properties)]
        subprocess.run([*command, "kafka.tools.StorageTool", *arguments], check=True, stdout=out, stderr=out)
        process = subprocess.Popen([*command, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
    try:
        started = Broker(f"127.0.0.1:{port}", jars, process.pid)
        # It asks until the broker answers, for a minute.
        started.create("ready", 1)
        yield started
    finally:
        process.kill()
        process.wait()


def spark_jars() -> list[Path]:
    """The jars of Spark's source and sink."""
    return sorted(fetch(SPARK).glob("*.jar"))
