"""What is known of streams and queries as OpenMetrics, which Prometheus and others collect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark_pravega.live.queries import QueryLine
from pyspark_pravega.live.sampling import StreamLine

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """A metric's name, kind, unit and meaning."""

    name: str
    kind: str
    unit: str
    help: str

    @property
    def sample(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


WRITTEN_BYTES = Metric("pravega_stream_written_bytes", "counter", "bytes", "Bytes ever written, frames included")
WRITTEN_EVENTS = Metric(
    "pravega_stream_written_events", "counter", "events", "Events ever written, without those of others' transactions"
)
STORED_BYTES = Metric("pravega_stream_stored_bytes", "gauge", "bytes", "Bytes from head to tail, frames included")
SEGMENTS = Metric("pravega_stream_segments", "gauge", "", "Segments that take events; 0 of a sealed stream")
VERSION = Metric("pravega_stream_version", "gauge", "", "The commit log's last version; 0 without one")
COMMITTED = Metric(
    "pravega_stream_last_commit_timestamp_seconds", "gauge", "seconds", "When the last version was committed"
)
BATCH = Metric("pravega_query_batch", "gauge", "", "The last micro-batch that a streaming query has committed")
BEHIND_BYTES = Metric("pravega_query_behind_bytes", "gauge", "bytes", "Bytes that a query hasn't read yet")
BEHIND_EVENTS = Metric(
    "pravega_query_behind_events", "gauge", "events", "Events that a query hasn't read yet, estimated beyond 64 KiB"
)
BEHIND_SECONDS = Metric(
    "pravega_query_behind_seconds", "gauge", "seconds", "How old the oldest row is that a query hasn't read yet"
)
METRICS = (
    WRITTEN_BYTES,
    WRITTEN_EVENTS,
    STORED_BYTES,
    SEGMENTS,
    VERSION,
    COMMITTED,
    BATCH,
    BEHIND_BYTES,
    BEHIND_EVENTS,
    BEHIND_SECONDS,
)
"""All of them, as docs/operating.md lists them."""
Labels = dict[str, str]


def exposition(
    streams: Iterable[StreamLine], queries: Sequence[QueryLine], ages: Mapping[tuple[str, str], float]
) -> str:
    """The text that a collector reads.

    Args:
        streams: what is known of streams; those that couldn't be looked at are left out.
        queries: what is known of streaming queries; likewise.
        ages: how old the oldest row is that a query hasn't read, in seconds, by checkpoint and stream.
    """
    samples: dict[Metric, list[tuple[Labels, float]]] = {metric: [] for metric in METRICS}
    for line in streams:
        if line.error is not None:
            continue
        scope, _, name = line.stream.rpartition("/")
        labels = {"scope": scope, "stream": name}
        samples[WRITTEN_BYTES].append((labels, line.written_bytes))
        samples[WRITTEN_EVENTS].append((labels, line.written_events))
        samples[STORED_BYTES].append((labels, line.bytes))
        samples[SEGMENTS].append((labels, line.segments))
        samples[VERSION].append((labels, line.version))
        if line.committed_at is not None:
            samples[COMMITTED].append((labels, line.committed_at / 1000))
    for query in queries:
        labels = {"checkpoint": query.checkpoint, "query": query.query or ""}
        if query.error is not None or query.batch is None:
            continue
        samples[BATCH].append((labels, query.batch))
        for source in query.sources:
            scope, _, name = source.stream.rpartition("/")
            of_stream = {**labels, "scope": scope, "stream": name}
            samples[BEHIND_BYTES].append((of_stream, source.bytes_behind))
            samples[BEHIND_EVENTS].append((of_stream, source.events_behind))
            if (age := ages.get((query.checkpoint, source.stream))) is not None:
                samples[BEHIND_SECONDS].append((of_stream, age))
    return "".join(_family(metric, values) for metric, values in samples.items()) + "# EOF\n"


def _family(metric: Metric, samples: Iterable[tuple[Labels, float]]) -> str:
    lines = [f"# TYPE {metric.name} {metric.kind}"]
    if metric.unit:
        lines.append(f"# UNIT {metric.name} {metric.unit}")
    lines.append(f"# HELP {metric.name} {metric.help}.")
    for labels, value in samples:
        label_text = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        lines.append(f"{metric.sample}{{{label_text}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
