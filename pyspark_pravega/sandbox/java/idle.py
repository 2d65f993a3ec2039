"""What makes a Pravega that keeps its data cheap while nobody uses it."""

from __future__ import annotations

ZOOKEEPER: dict[str, object] = {}
BOOKIE: dict[str, object] = {}
SEGMENT_STORE: dict[str, object] = {}
CONTROLLER: dict[str, object] = {}
