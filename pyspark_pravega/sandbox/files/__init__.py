"""The servers' files: which ones (`manifests`, `bundles`), fetched by Ivy (`ivy`), checked and kept (`pinned`).

`progress` shows how far a fetch is. It uses `sandbox.places` and errors.
"""

from pyspark_pravega.sandbox.files.bundles import PRAVEGA, SCHEMA_REGISTRY, SERVERS, Bundle, fetch, fetch_all, pin

__all__ = ["PRAVEGA", "SCHEMA_REGISTRY", "SERVERS", "Bundle", "fetch", "fetch_all", "pin"]
