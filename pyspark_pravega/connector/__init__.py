"""The Spark data source: options, readers, writers, snapshots and the commit log."""
