"""What makes a Pravega cheap while nobody uses it.

Each setting is of something that is done again and again without a request. Measured in docs/sandbox.md.
"""

from __future__ import annotations

SEGMENT_STORE: dict[str, object] = {
    # Each append to the controller's own streams and tables wakes the storage writer, which then moves all that has
    # waited for longer than this. It lies in the journal until then.
    "writer.flush.threshold.milliseconds": 120_000,
    "writer.read.timeout.milliseconds.min": 10_000,
    # Looks for chunks that aren't used any more, in each container.
    "containers.eventprocessor.iteration.delay.ms": 10_000,
    # Goes through the whole cache for what is old.
    "pravegaservice.cache.generation.duration.seconds": 5,
    "pravegaservice.health.interval.seconds": 60,
    # Threads that sleep are woken one after another.
    "pravegaservice.threadPool.core.size": 10,
    "pravegaservice.threadPool.storage.size": 20,
    "pravegaservice.threadPool.lowPriorityTasks.size": 2,
}
CONTROLLER: dict[str, object] = {
    # Looks for watermarks of each bucket of streams each 10 s.
    "controller.watermarking.bucket.count": 2,
    "controller.watermarking.thread.count": 2,
    "controller.health.frequency.seconds": 60,
    "controller.service.asyncTaskPool.size": 20,
}
BOOKIE: dict[str, object] = {
    "flushInterval": 60_000,
    "gcWaitTime": 300_000,
    "minorCompactionInterval": 600,
    "majorCompactionInterval": 3_600,
}
