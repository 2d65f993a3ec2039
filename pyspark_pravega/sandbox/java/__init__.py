"""Java for the sandbox: `jvm` makes command lines, `loopback` and `constants` change classes of the servers.

It uses `sandbox.places`, `sandbox.state` and `sandbox.security`.
"""

from pyspark_pravega.sandbox.java.constants import MAX_TOKEN_TTL_S
from pyspark_pravega.sandbox.java.jvm import LOOPBACK, Launch, Ports

__all__ = ["LOOPBACK", "MAX_TOKEN_TTL_S", "Launch", "Ports"]
