"""A real Pravega and a real schema registry on this machine, for demos, tests and notebooks."""

from pyspark_pravega.sandbox.bundles import PRAVEGA, SCHEMA_REGISTRY, Bundle, fetch, pin
from pyspark_pravega.sandbox.servers import Sandbox

__all__ = ["PRAVEGA", "SCHEMA_REGISTRY", "Bundle", "Sandbox", "fetch", "pin"]
