"""How well all is: `checks` asks servers and commit logs, `alerts` has the rules for what somebody should look at."""

from pyspark_pravega.live.health.checks import Health

__all__ = ["Health"]
