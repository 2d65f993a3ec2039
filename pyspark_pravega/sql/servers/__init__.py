"""Servers of Spark that a command runs: the Thrift server, Spark Connect."""
