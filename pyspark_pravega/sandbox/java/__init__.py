"""Java for the sandbox: `jvm` makes command lines, `parts` settings, `changed` a jar of classes that are written anew.

It uses `sandbox.places`, `sandbox.state` and `sandbox.security`.
"""

from pyspark_pravega.sandbox.java.jvm import LOOPBACK, Launch, Ports
from pyspark_pravega.sandbox.java.tokens import DEFAULT_TTL_S, MAX_TTL_S

__all__ = ["DEFAULT_TTL_S", "LOOPBACK", "MAX_TTL_S", "Launch", "Ports"]
