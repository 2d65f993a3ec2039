"""What goes on while it happens: `pravega-spark ui`, a page on this machine, `pravega-spark top`, and metrics.

`sampling` knows all streams, `watched` one of them, `rates` how fast they grow. `pictures` tells of a stream's
segments, commits and jobs, `tables` and `rows` of its rows and schemas, `around` of what stands beside it. `queries`
reads checkpoints, `progress` remembers lags, `health` says what somebody should look at. `answers` puts that into
JSON, `metrics` into OpenMetrics, `server` hands both out with the files of `page`, `commands` and `top` are the
commands. It writes nothing.
"""

from pyspark_pravega.live.commands import register

__all__ = ["register"]
