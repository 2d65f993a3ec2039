"""What `CALL analyze` has kept of a table's columns: `statistics_log`."""

from pyspark_pravega.connector.log.analyzed.statistics_log import StatisticsLog, statistics_id

__all__ = ["StatisticsLog", "statistics_id"]
