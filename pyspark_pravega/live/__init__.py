"""What goes on while it happens: `pravega-spark ui`, a page on this machine, `pravega-spark top`, and metrics.

`sampling` knows all streams, `watched` one of them. `pictures` tells of a stream's segments, commits and jobs, `tables`
of its rows and schemas, `queries` of checkpoints. `answers` puts that into JSON, `metrics` into OpenMetrics, `server`
hands both out with the files of `page`, `commands` and `top` are the commands. It writes nothing.
"""

from pyspark_pravega.live.commands import register

__all__ = ["register"]
