"""What the commit log says of the lake: `entry`."""

from pyspark_pravega.connector.log.tiered.entry import Base, Tiered, base_of, offsets_of, tiered_content, tiered_of

__all__ = ["Base", "Tiered", "base_of", "offsets_of", "tiered_content", "tiered_of"]
