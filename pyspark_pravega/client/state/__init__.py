"""State that several processes share in a stream: `revisions` (entries appended under a condition), `synchronizer`.

`entry_appender` writes the entries. Streams are those of Java's RevisionedStreamClient and StateSynchronizer. It uses
`segments` and below.
"""

from pyspark_pravega.client.state.synchronizer import RevisionedStream, StateSynchronizer

__all__ = ["RevisionedStream", "StateSynchronizer"]
