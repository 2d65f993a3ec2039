"""Pravega streams as Spark SQL tables."""

__version__ = "0.1.0.dev0"
