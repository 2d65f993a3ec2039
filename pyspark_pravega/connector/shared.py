"""Where Pravega is for this process, and one client and one registry connection per process and settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pyspark_pravega.client import Client
from pyspark_pravega.connector.memory import keep_freed_memory, spare_what_is_loaded
from pyspark_pravega.found import is_of_cluster, running_sandbox
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.settings import Settings, canonical_key, controller_addresses


def statement_settings(options: Mapping[str, str]) -> Settings:
    """The connection of a read or write without the catalog: its options, else the environment, else the sandbox.

    Args:
        options: keys that aren't connection settings are passed over.

    Raises:
        ConfigurationError: as of `Settings.resolve` and `Settings.for_statement`.
    """
    names_one = "controller-uri" in map(canonical_key, options)
    return Settings.resolve(otherwise=None if names_one else running_sandbox).for_statement(options)


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
    client = Client(settings, presumed=_is_known(settings))
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
        presumed=_is_known(settings),
    )


def _is_known(settings: Settings) -> bool:
    """Whether the addresses are right for sure: servers that don't answer there are gone for a while."""
    return _is_in_task() or is_of_cluster(controller_addresses(settings.controller_uri))


def _is_in_task() -> bool:
    """Whether this process runs a task of Spark: its job was planned by a process that has reached the servers."""
    tasks: Any = sys.modules.get("pyspark.taskcontext")
    return tasks is not None and tasks.TaskContext.get() is not None
