"""Connections to segment stores, and the cluster that they belong to.

`connection` is one, `pool` all of a client's, found by segment; `tokens` lets them in where authentication is on;
`once` makes a call that must not be made twice. `cluster` is controller and pool together: what all rooms above work
with. It uses `wire` and `controller`.
"""

from pyspark_pravega.client.connections.cluster import Cluster
from pyspark_pravega.client.connections.connection import Connection
from pyspark_pravega.client.connections.once import call_once, uncertain
from pyspark_pravega.client.connections.pool import ConnectionPool, KnownEndpoints

__all__ = ["Cluster", "Connection", "ConnectionPool", "KnownEndpoints", "call_once", "uncertain"]
