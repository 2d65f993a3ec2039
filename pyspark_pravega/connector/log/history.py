"""How many versions a commit log keeps, or for how long: the table property `history`."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega import values
from pyspark_pravega.errors import ConfigurationError

HISTORY = "history"
LEAST_VERSIONS = 100
"""The last ones stay whatever the property says: who commits looks some of them up."""


@dataclass(frozen=True, kw_only=True)
class History:
    """What is kept: a number of versions, or those of the last while."""

    versions: int | None = None
    milliseconds: int | None = None

    @classmethod
    def parse(cls, text: str) -> History:
        """Read the property.

        Args:
            text: a number of versions, `1000000`, or a time, `30 days`.

        Raises:
            ConfigurationError: it is neither.
        """
        if text.strip().isdigit():
            return cls(versions=values.number(HISTORY, text, least=LEAST_VERSIONS, unit="versions"))
        try:
            milliseconds = round(values.duration(HISTORY, text) * 1000)
        except ConfigurationError:
            milliseconds = 0
        if not milliseconds:
            raise ConfigurationError(
                f'"{HISTORY}" must be a number of versions like 1000000, or a time like 30 days, not "{text[:60]}"'
            )
        return cls(milliseconds=milliseconds)
