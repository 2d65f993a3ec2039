"""What a failure of Spark says in Java: pyspark's exceptions show their message, and leave the trace out."""

from __future__ import annotations

from collections.abc import Iterator


def java_traces(error: BaseException | None) -> Iterator[str]:
    """The Java traces of an exception and of those that it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # pyspark asks the JVM for it when the exception is made (CapturedException).
        if trace := getattr(error, "_stackTrace", None):
            yield str(trace)
        error = error.__cause__ or error.__context__
