"""Figures of blocks of events, as the commit log keeps them: those of commits, and of events that were read for it."""

from pyspark_pravega.connector.log.indexes.index_log import IndexLog, ReadIndexes, index_of

__all__ = ["IndexLog", "ReadIndexes", "index_of"]
