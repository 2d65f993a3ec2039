"""Where the lake is, by the catalog's configuration: `spark.sql.catalog.<name>.lake.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark_pravega.errors import ConfigurationError, UnsupportedOperationError

PREFIX = "lake."
TYPE, URI, WAREHOUSE = "type", "uri", "warehouse"
TYPES = ("sql", "rest", "hive", "glue")
_FOLDER, _DATABASE = "pravega-lake", "catalog.db"


@dataclass(frozen=True, kw_only=True)
class LakeConfiguration:
    """Where Iceberg's catalog is, and where its files are."""

    properties: Mapping[str, str]
    """As pyiceberg takes them; they may hold credentials."""
    folder: Path
    """Where the files of tables are."""

    def __repr__(self) -> str:
        return f"LakeConfiguration({self.folder})"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LakeConfiguration:
        """What a configuration says, and for the rest SQLite in a folder beside the program.

        Args:
            options: by names without `lake.`; those that aren't ours go to pyiceberg as they are.

        Raises:
            ConfigurationError: one means nothing.
            UnsupportedOperationError: the files aren't to lie in a folder.
        """
        given = {name.lower(): text.strip() for name, text in options.items() if text.strip()}
        kind = given.get(TYPE, "sql").lower()
        if kind not in TYPES:
            raise ConfigurationError(f'"{PREFIX}{TYPE}" must be one of {", ".join(TYPES)}, not "{kind[:60]}"')
        folder = folder_of(given.get(WAREHOUSE, _FOLDER))
        if kind != "sql" and URI not in given and kind != "glue":
            raise ConfigurationError(f'"{PREFIX}{TYPE}" {kind} needs "{PREFIX}{URI}", where that catalog is')
        uri = given.get(URI, f"sqlite:///{folder / _DATABASE}")
        return cls(properties={**given, TYPE: kind, URI: uri, WAREHOUSE: folder.as_uri()}, folder=folder)


def folder_of(location: str) -> Path:
    """The folder, or the file, of a location.

    Args:
        location: a path, or a URI.

    Raises:
        UnsupportedOperationError: it isn't one of this machine's file system.
    """
    parts = urlsplit(location)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise UnsupportedOperationError(
            f'the lake can\'t be at "{parts.scheme}://{parts.netloc}" yet: "{PREFIX}{WAREHOUSE}" must be a folder that '
            "all machines see by the same path"
        )
    return Path(unquote(parts.path) if parts.scheme else location).absolute()
