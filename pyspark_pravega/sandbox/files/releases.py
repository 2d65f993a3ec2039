"""Which servers a sandbox can run: Pravega in several versions, and one schema registry for all of them."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.files.bundles import Bundle

VERSION_VARIABLE = "PYSPARK_PRAVEGA_SANDBOX_PRAVEGA"
"""Pravega's version in sandboxes that name none."""
NEWEST = "0.13"
"""Pravega's version where nobody names one."""
_HERE = Path(__file__).parents[1] / "artifacts"

PRAVEGA = Bundle("pravega", _HERE / f"pravega-{NEWEST}.xml", _HERE / f"pravega-{NEWEST}.sha256")
"""The standalone server: controller, segment store and ZooKeeper in one."""
RELEASES = {
    **{
        version: Bundle(f"pravega-{version}", _HERE / f"pravega-{version}.xml", _HERE / f"pravega-{version}.sha256")
        for version in ("0.11", "0.12")
    },
    NEWEST: PRAVEGA,
}
"""Version to standalone server, oldest first."""
SCHEMA_REGISTRY = Bundle("schema-registry", _HERE / "schema-registry.xml", _HERE / "schema-registry.sha256")
"""The schema registry's server."""


def chosen(version: str | None) -> str:
    """Which version of Pravega a sandbox runs.

    Args:
        version: a version; `$PYSPARK_PRAVEGA_SANDBOX_PRAVEGA`, else the newest, when None.

    Returns:
        One of `RELEASES`.

    Raises:
        SandboxError: there's no such one.
    """
    named, where = version, ""
    if named is None:
        named, where = os.environ.get(VERSION_VARIABLE) or NEWEST, f" ({VERSION_VARIABLE})"
    if named not in RELEASES:
        raise SandboxError(f'a sandbox runs Pravega {", ".join(RELEASES)}, not "{named}"{where}')
    return named


def servers(version: str) -> tuple[Bundle, Bundle]:
    """What a sandbox runs.

    Args:
        version: Pravega's, one of `RELEASES`.

    Returns:
        Pravega and the schema registry.
    """
    return RELEASES[version], SCHEMA_REGISTRY
