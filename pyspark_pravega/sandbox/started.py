"""What a sandbox is to those who use it, whether it is one process or a cluster of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from pyspark_pravega.sandbox.state import State


class Started(ABC):
    """Servers that run as long as a `with` block lasts."""

    _pravega: str

    @abstractmethod
    def start(self) -> Self:
        """Start the servers, and wait until they answer."""

    @abstractmethod
    def stop(self) -> None:
        """End the servers."""

    @abstractmethod
    def _running(self) -> State:
        """What there is to know of the servers; a SandboxError when they don't run."""

    @property
    def pravega(self) -> str:
        """Pravega's version, such as `0.13`."""
        return self._pravega

    @property
    def controller_uri(self) -> str:
        """`tcp://127.0.0.1:PORT`, or `tls://...`; with all controllers where there are several."""
        return self._running().controller_uri

    @property
    def schema_registry_uri(self) -> str:
        """`http://127.0.0.1:PORT`, or `https://...`."""
        return self._running().schema_registry_uri

    def environment(self, *, secrets: bool = True) -> dict[str, str]:
        """What to set for programs that shall use these servers.

        Args:
            secrets: with the user and password, where they ask for them.

        Returns:
            Variable to value.
        """
        return self._running().environment(secrets=secrets)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
