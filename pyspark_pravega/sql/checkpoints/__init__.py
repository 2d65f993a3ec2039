"""What checkpoints of streaming queries tell: `folders` reads them, wherever they lie, and `lag` is the command."""

from pyspark_pravega.sql.checkpoints.folders import Committed, Folder, read_checkpoint

__all__ = ["Committed", "Folder", "read_checkpoint"]
