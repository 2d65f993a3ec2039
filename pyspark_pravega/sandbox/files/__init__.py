"""The servers' files: which ones (`releases`, `manifests`), fetched by Ivy (`ivy`), kept (`bundles`, `pinned`).

`progress` shows how far a fetch is. It uses `sandbox.places` and errors.
"""

from pyspark_pravega.sandbox.files.bundles import Bundle, fetch, fetch_all, pin
from pyspark_pravega.sandbox.files.releases import PRAVEGA, RELEASES, SCHEMA_REGISTRY, chosen, servers

__all__ = ["PRAVEGA", "RELEASES", "SCHEMA_REGISTRY", "Bundle", "chosen", "fetch", "fetch_all", "pin", "servers"]
