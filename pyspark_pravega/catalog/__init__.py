"""Scopes as namespaces and streams as tables, and the service that Spark's JVM talks to."""
