"""One client and one registry connection per process and settings, for whoever needs them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache

from pyspark_pravega.client import Client
from pyspark_pravega.connector.memory import keep_freed_memory, spare_what_is_loaded
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.settings import Settings


def shared_client(settings: Settings) -> Client:
    """The process's client for a cluster; it lives as long as the process.

    Args:
        settings: where the cluster is.
    """
    return _client(_connection(settings), os.getpid())


def shared_registry(settings: Settings) -> SchemaRegistry | None:
    """The process's connection to the schema registry; it lives as long as the process.

    Args:
        settings: where the registry is.

    Returns:
        None when no registry is configured.
    """
    return _registry(_connection(settings), os.getpid()) if settings.schema_registry_uri else None


def _connection(settings: Settings) -> Settings:
    """The settings without what isn't about the connection: reads that differ in that share one."""
    return replace(settings, shared_memory=0, format_classes=None)


# A forked process must not use its parent's sockets: the process id is part of the key.
@lru_cache(maxsize=16)
def _client(settings: Settings, pid: int) -> Client:
    del pid
    keep_freed_memory()
    client = Client(settings)
    spare_what_is_loaded()
    return client


@lru_cache(maxsize=16)
def _registry(settings: Settings, pid: int) -> SchemaRegistry:
    del pid
    assert settings.schema_registry_uri
    return SchemaRegistry(
        settings.schema_registry_uri,
        timeout=settings.timeout,
        credentials=settings.credentials(),
        tls=settings.tls,
    )
