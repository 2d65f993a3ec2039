"""The catalog process, which Spark's JVM talks to: `service` answers its requests.

`jobs` plans scans and writes, `stream_reads` streaming reads. It uses the catalog and all below.
"""
