"""Pravega without Spark: the controller, the segment store's wire protocol, and what is built on both."""
